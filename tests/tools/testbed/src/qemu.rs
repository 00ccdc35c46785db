//! The machine itself.

use crate::host::ensure;
use crate::{Error, Processor, accelerator};
use guest_init::PORT_NAME;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the kernel is told: where its console is, that a panic ends the machine, what makes booting quick,
/// and that lines written by programs are not thinned out.
const KERNEL_ARGUMENTS: &str = "loglevel=6 panic=-1 random.trust_cpu=on \
    mitigations=off net.ifnames=0 printk.devkmsg=on";

/// The parts of a machine that its user chooses.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Another QEMU than the one in `PATH`: its command line up to the arguments of the machine.
    pub(crate) qemu: Option<Vec<String>>,
    pub(crate) processor: Processor,
    pub(crate) processors: u32,
    pub(crate) memory_mib: u32,
    pub(crate) arguments: Vec<String>,
    pub(crate) kernel_arguments: Vec<String>,
}

/// The files through which a machine is reached, all in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) console: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) image: PathBuf,
    /// What QEMU itself complains about.
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

/// Starts the machine; `functions` are arguments for this start alone.
pub(crate) fn start(
    parts: &Parts,
    functions: &[String],
    kernel: &Path,
    paths: &Paths,
) -> Result<Child, Error> {
    let mut command = if let Some((program, words)) =
        parts.qemu.as_deref().and_then(|words| words.split_first())
    {
        let mut command = Command::new(program);
        command.args(words);
        command
    } else {
        let (program, tool) = parts.processor.qemu();
        ensure(&[tool])?;
        Command::new(program)
    };
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
        accelerator::of_machines(parts.processor)?.words(),
        "-cpu",
        parts.processor.model(),
    ]);
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
    command.args([
        "-serial",
        "chardev:console",
        "-device",
        "virtio-serial-pci",
        "-device",
        "virtio-rng-pci",
    ]);
    command.arg("-chardev").arg(format!(
        "socket,id=control,path={},server=on,wait=off",
        paths.control.display()
    ));
    command
        .arg("-device")
        .arg(format!("virtserialport,chardev=control,name={PORT_NAME}"));
    command.args(functions).args(&parts.arguments);
    let errors = File::create(&paths.errors).map_err(Error::file("making", &paths.errors))?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    command
        .spawn()
        .map_err(Error::file("starting", command.get_program()))
}
