//! How devices are opened in this run: named or chosen, recorded or not, by which command path.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::Arc;

use clap::ValueEnum;
use uverbs::discover::{Access, CharDevice};
use uverbs::kernel::CommandPath;
use uverbs::recorder::Sink;
use uverbs::rings::Observer;
use uverbs::{Context, OpenOptions};

use crate::failure::{self, Failure, Result};

/// What every command needs to open devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) path: CommandPath,
    pub(crate) recorder: Option<Arc<dyn Sink>>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// How commands to the kernel are encoded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum CommandPathArg {
    /// The newest that the kernel has, per command
    #[default]
    Auto,
    /// ioctl with attributes; fails where a kernel has none
    Ioctl,
    /// Legacy structures inside an ioctl
    InvokeWrite,
    /// write(2)
    Write,
}

impl From<CommandPathArg> for CommandPath {
    fn from(arg: CommandPathArg) -> Self {
        match arg {
            CommandPathArg::Auto => Self::Auto,
            CommandPathArg::Ioctl => Self::Ioctl,
            CommandPathArg::InvokeWrite => Self::InvokeWrite,
            CommandPathArg::Write => Self::Write,
        }
    }
}

impl Session {
    /// Opens the device with that name; without a name, the first that can be opened.
    pub(crate) fn open(&self, name: Option<&str>) -> Result<Context> {
        match name {
            Some(path) if path.contains('/') => {
                check_node(path)?;
                Ok(self.options().open_path(path)?)
            }
            Some(name) => Ok(self.options().open(name)?),
            None => self.open_first(),
        }
    }

    /// Opens the device that the kernel knows by this index.
    pub(crate) fn open_index(&self, index: u32) -> Result<Context> {
        let devices = uverbs::devices()?;
        let found = devices
            .iter()
            .find(|device| device.info().index == Some(index));
        match found {
            Some(device) => Ok(self.options().open_device(device)?),
            None => Err(Failure::with_code(
                failure::NO_DEVICE,
                format_args!("the device with index {index} is gone"),
            )),
        }
    }

    /// Opens every device that can be opened.
    pub(crate) fn open_all(&self) -> Result<Vec<Context>> {
        self.open_up_to(usize::MAX)
    }

    fn open_first(&self) -> Result<Context> {
        self.open_up_to(1)?.pop().ok_or_else(no_devices)
    }

    /// Opens the first `count` devices that can be opened, at least one.
    fn open_up_to(&self, count: usize) -> Result<Vec<Context>> {
        let (mut contexts, mut refused) = (Vec::new(), None);
        for device in uverbs::devices()? {
            if contexts.len() == count {
                break;
            }
            let opened = match (&device.info().access, device.check_supported()) {
                (Access::Refused(error), _) => Err(error.clone()),
                (_, Err(error)) => Err(error),
                _ => self.options().open_device(&device),
            };
            match opened {
                Ok(context) => contexts.push(context),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            _ if !contexts.is_empty() => Ok(contexts),
            Some(error) => Err(Failure::from(error).while_doing("no device can be opened")),
            None => Err(no_devices()),
        }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().command_path(self.path);
        if let Some(sink) = &self.recorder {
            options = options.record(Arc::clone(sink));
        }
        if let Some(observer) = &self.observer {
            options = options.watch_rings(Arc::clone(observer));
        }
        options
    }
}

/// Fails if sysfs says that this node belongs to another kind of device. Without sysfs, opening it
/// has to tell.
fn check_node(path: &str) -> Result<()> {
    let Ok(meta) = fs::metadata(path) else {
        return Ok(());
    };
    let wrong = |what: &str| {
        Err(Failure::with_code(
            failure::NO_DEVICE,
            format_args!("{path} is {what}, not the node of an RDMA device"),
        )
        .hint("uverbs list shows the nodes of RDMA devices"))
    };
    if !meta.file_type().is_char_device() {
        return wrong("not a character device");
    }
    let number = CharDevice::from_rdev(meta.rdev());
    match fs::read_link(format!("/sys/dev/char/{number}/subsystem")) {
        Ok(class) if !class.ends_with("infiniband_verbs") => {
            let class = class
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            wrong(&format!("a device of class {}", class.unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

/// What to do on a machine without devices.
pub(crate) const NO_DEVICES: &str = "load the driver of your adapter, or make a software device: \
     modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0";

/// The failure on a machine without devices.
pub(crate) fn no_devices() -> Failure {
    Failure::with_code(failure::NO_DEVICE, "there are no RDMA devices here").hint(NO_DEVICES)
}
