//! A queue pair connected to itself.

use uverbs::kernel::CommandPath;
use uverbs::owned::{Buffer, Finished, Memory, QueuePair};
use uverbs::{CompletionQueue, Context, OpenOptions, ProtectionDomain, QpType};

use verbs_tests::until;

/// All paths to the kernel.
pub(crate) const PATHS: [CommandPath; 4] = [
    CommandPath::Auto,
    CommandPath::Ioctl,
    CommandPath::InvokeWrite,
    CommandPath::Write,
];

/// A queue pair connected to itself, and the objects it uses.
#[derive(Debug)]
pub(crate) struct Looped {
    pub(crate) qp: QueuePair,
    pub(crate) cq: CompletionQueue,
    pub(crate) pd: ProtectionDomain,
    pub(crate) context: Context,
    pub(crate) buffers: Vec<Buffer>,
}

impl Looped {
    /// On the device under test, by the path under test.
    pub(crate) fn new() -> Self {
        Self::on(&verbs_tests::open())
    }

    /// By this path to the kernel.
    pub(crate) fn by(path: CommandPath) -> Self {
        let context = OpenOptions::new()
            .command_path(path)
            .open(&verbs_tests::device_name())
            .unwrap_or_else(|error| panic!("by {path:?}: {error}"));
        Self::on(&context)
    }

    /// On an opened device.
    pub(crate) fn on(context: &Context) -> Self {
        let pd = context.alloc_pd().expect("a domain");
        let cq = context.create_cq(64).expect("a completion queue");
        let prepared = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .build()
            .expect("a queue pair");
        let endpoint = prepared.endpoint();
        let qp = QueuePair::new(prepared.handshake(endpoint).expect("connected"));
        let buffers = pd.buffer_list(4, 4096).expect("buffers");
        Self {
            qp,
            cq,
            pd,
            context: context.clone(),
            buffers,
        }
    }

    /// Sends a message to itself and checks what arrives.
    pub(crate) fn round_trip(&mut self, byte: u8) {
        let mut message = self.buffers.pop().expect("a buffer");
        let reply = self.buffers.pop().expect("another buffer");
        message.fill(byte);
        self.qp.recv(reply, 1).expect("the receive is posted");
        self.qp.send(message, 4096, 2).expect("the send is posted");
        for _ in 0..2 {
            let done = self.finished();
            assert!(done.status().is_success(), "{}", done.status());
            if done.user_data() == 1 {
                let bytes = done.bytes().expect("a buffer");
                assert!(
                    bytes.len() == 4096 && bytes.iter().all(|got| *got == byte),
                    "wrong bytes"
                );
            }
            self.take_back(done.into_memory());
        }
    }

    /// The next of its requests to finish.
    pub(crate) fn finished(&mut self) -> Finished {
        until("a completion", || {
            let done = self.cq.poll().expect("the queue can be polled")?;
            Some(
                self.qp
                    .complete(done)
                    .expect("a completion of this queue pair"),
            )
        })
    }

    fn take_back(&mut self, memory: Memory) {
        self.buffers.extend(memory.into_buffer());
    }
}
