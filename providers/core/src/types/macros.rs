//! Macros that define most of the vocabulary: open enums and flag sets.

use std::fmt;

/// Defines an enum over kernel numbers that keeps unknown numbers.
///
/// Each variant is `Name = number, "C name", "words";`. Generated: the enum with `Unknown`,
/// `from_raw`, `raw`, `checked`, `c_name`, `ALL` and `Display`.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $repr:ty {
            $( $(#[$vmeta:meta])* $variant:ident = $value:literal, $c:literal, $words:literal; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        $vis enum $name {
            $( $(#[$vmeta])* #[doc(alias = $c)] $variant, )+
            /// A number without a name in this version. Only `from_raw` creates one, and never from
            /// a named number.
            Unknown($crate::types::Unrecognized<$name, $repr>),
        }

        impl $name {
            /// Every named value, in the kernel's order.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The value for a kernel number. Never fails: an unnamed number is kept.
            pub const fn from_raw(raw: $repr) -> Self {
                match raw {
                    $( $value => Self::$variant, )+
                    other => Self::Unknown($crate::types::Unrecognized::new(other)),
                }
            }

            /// The kernel's number.
            pub const fn raw(self) -> $repr {
                match self {
                    $( Self::$variant => $value, )+
                    Self::Unknown(unrecognized) => unrecognized.raw(),
                }
            }

            /// Returns the kernel's number for a request; errors call the field `what`.
            ///
            /// # Errors
            /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an unnamed number: those may be
            /// received, but not sent.
            pub fn checked(self, op: $crate::Op, what: &'static str) -> $crate::Result<$repr> {
                match self {
                    Self::Unknown(unrecognized) => {
                        Err($crate::types::checked::unnamed(op, what, unrecognized.raw().into()))
                    }
                    named => Ok(named.raw()),
                }
            }

            /// The name of the C constant, or `None` for an unknown number.
            pub const fn c_name(self) -> Option<&'static str> {
                match self {
                    $( Self::$variant => Some($c), )+
                    Self::Unknown(_) => None,
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $( Self::$variant => f.pad($words), )+
                    Self::Unknown(raw) => write!(f, "unknown ({raw:?})"),
                }
            }
        }
    };
}

/// Defines a flag set over kernel bits that keeps unknown bits: for sets that a kernel reports.
///
/// Each flag is `NAME = bits, "C name";`. Generated: a `bitflags` type with `Default` (empty),
/// `checked`, and a `Display` of lower-case words separated by commas, `none` when empty, unnamed
/// bits in hexadecimal at the end. `checked` lets the bits after `ignored` pass, since kernels
/// ignore them where they do not know them.
macro_rules! open_flags {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $repr:ty $(, ignored $ignored:literal)? {
            $( $(#[$($fmeta:tt)*])* $flag:ident = $value:expr, $c:literal; )+
        }
    ) => {
        ::bitflags::bitflags! {
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
            $vis struct $name: $repr {
                $( $(#[$($fmeta)*])* #[doc(alias = $c)] const $flag = $value; )+
                const _ = !0;
            }
        }

        $crate::types::macros::flags_in_words! { $name: $repr $(, ignored $ignored)? }
    };
}

/// Defines a flag set that only requests carry: as [`open_flags`], but `all` and `!` are limited to
/// named bits.
macro_rules! request_flags {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $repr:ty {
            $( $(#[$($fmeta:tt)*])* $flag:ident = $value:expr, $c:literal; )+
        }
    ) => {
        ::bitflags::bitflags! {
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
            $vis struct $name: $repr {
                $( $(#[$($fmeta)*])* #[doc(alias = $c)] const $flag = $value; )+
            }
        }

        $crate::types::macros::flags_in_words! { $name: $repr }
    };
}

/// What both kinds of flag sets have in common.
macro_rules! flags_in_words {
    ($name:ident: $repr:ty $(, ignored $ignored:literal)?) => {
        impl $name {
            /// Returns the bits for a request; errors call the field `what`.
            ///
            /// # Errors
            /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the unnamed bits: those may
            /// be received, but not sent.
            pub fn checked(self, op: $crate::Op, what: &'static str) -> $crate::Result<$repr> {
                let minded = self $( .difference(Self::from_bits_retain($ignored)) )?;
                $crate::types::checked::checked_flags(op, what, minded)?;
                Ok(self.bits())
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut names = self.iter_names();
                let mut words = $crate::types::macros::Words::new(f);
                for (name, _) in names.by_ref() {
                    words.word(name)?;
                }
                words.finish(names.remaining().bits().into())
            }
        }
    };
}

pub(crate) use {flags_in_words, open_enum, open_flags, request_flags};

/// Writes flag names as words.
pub(crate) struct Words<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    empty: bool,
}

impl<'a, 'f> Words<'a, 'f> {
    pub(crate) fn new(f: &'a mut fmt::Formatter<'f>) -> Self {
        Self { f, empty: true }
    }

    pub(crate) fn word(&mut self, name: &str) -> fmt::Result {
        use fmt::Write as _;
        self.separate()?;
        for c in name.chars() {
            self.f.write_char(if c == '_' {
                ' '
            } else {
                c.to_ascii_lowercase()
            })?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, unnamed: u64) -> fmt::Result {
        if unnamed != 0 {
            self.separate()?;
            write!(self.f, "{unnamed:#x}")?;
        }
        if self.empty {
            self.f.write_str("none")
        } else {
            Ok(())
        }
    }

    fn separate(&mut self) -> fmt::Result {
        if !std::mem::replace(&mut self.empty, false) {
            self.f.write_str(", ")?;
        }
        Ok(())
    }
}
