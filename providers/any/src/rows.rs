//! The list of providers.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use uverbs_core::contract::{self, OpenInit};
use uverbs_core::discover::DeviceInfo;
use uverbs_core::types::DriverId;
use uverbs_core::{Error, ErrorKind, Op, Result, UverbsFile};

use crate::context::AnyContext;

/// The providers, one row each: the feature that enables it, its driver's name in [`DriverId`], its
/// crate. `$with` is a macro that is called with what is in the brackets, and with all rows.
macro_rules! rows {
    ($with:ident!($($given:tt)*)) => {
        $with! {
            ($($given)*)
            #[cfg(feature = "mlx5")] Mlx5 = uverbs_mlx5;
            #[cfg(feature = "rxe")] Rxe = uverbs_rxe;
        }
    };
}

/// A provider.
#[derive(Clone)]
pub struct Provider {
    /// The driver whose devices it supports.
    pub driver: DriverId,
    /// The versions of that driver's ABI that it supports.
    pub abi: RangeInclusive<u32>,
    open: Open,
}

type Open = fn(Arc<UverbsFile>, &OpenInit<'_>) -> Result<AnyContext>;

macro_rules! table {
    (() $($(#[$on:meta])* $driver:ident = $vendor:ident;)*) => {
        /// All providers, in the order in which a device is probed for their drivers.
        pub const PROVIDERS: &[Provider] = &[$(
            $(#[$on])*
            Provider {
                driver: DriverId::$driver,
                abi: $vendor::ABI_VERSIONS,
                open: open_one::<$vendor::Context>,
            },
        )*];
    };
}

rows!(table!());

fn open_one<T>(file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<AnyContext>
where
    T: contract::Context,
    AnyContext: From<T>,
{
    Ok(T::open(file, init)?.into())
}

/// The driver of a device, if a provider supports it in the kernel's ABI version; `None` if
/// discovery could not determine the driver.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported): no provider for the driver, or for its ABI version.
pub fn supported(info: &DeviceInfo) -> Result<Option<DriverId>> {
    let Some(driver) = info.driver_id() else {
        return Ok(None);
    };
    match PROVIDERS.iter().find(|provider| provider.driver == driver) {
        Some(provider) => {
            info.check_abi(provider.abi.clone())?;
            Ok(Some(driver))
        }
        None => Err(Error::new(Op::OpenDevice, ErrorKind::Unsupported)
            .fact("device", info.name.clone())
            .fact("driver", driver.to_string())),
    }
}

/// Opens a user context on `file`, a device of `driver`.
///
/// # Errors
/// Those of the provider; [`Unsupported`](ErrorKind::Unsupported): there is no provider for this
/// driver.
pub fn open(driver: DriverId, file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<AnyContext> {
    let provider = PROVIDERS.iter().find(|provider| provider.driver == driver);
    let provider = provider.ok_or_else(|| {
        Error::new(Op::OpenDevice, ErrorKind::Unsupported).fact("driver", driver.to_string())
    })?;
    (provider.open)(file, init)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.driver, self.abi)
    }
}
