//! Sockets that show their peer that they are there when nothing is sent (`SO_KEEPALIVE`), and find
//! out in that way whether the peer is: a thread writes nothing into its memory now and then. It
//! ends with the last such socket.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::flow::Phase;
use super::stream::{Stream, lock};
use super::wire::{Control, Message};
use crate::answer::Answer;
use crate::errno::Code;

/// A socket, and when it is to write.
struct Watched {
    socket: Weak<Stream>,
    due: Instant,
}

struct Service {
    all: Vec<Watched>,
    is_running: bool,
}

static SERVICE: Mutex<Service> = Mutex::new(Service {
    all: Vec::new(),
    is_running: false,
});
static CHANGED: Condvar = Condvar::new();

fn interval(socket: &Stream) -> Option<Duration> {
    let seconds = socket.keepalive()?;
    Some(Duration::from_secs(seconds.into()))
}

/// The options of a socket have changed.
pub(super) fn changed(socket: &Arc<Stream>) -> Answer<()> {
    let mut service = lock(&SERVICE);
    let own = Arc::downgrade(socket);
    service.all.retain(|other| !other.socket.ptr_eq(&own));
    if let Some(interval) = interval(socket) {
        service.all.push(Watched {
            socket: own,
            due: Instant::now() + interval,
        });
        if !service.is_running {
            let thread = std::thread::Builder::new().name("keepalive".to_owned());
            thread.spawn(run).map_err(|_| Code::NO_ROOM)?;
            service.is_running = true;
        }
    }
    CHANGED.notify_all();
    Ok(())
}

fn run() {
    let mut service = lock(&SERVICE);
    loop {
        let now = Instant::now();
        let mut due = Vec::new();
        service.all.retain_mut(|watched| {
            let Some(socket) = watched.socket.upgrade() else {
                return false;
            };
            if watched.due <= now {
                watched.due = now + interval(&socket).unwrap_or(Duration::from_secs(1));
                due.push(socket);
            }
            true
        });
        if due.is_empty() {
            let Some(next) = service.all.iter().map(|watched| watched.due).min() else {
                service.is_running = false;
                return;
            };
            let left = next.saturating_duration_since(now);
            let waited = CHANGED.wait_timeout(service, left);
            service = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        drop(service);
        for socket in due {
            socket.show();
        }
        service = lock(&SERVICE);
    }
}

impl Stream {
    fn show(&self) {
        let Ok(endpoint) = self.connected() else {
            return;
        };
        let mut flow = self.flow();
        // Before that, what has arrived waits for the handshake's end.
        if flow.phase != Phase::Open {
            return;
        }
        self.process(endpoint, &mut flow);
        if flow.phase == Phase::Open && flow.control() {
            let message = Message::Control(Control::KeepAlive);
            if let Err(code) = endpoint.post_message(message) {
                self.fail(&mut flow, code);
            }
        }
    }
}
