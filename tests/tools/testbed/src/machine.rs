//! A machine before it is started.

use crate::accelerator::Accelerator;
use crate::connectx::{self, Connectx, Server};
use crate::debian::{Kernel, Packages, TOOLS};
use crate::guest::Guest;
use crate::host::say;
use crate::image::{self, Wanted};
use crate::qemu::{self, Parts, Paths};
use crate::{Error, accelerator, cargo};
use guest_init::{Config, Topology};
use std::path::PathBuf;
use std::time::Duration;

/// The Debian suite whose programs are installed in a guest by default.
const SUITE: &str = "bookworm";

/// Default time limit for a machine to become ready.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

/// The configuration of a machine; [`boot`](Self::boot) starts it.
#[derive(Clone, Debug)]
pub struct Machine {
    kernel: Kernel,
    topology: Topology,
    userland: Option<Packages>,
    programs: Vec<(String, PathBuf)>,
    files: Vec<(String, PathBuf)>,
    modules: Vec<Wanted>,
    connectx: Option<Connectx>,
    parts: Parts,
    boot_timeout: Duration,
}

/// How many times a machine is booted again after a fault of the emulator.
const MAX_FAULTS: u32 = 2;

/// Whether the kernel hit the breakpoint by which it patches its own code while it boots. When two
/// processors are emulated, the other one sometimes sees it; hardware never shows it.
fn is_emulation_fault(error: &Error) -> bool {
    matches!(error, Error::Machine { console, .. } if console.contains("int3: 0000"))
}

impl Machine {
    /// A machine with this kernel: 2 processors, 2048 MiB, [`Topology::OneHost`], no Debian
    /// programs.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            topology: Topology::OneHost,
            userland: None,
            programs: Vec::new(),
            files: Vec::new(),
            modules: Vec::new(),
            connectx: None,
            parts: Parts::new(kernel.processor()),
            boot_timeout: BOOT_TIMEOUT,
        }
    }

    /// The network and the rxe devices.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Adds software ConnectX functions to the PCI bus: `mlx5_0`, `mlx5_1`, …; see [`connectx`] for
    /// what they become. No rxe device is created in addition unless [`topology`](Self::topology)
    /// is called afterwards.
    ///
    /// A server process is started for each boot, and a QEMU that supports vfio-user is downloaded
    /// if the host has none.
    #[must_use]
    pub fn connectx(mut self, connectx: impl Into<Connectx>) -> Self {
        let connectx = connectx.into();
        if connectx.has_on_demand_paging() {
            // With five-level page tables a region of the whole address space takes 2^26 keys, a
            // gibibyte of them, on 6.12 and before.
            self.parts.kernel_arguments.push("no5lvl".into());
        }
        self.connectx = Some(connectx);
        self.topology = Topology::Bare;
        self
    }

    /// Copies a static program of the host into the guest, where it is found by this name.
    #[must_use]
    pub fn with_binary(mut self, path: impl Into<PathBuf>, name: &str) -> Self {
        self.programs
            .push((format!("/usr/local/bin/{name}"), path.into()));
        self
    }

    /// Copies a file of the host into the guest, to an absolute path.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<PathBuf>, guest_path: &str) -> Self {
        self.files.push((guest_path.into(), path.into()));
        self
    }

    /// Installs Debian's own RDMA programs in the guest: ibverbs-utils with all providers,
    /// perftest, iproute2 (`ip`, `rdma`), strace and busybox, from Debian 12 unless
    /// [`debian_suite`](Self::debian_suite) selects another.
    #[must_use]
    pub fn with_debian_tools(self) -> Self {
        self.with_debian_packages(&TOOLS)
    }

    /// Installs further Debian packages with all their dependencies in the guest. Their
    /// installation scripts are not run.
    #[must_use]
    pub fn with_debian_packages(mut self, packages: &[&str]) -> Self {
        self.userland
            .get_or_insert_with(|| Packages::new(SUITE, &[]))
            .add(packages);
        self
    }

    /// Takes Debian's programs from another suite (`trixie`, `sid`); call it after adding the
    /// packages.
    #[must_use]
    pub fn debian_suite(mut self, suite: &str) -> Self {
        if let Some(userland) = &mut self.userland {
            userland.set_suite(suite);
        }
        self
    }

    /// Loads one more kernel module, after the others, with parameters as `insmod` takes them.
    #[must_use]
    pub fn with_module(mut self, name: &str, parameters: &str) -> Self {
        self.modules.push(Wanted::required(name, parameters));
        self
    }

    /// Memory in MiB (2048 by default).
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.parts.memory_mib = memory_mib;
        self
    }

    /// Number of processors (2 by default).
    #[must_use]
    pub fn processors(mut self, processors: u32) -> Self {
        self.parts.processors = processors;
        self
    }

    /// One processor, emulated, whose clock advances by a nanosecond for each instruction: times
    /// are numbers of instructions, whatever else the host does. While nothing is to be done, the
    /// clock goes on at once to when there is.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.parts.is_counted = true;
        self.processors(1)
    }

    /// Starts a QEMU other than the one in `PATH`: program and first arguments.
    #[must_use]
    pub fn qemu(mut self, command: &[&str]) -> Self {
        self.parts.qemu = Some(command.iter().map(|&word| word.to_owned()).collect());
        self
    }

    /// Adds arguments for QEMU.
    #[must_use]
    pub fn qemu_args(mut self, arguments: &[&str]) -> Self {
        self.parts
            .arguments
            .extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Adds a kernel argument.
    #[must_use]
    pub fn kernel_arg(mut self, argument: &str) -> Self {
        self.parts.kernel_arguments.push(argument.into());
        self
    }

    /// How long the machine may take to become ready (180 s by default).
    #[must_use]
    pub fn boot_timeout(mut self, timeout: Duration) -> Self {
        self.boot_timeout = timeout;
        self
    }

    /// Starts the machine and waits until its devices exist. Whatever is missing is downloaded,
    /// built or installed first.
    ///
    /// # Errors
    /// Something is missing and cannot be obtained, or the machine does not boot
    /// ([`Error::Machine`] with the end of its console).
    pub fn boot(&self) -> Result<Guest, Error> {
        let init = cargo::guest_init(self.kernel.processor())?;
        let kernel = self.kernel.files()?;
        let userland = self.userland.as_ref().map(Packages::folder).transpose()?;
        let mut tree = image::base(userland.as_deref())?;
        for (path, source) in &self.programs {
            tree.program(path, source);
        }
        for (path, source) in &self.files {
            tree.file(path, source)?;
        }
        let devices = self.connectx.as_ref().map(Connectx::devices);
        let config = Config {
            modules: Vec::new(),
            topology: self.topology,
            devices: devices.unwrap_or_default(),
        };
        image::finish(&mut tree, &init, &kernel, &self.modules(), config)?;
        let mut parts = self.parts.clone();
        if self.connectx.is_some() && parts.qemu.is_none() {
            parts.qemu = Some(connectx::qemu()?);
        }
        let accelerator = if parts.is_counted {
            Accelerator::Counted
        } else {
            accelerator::of_machine(&parts.program()?, self.kernel)?
        };
        let mut tries = 0;
        loop {
            let folder = tempfile::Builder::new().prefix("testbed-").tempdir();
            let folder = folder.map_err(Error::file("making a folder in", std::env::temp_dir()))?;
            let paths = Paths::in_folder(folder.path());
            tree.write(&paths.image)?;
            let server = self.connectx.as_ref().map(Server::start).transpose()?;
            let functions = server
                .as_ref()
                .map(|server| server.qemu_arguments(parts.memory_mib));
            let machine = qemu::start(
                &parts,
                accelerator,
                &functions.unwrap_or_default(),
                &kernel.image,
                &paths,
            )?;
            match Guest::meet(machine, server, folder, &paths, self.boot_timeout) {
                Err(error) if is_emulation_fault(&error) && tries < MAX_FAULTS => {
                    tries += 1;
                    say(format_args!(
                        "boots again: the emulator showed the kernel a half-patched instruction"
                    ));
                }
                result => return result,
            }
        }
    }

    fn modules(&self) -> Vec<Wanted> {
        let required = |name| Wanted::required(name, "");
        let mut wanted = vec![
            required("virtio_pci"),
            required("virtio_console"),
            Wanted::optional("virtio_rng"),
            // Kernels before 6.14 request this by its name in the crypto layer when an rxe device
            // is added.
            Wanted::optional("crc32_generic"),
        ];
        wanted.extend(["ib_uverbs", "rdma_ucm", "rdma_rxe", "veth"].map(required));
        wanted.push(Wanted::required("dummy", "numdummies=0"));
        if let Some(connectx) = &self.connectx {
            // Where memory is registered by work requests, the driver creates six thousand keys at
            // the start and destroys them one by one at the end, unless it is configured to keep no
            // more than it has used.
            let core = if connectx.has_on_demand_paging() {
                "prof_sel=0"
            } else {
                ""
            };
            wanted.push(Wanted::required("mlx5_core", core));
            wanted.push(required("mlx5_ib"));
            if connectx.has_subnet_administrator() {
                wanted.push(required("ib_ipoib"));
                wanted.push(Wanted::optional("ib_umad"));
            }
            // A graphics device without hardware, whose memory is registered as dmabufs.
            wanted.push(Wanted::optional("vgem"));
        }
        wanted.extend(["sch_netem", "tun"].map(Wanted::optional));
        wanted.extend(self.modules.iter().cloned());
        wanted
    }
}
