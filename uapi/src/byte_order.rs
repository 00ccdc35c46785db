//! The kernel's big-endian words: natural alignment, byte order in the type.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! big_endian {
    ($name:ident, $native:ident) => {
        #[doc = concat!("A `", stringify!($native), "` in network byte order, aligned alike.")]
        ///
        /// The alignment is why `zerocopy::big_endian` is not used here: its types are
        /// byte-aligned and would change the layout of the structs around them.
        #[repr(transparent)]
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        pub struct $name($native);

        impl $name {
            /// From a value in the processor's byte order.
            pub const fn new(value: $native) -> Self {
                Self(value.to_be())
            }

            /// The value in the processor's byte order.
            pub const fn get(self) -> $native {
                <$native>::from_be(self.0)
            }

            /// From the word in memory order.
            pub const fn from_raw(raw: $native) -> Self {
                Self(raw)
            }

            /// The word in memory order.
            pub const fn raw(self) -> $native {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}be", self.get())
            }
        }

        impl From<$native> for $name {
            fn from(value: $native) -> Self {
                Self::new(value)
            }
        }

        impl From<$name> for $native {
            fn from(value: $name) -> Self {
                value.get()
            }
        }
    };
}

big_endian!(__be16, u16);
big_endian!(__be32, u32);
big_endian!(__be64, u64);
