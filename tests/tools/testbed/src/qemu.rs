//! The QEMU process of a machine.

use crate::accelerator::Accelerator;
use crate::host::ensure;
use crate::{Error, Processor};
use guest_init::PORT_NAME;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Kernel arguments: where the console is, that a panic ends the machine, what makes booting fast,
/// and that lines written by programs are not rate-limited.
const KERNEL_ARGUMENTS: &str = "loglevel=6 panic=-1 random.trust_cpu=on \
    mitigations=off net.ifnames=0 printk.devkmsg=on";

/// The parts of a machine that its user can configure.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// A QEMU other than the one in `PATH`: its command line up to the arguments of the machine.
    pub(crate) qemu: Option<Vec<String>>,
    pub(crate) processor: Processor,
    pub(crate) processors: u32,
    /// Whether the clock counts instructions.
    pub(crate) is_counted: bool,
    pub(crate) memory_mib: u32,
    pub(crate) arguments: Vec<String>,
    pub(crate) kernel_arguments: Vec<String>,
}

impl Parts {
    /// Two processors, 2048 MiB, and the QEMU in `PATH`.
    pub(crate) fn new(processor: Processor) -> Self {
        Self {
            qemu: None,
            processor,
            processors: 2,
            is_counted: false,
            memory_mib: 2048,
            arguments: Vec::new(),
            kernel_arguments: Vec::new(),
        }
    }

    /// The command line up to the arguments of the machine.
    pub(crate) fn program(&self) -> Result<Vec<String>, Error> {
        if let Some(words) = self.qemu.as_ref().filter(|words| !words.is_empty()) {
            return Ok(words.clone());
        }
        let (program, tool) = self.processor.qemu();
        ensure(&[tool])?;
        Ok(vec![program.to_owned()])
    }
}

/// The files through which a machine is controlled, all in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) console: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) image: PathBuf,
    /// QEMU's own error messages.
    pub(crate) errors: PathBuf,
}

impl Paths {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            console: folder.join("console"),
            control: folder.join("control"),
            image: folder.join("image"),
            errors: folder.join("errors"),
        }
    }
}

/// Finds a program in `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// The command that boots a kernel on these parts, with its console in a file and nothing else that
/// belongs to a machine.
pub(crate) fn command(
    parts: &Parts,
    accelerator: Accelerator,
    kernel: &Path,
    paths: &Paths,
) -> Result<Command, Error> {
    let words = parts.program()?;
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    command.args(words);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
    ]);
    command.args([
        "-machine",
        parts.processor.board(),
        "-accel",
        accelerator.words(),
        "-cpu",
        parts.processor.model(),
    ]);
    if accelerator == Accelerator::Counted {
        command.args(["-icount", "shift=0,sleep=off"]);
    }
    command.args([
        "-smp",
        &parts.processors.to_string(),
        "-m",
        &format!("{}M", parts.memory_mib),
    ]);
    command
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(&paths.image);
    command.arg("-append").arg(format!(
        "console={} {KERNEL_ARGUMENTS} {} {}",
        parts.processor.console(),
        parts.processor.kernel_arguments(),
        parts.kernel_arguments.join(" ")
    ));
    command
        .arg("-chardev")
        .arg(format!("file,id=console,path={}", paths.console.display()));
    command.args(["-serial", "chardev:console"]);
    Ok(command)
}

/// Starts the machine; `functions` are arguments for this start only.
pub(crate) fn start(
    parts: &Parts,
    accelerator: Accelerator,
    functions: &[String],
    kernel: &Path,
    paths: &Paths,
) -> Result<Child, Error> {
    let mut command = command(parts, accelerator, kernel, paths)?;
    command.args(["-device", "virtio-serial-pci", "-device", "virtio-rng-pci"]);
    command.arg("-chardev").arg(format!(
        "socket,id=control,path={},server=on,wait=off",
        paths.control.display()
    ));
    command
        .arg("-device")
        .arg(format!("virtserialport,chardev=control,name={PORT_NAME}"));
    command.args(functions).args(&parts.arguments);
    spawn(&mut command, paths)
}

/// Starts QEMU; its error messages are kept.
pub(crate) fn spawn(command: &mut Command, paths: &Paths) -> Result<Child, Error> {
    let errors = File::create(&paths.errors).map_err(Error::file("making", &paths.errors))?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    command
        .spawn()
        .map_err(Error::file("starting", command.get_program()))
}
