//! The virtio port that carries the frames.

use crate::error::{Doing as _, Error};
use guest_init::{Event, PORT_FOLDER, PORT_NAME, Request};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// How often, and how long each time, to wait for the port to appear and for a host that is not
/// connected (yet).
const PATIENCE: (u32, Duration) = (100, Duration::from_millis(20));

/// The host's requests, until it disconnects.
#[derive(Debug)]
pub(crate) struct Incoming {
    port: BufReader<File>,
    line: Vec<u8>,
}

/// The writer of events. Clones share one port; a frame is never split by another one.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(Arc<Mutex<File>>);

/// Opens the port.
pub(crate) fn open() -> Result<(Incoming, Outgoing), Error> {
    let path = find()?;
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .doing(|| format!("opening {}", path.display()))?;
    let reader = port
        .try_clone()
        .doing(|| format!("opening {} again", path.display()))?;
    let incoming = Incoming {
        port: BufReader::new(reader),
        line: Vec::new(),
    };
    Ok((incoming, Outgoing(Arc::new(Mutex::new(port)))))
}

fn find() -> Result<PathBuf, Error> {
    let (attempts, pause) = PATIENCE;
    for _ in 0..attempts {
        for entry in fs::read_dir("/sys/class/virtio-ports")
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == PORT_NAME {
                return Ok(PathBuf::from("/dev").join(entry.file_name()));
            }
        }
        sleep(pause);
    }
    Err(Error::new(
        format!("looking for the virtio port {PORT_NAME}"),
        "there is none",
    ))
}

/// Creates a named link for every virtio port that has a name.
pub(crate) fn name_ports() -> Result<(), Error> {
    let doing = || format!("naming the virtio ports in {PORT_FOLDER}");
    fs::create_dir_all(PORT_FOLDER).doing(doing)?;
    let ports = fs::read_dir("/sys/class/virtio-ports").doing(doing)?;
    for port in ports.flatten() {
        let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
        let link = PathBuf::from(PORT_FOLDER).join(name.trim());
        if name.trim().is_empty() || link.is_symlink() {
            continue;
        }
        let target = PathBuf::from("/dev").join(port.file_name());
        std::os::unix::fs::symlink(target, link).doing(doing)?;
    }
    Ok(())
}

impl Iterator for Incoming {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (mut attempts, pause) = PATIENCE;
        self.line.clear();
        loop {
            match self.port.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => match serde_json::from_slice(&self.line) {
                    Ok(request) => return Some(request),
                    Err(error) => {
                        eprintln!("testbed: a request that is none: {error}");
                        self.line.clear();
                    }
                },
                // End of file: no host is connected. It may not be there yet, or it may be gone.
                Ok(_) if attempts > 0 => {
                    attempts -= 1;
                    sleep(pause);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

impl Outgoing {
    /// Sends an event. [`Incoming`] notices when the host is gone.
    pub(crate) fn send(&self, event: &Event) {
        match serde_json::to_vec(event) {
            Ok(mut frame) => {
                frame.push(b'\n');
                let _ = self
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .write_all(&frame);
            }
            Err(error) => eprintln!("testbed: an event that cannot be written: {error}"),
        }
    }
}
