//! The representation of C enums: plain constants, and a table from value to name.

/// Defines every member as a constant of the enclosing module, and a module named like the enum
/// with `NAMES`, `name(value)` and `ENUM` (the entry of [`crate::tables`]).
///
/// An enum without a tag in the header is `anonymous`; the name of its module is this crate's.
macro_rules! kernel_enum {
    ($(#[$doc:meta])* enum $name:ident: $type:ident { $($body:tt)* }) => {
        kernel_enum!(@define [$(#[$doc])*] $name $type false $($body)*);
    };
    ($(#[$doc:meta])* anonymous enum $name:ident: $type:ident { $($body:tt)* }) => {
        kernel_enum!(@define [$(#[$doc])*] $name $type true $($body)*);
    };
    (
        @define [$(#[$doc:meta])*] $name:ident $type:ident $anonymous:literal
        $($(#[$member_doc:meta])* $member:ident = $value:expr),* $(,)?
    ) => {
        $(
            $(#[$member_doc])*
            #[doc = concat!("Member of [`mod@", stringify!($name), "`].")]
            pub const $member: $type = $value;
        )*

        $(#[$doc])*
        pub mod $name {
            /// Every member and its value, in the header's order.
            pub const NAMES: &[(&str, $type)] = &[$((stringify!($member), super::$member)),*];

            /// The entry of [`crate::tables`].
            #[allow(
                clippy::cast_lossless, clippy::cast_possible_wrap,
                reason = "`From` is not const; no member comes near 2^63"
            )]
            pub const ENUM: $crate::tables::Enum = $crate::tables::Enum {
                name: stringify!($name),
                anonymous: $anonymous,
                members: &[$((stringify!($member), super::$member as i64)),*],
            };

            /// The name of `value`; the earlier one if two members share it.
            pub const fn name(value: $type) -> Option<&'static str> {
                let mut index = 0;
                while index < NAMES.len() {
                    if NAMES[index].1 == value {
                        return Some(NAMES[index].0);
                    }
                    index += 1;
                }
                None
            }
        }
    };
}
