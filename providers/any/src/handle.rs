//! Handles of any provider: one variant each, one comparison per call.

/// Queues are in the enum itself: a box would cost one more load per request.
pub(crate) type InPlace<T> = T;

/// Contexts are large, of different sizes, and not in the way of requests.
pub(crate) type Boxed<T> = Box<T>;

/// Defines an enum with one variant per provider, holding the provider's type of this name, in
/// place or boxed.
macro_rules! handle {
    (
        ($(#[$about:meta])* $any:ident of $own:ident, $held:ident)
        $($(#[$on:meta])* $driver:ident = $vendor:ident;)*
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "queues are in place")]
        pub enum $any {
            $(
                $(#[$on])*
                #[doc = concat!("`", stringify!($vendor), "`'s.")]
                $driver($crate::handle::$held<$vendor::$own>),
            )*
        }

        $(
            $(#[$on])*
            impl From<$vendor::$own> for $any {
                fn from(own: $vendor::$own) -> Self {
                    Self::$driver(own.into())
                }
            }

            $(#[$on])*
            #[allow(unreachable_patterns, reason = "there may be no other provider")]
            impl $crate::Of<$vendor::$own> for $any {
                #[inline]
                fn of(&self) -> Option<&$vendor::$own> {
                    match self {
                        Self::$driver(own) => Some(own),
                        _ => None,
                    }
                }

                #[inline]
                fn of_mut(&mut self) -> Option<&mut $vendor::$own> {
                    match self {
                        Self::$driver(own) => Some(own),
                        _ => None,
                    }
                }
            }
        )*
    };
}

/// Makes the same call on whichever variant it is.
macro_rules! arms {
    (($any:expr, $own:pat => $call:expr) $($(#[$on:meta])* $driver:ident = $vendor:ident;)*) => {
        match $any {
            $($(#[$on])* Self::$driver($own) => $call,)*
        }
    };
}
