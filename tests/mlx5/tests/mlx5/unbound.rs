//! The driver is unbound from a device that is in use, and bound again.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mlx5_tests::{Model, model_may_report, uses_the_machine_up};
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::link::PortState;
use uverbs::owned::{Buffer, QueuePair};
use uverbs::{CompletionQueue, Context, ErrorKind, ProtectionDomain, QpType};
use verbs_tests::{device_name, kernel_may_say, open, until};

const DRIVER: &str = "/sys/bus/pci/drivers/mlx5_core";

/// Time within which every wait has to end once the device is gone. Emulated processors are slow.
const SOON: Duration = Duration::from_secs(10);

/// The PCI address of the device under test.
fn address() -> String {
    let path = PathBuf::from(format!("/sys/class/infiniband/{}/device", device_name()));
    let device = fs::canonicalize(&path).unwrap();
    device.file_name().unwrap().to_str().unwrap().to_owned()
}

fn tell_driver(what: &str, address: &str) {
    fs::write(format!("{DRIVER}/{what}"), address)
        .unwrap_or_else(|error| panic!("{what} {address}: {error}"));
}

/// A queue pair that sends to itself.
struct Load {
    qp: QueuePair,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    /// Buffers that are not posted: the queue would not accept them.
    idle: Vec<Buffer>,
}

impl Load {
    fn on(context: &Context) -> Self {
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(64).unwrap();
        let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
        let prepared = builder.max_send_wr(16).max_recv_wr(16).build().unwrap();
        let endpoint = prepared.endpoint();
        let mut load = Self {
            qp: QueuePair::new(prepared.handshake(endpoint).unwrap()),
            cq,
            idle: Vec::new(),
            pd,
        };
        for (number, buffer) in load
            .pd
            .buffer_list(8, 4096)
            .unwrap()
            .into_iter()
            .enumerate()
        {
            load.post(buffer, number % 2 == 0);
        }
        load
    }

    fn post(&mut self, buffer: Buffer, receive: bool) {
        if receive {
            let refused = self.qp.recv(buffer, 0).err();
            self.idle.extend(refused.map(|refused| refused.buffer));
        } else {
            let refused = self.qp.send(buffer, 4096, 1).err();
            let work = refused.and_then(|refused| refused.work);
            self.idle
                .extend(work.and_then(|work| work.take_memory().into_buffer()));
        }
    }

    /// Takes some completions and posts their buffers again; returns how many there were. There is
    /// always another one.
    fn turn(&mut self) -> usize {
        let mut done = 0;
        while done < 64
            && let Ok(Some(completion)) = self.cq.poll()
        {
            let finished = self.qp.complete(completion).expect("its own");
            done += 1;
            let receive = finished.user_data() == 0;
            if let Some(buffer) = finished.into_buffer() {
                self.post(buffer, receive);
            }
        }
        done
    }
}

#[test]
fn f01_the_driver_is_unbound_under_load() {
    uses_the_machine_up();
    kernel_may_say("mlx5");
    // The kernel destroys queues, keys and contexts that are in use, and removes the doorbells
    // afterwards.
    model_may_report("memory key");
    model_may_report("doorbell");
    let address = address();
    let context = open();
    let channel = context.create_completion_channel().unwrap();
    let mut load = Load::on(&context);
    until("traffic", || (load.turn() > 0).then_some(()));
    let gone = AtomicBool::new(false);
    let removed = thread::scope(|scope| {
        let events = scope.spawn(|| {
            let mut fatal = false;
            loop {
                match context.async_event(None) {
                    Ok(Some(event)) if event.event == AsyncEventType::DeviceFatal => {
                        assert_eq!(event.source, EventSource::Device);
                        fatal = true;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        gone.store(true, Ordering::Relaxed);
                        return (fatal, error);
                    }
                }
            }
        });
        let completions = scope.spawn(|| channel.event(None));
        let unbinding = scope.spawn(|| {
            let since = Instant::now();
            tell_driver("unbind", &address);
            (since, Instant::now())
        });
        let since = Instant::now();
        let mut turns = 0_u64;
        while !gone.load(Ordering::Relaxed) {
            load.turn();
            turns += 1;
            assert!(since.elapsed() < 3 * SOON, "nobody says that it is gone");
        }
        // Doorbells now go to a page of zeros in place of the register.
        for _ in 0..1000 {
            load.turn();
        }
        let (fatal, error) = events.join().unwrap();
        assert!(fatal, "no event told of it");
        assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{error}");
        let error = completions.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{error}");
        let (from, to) = unbinding.join().unwrap();
        println!(
            "FIGURE: {turns} turns; the driver was gone after {:?}",
            to - from
        );
        to
    });
    assert!(removed.elapsed() < SOON);
    for error in [
        context.query_port(1).map(drop).unwrap_err(),
        context.alloc_pd().map(drop).unwrap_err(),
        context.create_cq(8).map(drop).unwrap_err(),
        load.pd.buffers::<1>(64).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{error}");
    }
    let Load { qp, cq, pd, idle } = load;
    let owned = qp.sends_posted() + qp.receives_posted();
    let memory = qp.destroy().expect("what is gone is destroyed");
    assert_eq!(memory.len(), owned, "every buffer comes back");
    assert!(memory.len() + idle.len() <= 8);
    drop((memory, idle, cq, pd, channel));
    assert_eq!(context.leaked(), 0);
}

/// As after an upgrade of the driver: the old handles are useless, new ones work as before. What
/// the firmware lost meanwhile is reported by the new ones.
#[test]
fn ib_f04_the_driver_is_bound_again() {
    uses_the_machine_up();
    kernel_may_say("mlx5");
    let address = address();
    let old = open();
    let load = Load::on(&old);
    tell_driver("unbind", &address);
    assert!(old.alloc_pd().is_err());
    Model::open().make("ece 0 0");
    tell_driver("bind", &address);
    let new = until("the device is back", || {
        let context = verbs_tests::options().open(&device_name()).ok()?;
        let port = context.query_port(1).ok()?;
        (port.state == PortState::Active).then_some(context)
    });
    let mut fresh = Load::on(&new);
    until("traffic", || (fresh.turn() > 0).then_some(()));
    assert_eq!(
        old.alloc_pd().map(drop).unwrap_err().kind(),
        ErrorKind::DeviceRemoved
    );
    drop(load);
    assert_eq!(old.leaked(), 0);
    drop(old);
    until("more traffic", || (fresh.turn() > 0).then_some(()));
    drop(fresh);
    crate::ece::is_missing(&new);
    assert_eq!(new.leaked(), 0);
}
