//! Handles of any provider: one variant each, one comparison per call.

/// Defines an enum with one variant per provider, holding the provider's type of this name.
macro_rules! handle {
    (
        ($(#[$about:meta])* $any:ident of $own:ident)
        $($(#[$on:meta])* $driver:ident = $vendor:ident;)*
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        #[allow(
            clippy::large_enum_variant,
            reason = "queues: a box would cost one more load per request"
        )]
        pub enum $any {
            $(
                $(#[$on])*
                #[doc = concat!("`", stringify!($vendor), "`'s.")]
                $driver($vendor::$own),
            )*
        }

        $(
            $(#[$on])*
            impl From<$vendor::$own> for $any {
                fn from(own: $vendor::$own) -> Self {
                    Self::$driver(own)
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
