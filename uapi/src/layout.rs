//! Asserts that a struct has the kernel's layout, where it is defined.

use crate::tables::Struct;

/// A struct or union whose layout is asserted, with that layout as a value.
pub trait Layout {
    /// Size, alignment and every field.
    const LAYOUT: Struct;
}

/// The size of what `field` projects to.
pub(crate) const fn field_size<S, F>(_field: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// `name` without the `r#` that a Rust keyword needs.
pub(crate) const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Fails to compile unless the struct has this size, this alignment and these fields at these
/// offsets, and no others; makes the layout readable as [`Layout::LAYOUT`].
///
/// ```text
/// assert_layout!(name, size 16, align 8, { field @ offset, … });
/// ```
///
/// Optional parts, in this order:
/// * `as "outer.member"`: the path of a C type that has no name of its own;
/// * `also { name @ offset + size, … }`: further names of the same bytes (unnamed C unions);
/// * `open { name @ offset, … }`: flexible arrays, which the Rust struct leaves out.
macro_rules! assert_layout {
    (
        $name:ident, size $size:literal, align $align:literal,
        { $($field:ident @ $offset:literal),* $(,)? }
        $(, as $($path:literal)|+)?
        $(, also { $($also:ident @ $also_offset:literal + $also_size:literal),+ $(,)? })?
        $(, open { $($open:ident @ $open_offset:literal),+ $(,)? })?
    ) => {
        const _: () = {
            const fn names_every_field(value: &$name) {
                let $name { $($field: _),* } = value;
            }

            assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            assert!(align_of::<$name>() == $align, concat!("alignment of ", stringify!($name)));
            $(assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($name), ".", stringify!($field)),
            );)*
            $($(assert!(
                $also_offset + $also_size <= $size,
                concat!("extent of ", stringify!($name), ".", stringify!($also)),
            );)+)?
            $($(assert!(
                $open_offset == $size,
                concat!("flexible array ", stringify!($name), ".", stringify!($open)),
            );)+)?
            names_every_field(&zerocopy::transmute!([0u8; $size]));
        };

        impl $crate::layout::Layout for $name {
            const LAYOUT: $crate::tables::Struct = $crate::tables::Struct {
                rust: stringify!($name),
                names: assert_layout!(@names $name $(, $($path)+)?),
                size: $size,
                align: $align,
                fields: &[
                    $($crate::tables::Field {
                        name: $crate::layout::plain(stringify!($field)),
                        offset: $offset,
                        size: $crate::layout::field_size(|value: &$name| &value.$field),
                    },)*
                    $($($crate::tables::Field {
                        name: $crate::layout::plain(stringify!($also)),
                        offset: $also_offset,
                        size: $also_size,
                    },)+)?
                    $($($crate::tables::Field {
                        name: $crate::layout::plain(stringify!($open)),
                        offset: $open_offset,
                        size: 0,
                    },)+)?
                ],
            };
        }
    };
    (@names $name:ident) => { &[stringify!($name)] };
    (@names $name:ident, $($path:literal)+) => { &[$($path),+] };
}

/// A zeroed `Default` for structs whose arrays are too long for the derive.
macro_rules! default_zeroed {
    ($($name:ident),+ $(,)?) => {$(
        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )+};
}

/// A C union: plain words of the same size and alignment, with a typed view of each member.
///
/// Each member becomes a method that reads it and a `From` that writes it; bytes beyond a short
/// member are written as zeros. Reading a member that was not written is harmless: it reinterprets
/// the bytes.
///
/// ```text
/// kernel_union! {
///     /// What it selects.
///     union name: [u64; 3] = "outer.member" { arm: type, … }
/// }
/// ```
macro_rules! kernel_union {
    (
        $(#[$doc:meta])*
        union $name:ident: [$word:ty; $count:literal] = $($path:literal)|+ {
            $($(#[$arm_doc:meta])* $arm:ident: $type:ty),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
        pub struct $name {
            /// The storage, as words of the union's alignment.
            words: [$word; $count],
        }

        impl $name {
            $($(#[$arm_doc])*
            #[doc = concat!("The bytes read as `", stringify!($arm), "`.")]
            pub fn $arm(&self) -> $type {
                #[repr(C)]
                #[derive(FromBytes)]
                struct Arm {
                    value: $type,
                    rest: [u8; size_of::<$name>() - size_of::<$type>()],
                }
                let Arm { value, rest: _ } = zerocopy::transmute!(self.words);
                value
            })+
        }

        default_zeroed!($name);

        $(impl From<$type> for $name {
            fn from(value: $type) -> Self {
                #[repr(C)]
                #[derive(IntoBytes)]
                struct Arm {
                    value: $type,
                    rest: [u8; size_of::<$name>() - size_of::<$type>()],
                }
                let rest = [0; size_of::<$name>() - size_of::<$type>()];
                Self { words: zerocopy::transmute!(Arm { value, rest }) }
            }
        })+

        impl $crate::layout::Layout for $name {
            const LAYOUT: $crate::tables::Struct = $crate::tables::Struct {
                rust: stringify!($name),
                names: &[$($path),+],
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$($crate::tables::Field {
                    name: stringify!($arm),
                    offset: 0,
                    size: size_of::<$type>(),
                }),+],
            };
        }
    };
}
