//! An opened mlx5 device, with what only mlx5 devices have.

use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::Clock;
use uverbs_mlx5::caps::Caps;
use uverbs_mlx5::devx::Devx;
use uverbs_mlx5::sched::Scheduler;

use crate::Context;

/// An opened mlx5 device. Cheap to create.
#[derive(Clone, Debug)]
pub struct Adapter {
    context: Context,
}

impl Context {
    /// `mlx5dv_is_supported`—the device with what only mlx5 devices have.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a device with another driver.
    #[doc(alias = "mlx5dv_is_supported")]
    #[doc(alias = "mlx5dv_open_device")]
    pub fn mlx5(&self) -> Result<Adapter> {
        if self.of_mlx5().is_some() {
            return Ok(Adapter {
                context: self.clone(),
            });
        }
        Err(Error::new(Op::Provider, ErrorKind::Unsupported)
            .fact("device", self.name().to_owned())
            .fact("needs_driver", "mlx5"))
    }
}

impl Adapter {
    /// The provider's part of it.
    pub(crate) fn provider(&self, op: Op) -> Result<&uverbs_mlx5::Context> {
        let provider = self.context.of_mlx5();
        provider.ok_or_else(|| Error::new(op, ErrorKind::Unsupported))
    }

    /// The opened device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `mlx5dv_query_device`—what the device can do, as the kernel's driver reported when the
    /// device was opened.
    #[doc(alias = "mlx5dv_query_device")]
    pub fn caps(&self) -> Caps {
        let provider = self.context.of_mlx5();
        provider.map(|context| *context.caps()).unwrap_or_default()
    }

    /// Access to the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the kernel opened the device without a user context
    /// for firmware commands, because the device or kernel supports none, or had no room for one
    /// more.
    pub fn devx(&self) -> Result<Devx> {
        let provider = self.context.of_mlx5();
        if provider.is_some_and(uverbs_mlx5::Context::has_devx) {
            return Ok(Devx::new(&self.context.inner.file));
        }
        Err(Error::new(Op::DevxCommand, ErrorKind::Unsupported)
            .fact("device", self.context.name().to_owned())
            .fact("lacking", "DEVX")
            .hint("the device or kernel has no DEVX for users, or has no room for another user"))
    }

    /// The device's clock, which timestamps of completions come from. Two system calls the first
    /// time, none later.
    ///
    /// ```no_run
    /// let context = uverbs::Context::open("mlx5_0")?;
    /// let clock = context.mlx5()?.clock()?;
    /// let (count, info) = (clock.count()?, clock.info()?);
    /// println!("{count} counts are {} ns since 1970", info.to_nanoseconds(count));
    /// # Ok::<(), uverbs::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device or the kernel has no clock to map.
    #[doc(alias = "ibv_query_rt_values_ex")]
    #[doc(alias = "mlx5dv_get_clock_info")]
    pub fn clock(&self) -> Result<Clock> {
        self.provider(Op::MapClock)?.clock()
    }

    /// The tree of scheduling elements. Two system calls, which query what the device supports.
    ///
    /// # Errors
    /// As [`devx`](Self::devx), and those of the queries.
    pub fn scheduling(&self) -> Result<Scheduler> {
        Scheduler::new(self.devx()?)
    }
}
