//! The server process behind a machine's functions.

use super::{Connectx, PORT_NAME};
use crate::{Error, cargo};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the server may take to create its sockets, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; it is killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    folder: TempDir,
    functions: usize,
}

impl Server {
    /// Starts the server, after building it if it is not up to date.
    pub(crate) fn start(connectx: &Connectx) -> Result<Self, Error> {
        let build = ["build", "--package", "connectx", "--bin", "connectx"];
        let build = [&build[..], &cargo::PROFILE].concat();
        let program = cargo::build_host_program("connectx", &build)?;
        let folder = tempfile::Builder::new().prefix("connectx-").tempdir();
        let folder = folder.map_err(Error::file("making a folder in", std::env::temp_dir()))?;
        let said = folder.path().join("said");
        let errors = File::create(&said).map_err(Error::file("making", said))?;
        let process = Command::new(&program)
            .args(connectx.arguments())
            .arg("--socket-dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(Error::file("starting", program))?;
        let mut server = Self {
            process,
            folder,
            functions: connectx.functions().len(),
        };
        server.wait_for_sockets()?;
        Ok(server)
    }

    fn wait_for_sockets(&mut self) -> Result<(), Error> {
        let since = Instant::now();
        // The server creates this socket last.
        while !self.control_socket().exists() {
            if matches!(self.process.try_wait(), Ok(Some(_))) || since.elapsed() > PATIENCE {
                return Err(self.broken("did not start"));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Sends one query to the control socket (`help` lists them) and returns the first line of the
    /// answer.
    ///
    /// # Errors
    /// The server is gone.
    pub fn ask(&self, question: &str) -> Result<String, Error> {
        let answer = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(self.control_socket())?;
            stream.set_read_timeout(Some(PATIENCE))?;
            writeln!(stream, "{question}")?;
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer)?;
            Ok(answer)
        };
        match answer() {
            Ok(answer) if answer.ends_with('\n') => Ok(answer.trim().to_owned()),
            Ok(_) => Err(self.broken("said nothing")),
            Err(error) => Err(self.broken(&format!("cannot be reached: {error}"))),
        }
    }

    /// Number of functions.
    pub fn functions(&self) -> usize {
        self.functions
    }

    /// What the server has written to its standard error so far.
    pub fn said(&self) -> String {
        let bytes = fs::read(self.folder.path().join("said")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Arguments for QEMU: memory that the server can access, a PCI port for each function, and a
    /// connection from programs in the guest to the control socket.
    pub(crate) fn qemu_arguments(&self, memory_mib: u32) -> Vec<String> {
        let mut words = vec![
            "-object".to_owned(),
            format!("memory-backend-memfd,id=memory,size={memory_mib}M,share=on"),
            "-numa".to_owned(),
            "node,memdev=memory".to_owned(),
        ];
        for function in 0..self.functions {
            let socket = self.folder.path().join(format!("function{function}.sock"));
            words.extend([
                "-device".to_owned(),
                format!("pcie-root-port,id=port{function},chassis={function},slot={function}"),
                "-device".to_owned(),
                device(function, &socket),
            ]);
        }
        words.extend([
            "-chardev".to_owned(),
            format!(
                "socket,id=connectx,path={},server=off",
                self.control_socket().display()
            ),
            "-device".to_owned(),
            format!("virtserialport,chardev=connectx,name={PORT_NAME}"),
        ]);
        words
    }

    fn control_socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    fn broken(&self, what: &str) -> Error {
        Error::Connectx {
            what: what.into(),
            said: self.said(),
        }
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
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
