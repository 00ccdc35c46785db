//! Functions served over vfio-user, one UNIX socket each, for QEMU's `vfio-user-pci`.

mod backend;
mod control;
mod guest;
mod vectors;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{IrqInfo, Server, ServerRegion};

use crate::{
    Adapter, BAR0_SIZE, CONFIG_SIZE, Fabric, FunctionConfig, FunctionKind, Options, Trace, VECTORS,
};

/// The longest sleep of the timer thread; receives posted to a stopped queue pair wait this long.
const TICK: Duration = Duration::from_millis(2);

/// What to serve.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub struct Service {
    /// One function per entry, in this order.
    pub functions: Vec<FunctionKind>,
    /// Where the sockets are created: `function0.sock`, … and `control.sock`.
    pub directory: PathBuf,
    /// Options of the fabric.
    pub options: Options,
    /// Whether work requests may be copied through doorbell pages (BlueFlame).
    pub blueflame: bool,
    /// Whether work requests may load the pages of memory keys (UMR).
    pub umr: bool,
    /// Whether pages of memory keys may be absent until they are needed (on-demand paging).
    pub paging: bool,
    /// Whether memory keys may have signatures.
    pub signatures: bool,
    /// Whether what passes through memory keys may be encrypted.
    pub encryption: bool,
    /// Whether device memory has operations, and there is memory for steering by programs.
    pub extended_memory: bool,
    /// Whether DC initiators have streams, which fail one by one.
    pub streams: bool,
    /// Whether queue pairs copy local memory.
    pub copies: bool,
    /// The adapter that the functions are modelled on.
    pub adapter: Option<Arc<Adapter>>,
    /// Whether the first report of incorrect use ends the server with an error.
    pub strict: bool,
}

/// Why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket could not be created.
    #[error("socket {path}: {reason}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// A thread could not be started.
    #[error("thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Incorrect use was seen while strict.
    #[error("wrong use seen: {0}")]
    Strict(String),
}

/// The fabric shared by the threads of a server.
#[derive(Debug)]
pub(crate) struct Shared {
    fabric: Mutex<Fabric>,
    start: Instant,
    wake: Condvar,
}

impl Shared {
    /// Locks the fabric and sets it to the present time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Fabric> {
        let mut fabric = self.fabric.lock().unwrap_or_else(PoisonError::into_inner);
        fabric.set_time(self.now());
        fabric
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Tells the timer thread that there may be an earlier deadline.
    pub(crate) fn nudge(&self) {
        self.wake.notify_one();
    }
}

/// The socket of a function.
#[must_use]
pub fn socket_path(directory: &Path, function: usize) -> PathBuf {
    directory.join(format!("function{function}.sock"))
}

/// Serves until an error, or until the process is ended.
///
/// # Errors
/// [`ServeError::Socket`] if a socket already exists or cannot be created, [`ServeError::Thread`]
/// if the system has no more threads, [`ServeError::Strict`] if the service is strict and incorrect
/// use was seen.
pub fn serve(service: &Service, trace: Arc<Trace>) -> Result<(), ServeError> {
    let mut fabric = Fabric::new(service.options, trace);
    let mut backends = Vec::new();
    for (index, kind) in service.functions.iter().enumerate() {
        let memory = Arc::new(guest::MappedMemory::default());
        let vectors = Arc::new(vectors::Vectors::default());
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let before = service.functions.iter().take(index);
        let ethernet_before = before.filter(|kind| kind.is_ethernet()).count();
        let config = FunctionConfig {
            blueflame: service.blueflame,
            umr: service.umr,
            paging: service.paging,
            signatures: service.signatures,
            encryption: service.encryption,
            extended_memory: service.extended_memory,
            streams: service.streams,
            copies: service.copies,
            adapter: service.adapter.clone(),
            inline_headers: ethernet_before % 2 == 1,
            ..FunctionConfig::numbered(*kind, number)
        };
        fabric.add_function(config, memory.clone(), vectors.clone());
        backends.push((memory, vectors));
    }
    let shared = Arc::new(Shared {
        fabric: Mutex::new(fabric),
        start: Instant::now(),
        wake: Condvar::new(),
    });
    for (function, (memory, vectors)) in backends.into_iter().enumerate() {
        let path = socket_path(&service.directory, function);
        let server = Server::new(&path, true, interrupts(), regions()).map_err(|error| {
            ServeError::Socket {
                path,
                reason: error.to_string(),
            }
        })?;
        let mut backend = backend::Backend {
            shared: Arc::clone(&shared),
            function,
            memory,
            vectors,
        };
        std::thread::Builder::new()
            .name(format!("function{function}"))
            .spawn(move || {
                loop {
                    if let Err(error) = server.run(&mut backend) {
                        eprintln!("connectx: function {function}: {error}");
                    }
                    backend.disconnected();
                }
            })?;
    }
    let control = service.directory.join("control.sock");
    control::listen(&control, Arc::clone(&shared)).map_err(|error| ServeError::Socket {
        path: control,
        reason: error.to_string(),
    })?;
    tick(&shared, service.strict)
}

/// Fails if incorrect use was seen that was not expected.
pub(crate) fn judge(fabric: &Fabric) -> Result<(), ServeError> {
    let reports = fabric.unexpected_reports();
    if reports.is_empty() {
        Ok(())
    } else {
        Err(ServeError::Strict(format!("{reports:?}")))
    }
}

fn tick(shared: &Shared, strict: bool) -> Result<(), ServeError> {
    let mut fabric = shared.lock();
    loop {
        let now = shared.now();
        fabric.advance(now);
        if strict {
            judge(&fabric)?;
        }
        let pause = match fabric.next_deadline() {
            Some(at) => Duration::from_nanos(at.saturating_sub(now)).min(TICK),
            None => TICK,
        };
        (fabric, _) = shared
            .wake
            .wait_timeout(fabric, pause)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_SIZE as u64,
                VFIO_PCI_BAR0_REGION_INDEX => BAR0_SIZE,
                _ => 0,
            };
            let flags = if size == 0 {
                0
            } else {
                VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE
            };
            let region_info = vfio_region_info {
                argsz: u32::try_from(size_of::<vfio_region_info>()).unwrap_or(u32::MAX),
                index,
                flags,
                size,
                ..vfio_region_info::default()
            };
            ServerRegion {
                region_info,
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

fn interrupts() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| {
            let count = if index == VFIO_PCI_MSIX_IRQ_INDEX {
                VECTORS
            } else {
                0
            };
            IrqInfo {
                index,
                flags: if count == 0 { 0 } else { VFIO_IRQ_INFO_EVENTFD },
                count,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counted, Ram};

    #[test]
    fn a_strict_server_ends_at_the_first_report() {
        let mut fabric = Fabric::new(Options::default(), Arc::new(Trace::silent(false)));
        fabric.add_function(
            FunctionConfig::numbered(FunctionKind::InfiniBand, 0),
            Arc::new(Ram::new(4096)),
            Arc::new(Counted::default()),
        );
        assert!(judge(&fabric).is_ok());
        // A doorbell for a queue that does not exist.
        fabric.mmio_write(0, 0x4800, &[0; 8]);
        let shared = Shared {
            fabric: Mutex::new(fabric),
            start: Instant::now(),
            wake: Condvar::new(),
        };
        let end = tick(&shared, true);
        assert!(
            matches!(&end, Err(ServeError::Strict(seen)) if seen.contains("send doorbell")),
            "{end:?}"
        );
    }
}
