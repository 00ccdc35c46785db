//! Keys with signatures, and send queues that stop at a wrong one.

use std::time::Duration;

use mlx5_tests::raw as mlx5;
use uverbs::attr::QpAttr;
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::mlx5::{
    BlockSize, Crc, IndirectKey, KeyChange, KeyLayout, KeyOptions, Signature, SignaturePart,
    Signatures, SignedBlocks,
};
use uverbs::{
    AccessFlags, ErrorKind, Operation, Payload, QpState, QpType, SendFlags, SendRequest, Sge,
    WcStatus,
};
use verbs_tests::{Pair, Registered, next, nothing, open, queue_event, raw};

const BLOCK: usize = 512;

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 }
        })
    })
}

/// A connection that stops, and a key of its memory, in which a CRC32C follows the block and is
/// checked.
struct Signing {
    pair: Pair,
    memory: Registered,
    key: IndirectKey,
    target: Registered,
}

impl Signing {
    fn new(stops: bool) -> Self {
        let pair = Pair::with(QpType::Rc, |builder| {
            let builder = builder.max_inline_data(400).max_send_wr(32);
            if stops {
                builder.stops_at_wrong_signatures()
            } else {
                builder
            }
        });
        let memory = Registered::local(&pair.a.pd, BLOCK + 4);
        let options = KeyOptions {
            signatures: true,
            ..KeyOptions::default()
        };
        let key = pair.a.pd.create_indirect_key(1, options).unwrap();
        let target = Registered::remote_all(&pair.b.pd, 4096);
        memory.fill(|at| u8::try_from(at % 251).unwrap_or(0));
        let mut signing = Self {
            pair,
            memory,
            key,
            target,
        };
        signing.set_up();
        signing
    }

    fn set_up(&mut self) {
        let signatures = Signatures {
            memory: Some(SignedBlocks {
                size: BlockSize::Bytes512,
                signature: Signature::Crc {
                    kind: Crc::Crc32c,
                    starts_with_ones: true,
                },
            }),
            wire: None,
            check: 0xf0,
            copy: None,
        };
        let piece = [self.memory.sge(0, 516)];
        let change = KeyChange {
            key: self.key.remote_key(),
            access: Some(AccessFlags::LOCAL_WRITE),
            layout: Some(KeyLayout::List(&piece)),
        };
        mlx5::sign_key(&mut self.pair.a.qp, 50, &mut self.key, &change, &signatures).unwrap();
        let done = next(&mut self.pair.a.cq);
        assert_eq!((done.wr_id, done.status), (50, WcStatus::Success));
    }

    /// Writes the right signature behind the block.
    fn sign(&self) {
        let crc = crc32c(&self.memory.get(0, BLOCK)).to_be_bytes();
        let all = self.memory.all();
        self.memory.fill(|at| match at.checked_sub(BLOCK) {
            Some(at) => crc[at],
            None => all[at],
        });
    }

    fn write(
        &self,
        wr_id: u64,
        flags: SendFlags,
        from: Sge,
        to: u64,
    ) -> (SendRequest<'static>, Sge) {
        let mut request = SendRequest::new(
            Operation::Write(self.target.remote(to)),
            Payload::Gather(&[]),
        );
        request.wr_id = wr_id;
        request.flags = flags;
        (request, from)
    }

    /// Posts writes of pieces, in one batch.
    fn post(&mut self, writes: &[(SendRequest<'static>, Sge)]) {
        let requests: Vec<_> = writes
            .iter()
            .map(|(request, from)| SendRequest {
                payload: Payload::Gather(std::slice::from_ref(from)),
                ..*request
            })
            .collect();
        raw::send(&mut self.pair.a.qp, &requests).unwrap();
    }

    /// The block, through the key.
    fn signed(&self) -> Sge {
        Sge {
            address: 0,
            length: 512,
            key: self.key.local_key(),
        }
    }
}

#[test]
fn a_signature_in_memory_is_checked_and_not_sent() {
    let mut signing = Signing::new(false);
    signing.sign();
    let right = signing.write(1, SendFlags::SIGNALED, signing.signed(), 0);
    signing.post(&[right]);
    let done = next(&mut signing.pair.a.cq);
    assert_eq!((done.wr_id, done.status), (1, WcStatus::Success));
    assert_eq!(signing.target.get(0, BLOCK), signing.memory.get(0, BLOCK));
    assert_eq!(signing.target.get(BLOCK, 8), [0; 8]);
    assert_eq!(signing.key.check().unwrap(), None);

    // A byte of the block is another one now.
    let crc = u64::from(crc32c(&signing.memory.get(0, BLOCK)));
    let all = signing.memory.all();
    signing
        .memory
        .fill(|at| if at == 7 { !all[at] } else { all[at] });
    let now = u64::from(crc32c(&signing.memory.get(0, BLOCK)));
    let wrong = signing.write(2, SendFlags::SIGNALED, signing.signed(), 1024);
    let other = signing.write(3, SendFlags::SIGNALED, signing.memory.sge(0, 1), 2048);
    signing.post(&[wrong, other]);
    for wr_id in [2, 3] {
        let done = next(&mut signing.pair.a.cq);
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
    let found = signing.key.check().unwrap().expect("a wrong signature");
    assert_eq!(found.part, SignaturePart::Guard);
    assert_eq!([found.expected, found.actual], [crc, now]);
    assert_eq!(signing.key.check().unwrap(), None, "told once");
    assert_eq!(
        signing.pair.a.qp.query().unwrap().state,
        QpState::ReadyToSend
    );
}

#[test]
fn what_follows_a_wrong_signature_is_taken_back() {
    let mut signing = Signing::new(true);
    let early = signing.pair.a.qp.cancel_sends(1).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::InvalidState, "{early}");

    let answer = SendFlags::SIGNALED | SendFlags::FENCE;
    let one = signing.memory.sge(8, 1);
    let writes = [
        signing.write(1, SendFlags::empty(), signing.signed(), 0),
        signing.write(2, SendFlags::SIGNALED, one, 1000),
        signing.write(1, answer, one, 1001),
        signing.write(3, SendFlags::SIGNALED, one, 1002),
    ];
    signing.post(&writes);
    let event = queue_event(&signing.pair.a.context, Some(Duration::from_secs(20)));
    let event = event.expect("an event");
    assert_eq!(event.event, AsyncEventType::SendQueueDrained);
    let number = signing.pair.a.qp.qp_num();
    assert!(
        matches!(event.source, EventSource::QueuePair { qp_num, .. } if qp_num == number),
        "{event:?}"
    );
    assert_eq!(next(&mut signing.pair.a.cq).wr_id, 2);
    nothing(&mut signing.pair.a.cq);
    assert_eq!(signing.target.get(1001, 2), [0; 2]);
    assert!(signing.key.check().unwrap().is_some());

    let qp = &mut signing.pair.a.qp;
    assert_eq!(qp.query().unwrap().state, QpState::SendQueueDrained);
    assert_eq!(qp.cancel_sends(7).unwrap(), 0);
    assert_eq!(qp.cancel_sends(1).unwrap(), 1);
    let on = QpAttr::to(QpState::ReadyToSend).cur_state(QpState::SendQueueDrained);
    qp.modify(&on).unwrap();
    for wr_id in [1, 3] {
        let done = next(&mut signing.pair.a.cq);
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }
    let byte = signing.memory.get(8, 1)[0];
    assert_eq!(signing.target.get(1000, 3), [byte, 0, byte]);
}

#[test]
fn other_queue_pairs_do_not_stop() {
    let context = open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    for kind in [QpType::Uc, QpType::Ud] {
        let refused = pd.queue_pair(kind, &cq, &cq).stops_at_wrong_signatures();
        let error = refused.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}
