//! The shapes most of the vocabulary has: an open enum, and flag sets.

use std::fmt;

/// Defines an enum over kernel numbers which keeps what it does not know.
///
/// Each variant is `Name = number, "C name", "words";`. Generated: the enum with `Unknown`,
/// `from_raw`, `raw`, `asked`, `c_name`, `ALL` and `Display`.
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
            /// A number this version has no name for. `from_raw` never puts a known number here,
            /// and nothing else makes one.
            Unknown($crate::types::Unrecognized<$name, $repr>),
        }

        impl $name {
            /// Every named value, in the kernel's order.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The value for a kernel number. Total: an unnamed number is kept.
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

            /// The kernel's number for a request, whose `what` it is.
            ///
            /// # Errors
            /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a number without a name: those
            /// are read, never asked for.
            pub fn asked(self, op: $crate::Op, what: &'static str) -> $crate::Result<$repr> {
                match self {
                    Self::Unknown(unrecognized) => {
                        Err($crate::types::asked::unnamed(op, what, unrecognized.raw().into()))
                    }
                    named => Ok(named.raw()),
                }
            }

            /// The name C programs use, none for an unknown number.
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

/// Defines a flag set over kernel bits which keeps bits it does not know: a kernel says such sets.
///
/// Each flag is `NAME = bits, "C name";`. Generated: a `bitflags` type with `Default` (empty),
/// `asked`, and a `Display` of lower-case words separated by commas, `none` when empty, unnamed
/// bits in hexadecimal at the end. After `ignored`, `asked` passes bits that nobody minds.
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

/// Defines a flag set that is only ever asked for: as [`open_flags`], but `all` and `!` know named
/// bits alone.
macro_rules! asked_flags {
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

/// What both kinds of flag sets have besides.
macro_rules! flags_in_words {
    ($name:ident: $repr:ty $(, ignored $ignored:literal)?) => {
        impl $name {
            /// The bits for a request, whose `what` they are.
            ///
            /// # Errors
            /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the bits that have no name
            /// here: those are read, never asked for.
            pub fn asked(self, op: $crate::Op, what: &'static str) -> $crate::Result<$repr> {
                let minded = self $( .difference(Self::from_bits_retain($ignored)) )?;
                $crate::types::asked::asked_flags(op, what, minded)?;
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

pub(crate) use {asked_flags, flags_in_words, open_flags};

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
