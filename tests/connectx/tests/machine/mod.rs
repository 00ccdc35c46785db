//! A machine whose PCI functions are those of a running `connectx`.

mod qemu;

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use testbed::{Guest, Kernel, Machine, Topology};

const MEMORY_MIB: u32 = 2048;

/// A server and where it keeps its sockets; both go with it.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    functions: usize,
}

impl Server {
    /// Starts a server with functions of these kinds.
    pub(crate) fn start(kinds: &[&str]) -> Self {
        Self::start_with(kinds, &[])
    }

    /// As [`Server::start`], with further options.
    pub(crate) fn start_with(kinds: &[&str], options: &[&str]) -> Self {
        static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("connectx-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the sockets");
        let mut process = Process::new(env!("CARGO_BIN_EXE_connectx"));
        for kind in kinds {
            process.args(["--function", kind]);
        }
        let child = process
            .args(options)
            .arg("--socket-dir")
            .arg(&folder)
            .arg("--trace")
            .arg(folder.join("trace"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        let server = Self {
            child,
            folder,
            functions: kinds.len(),
        };
        let start = Instant::now();
        while !server.control_socket().exists() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the server made no sockets"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn control_socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    /// Where the server writes what it is asked.
    pub(crate) fn trace(&self) -> PathBuf {
        self.folder.join("trace")
    }

    /// Asks one question of the control socket.
    pub(crate) fn ask(&self, line: &str) -> String {
        let mut stream =
            UnixStream::connect(self.control_socket()).expect("the control socket answers");
        writeln!(stream, "{line}").expect("the control socket listens");
        let mut answer = String::new();
        BufReader::new(stream)
            .read_line(&mut answer)
            .expect("the control socket answers");
        answer.trim().to_owned()
    }

    /// Boots a machine with Debian's RDMA programs and every function of this server.
    pub(crate) fn boot(&self, kernel: &str, packages: &[&str]) -> Guest {
        let qemu = qemu::command().expect("a QEMU with vfio-user");
        let qemu: Vec<&str> = qemu.iter().map(String::as_str).collect();
        let memory = format!("memory-backend-memfd,id=m,size={MEMORY_MIB}M,share=on");
        let mut machine = Machine::new(Kernel::named(kernel).expect("a known kernel"))
            .topology(Topology::Bare)
            .memory_mib(MEMORY_MIB)
            .qemu(&qemu)
            .qemu_args(&["-object", &memory, "-numa", "node,memdev=m"])
            .with_module("mlx5_core", "")
            .with_module("mlx5_ib", "")
            .with_debian_tools();
        if !packages.is_empty() {
            machine = machine.with_debian_packages(packages);
        }
        for function in 0..self.functions {
            let port =
                format!("pcie-root-port,id=port{function},chassis={function},slot={function}");
            let socket = self.folder.join(format!("function{function}.sock"));
            machine = machine.qemu_args(&["-device", &port, "-device", &device(function, &socket)]);
        }
        let guest = machine.boot().expect("the machine boots");
        let ready = format!(
            "for try in $(seq 100); do [ $(ls /dev/infiniband | grep -c uverbs) -ge {} ] && exit 0; sleep 0.1; done; exit 1",
            self.functions
        );
        guest
            .run(testbed::Command::shell(ready))
            .expect("the guest runs commands")
            .check()
            .expect("every function gets its device");
        guest
    }
}

fn device(function: usize, socket: &Path) -> String {
    format!(
        "{{\"driver\":\"vfio-user-pci\",\"bus\":\"port{function}\",\"rombar\":0,\
         \"socket\":{{\"type\":\"unix\",\"path\":\"{}\"}}}}",
        socket.display()
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Lines of the kernel log that the drivers write about the model and that have a reason.
const EXPECTED: [(&str, &str); 2] = [
    (
        "PTM is not supported by PCIe",
        "precision time measurement is not modelled",
    ),
    ("loading out-of-tree module", "not about the device"),
];

/// Warnings of the drivers that have no reason on the list.
pub(crate) fn complaints(guest: &Guest) -> Vec<String> {
    let log = guest.kernel_log();
    let ours = log.iter().filter(|line| {
        line.level <= 4
            && ["mlx5", "infiniband"]
                .iter()
                .any(|name| line.text.contains(name))
            && !EXPECTED.iter().any(|(text, _)| line.text.contains(text))
    });
    ours.chain(testbed::complaints::among(&log))
        .map(|line| line.text.clone())
        .collect()
}
