//! Every operation with messages of many lengths, from none to many packets.

use uverbs::caps::DeviceCaps;
use uverbs::owned::{Buffer, ExposedMemory, Memory, Work};
use uverbs::request::Placement;
use uverbs::{AccessFlags, Operation, QpType, SendFlags};

use super::super::check::{Check, Found, Outcome, Trouble, ensure};
use super::super::pair::{Pair, REMOTE, buffer_of, compare, fill, usual};
use super::super::subject::Subject;

const EXPECTED: &str = "bytes as sent, none beyond";

/// The longest message.
const MOST: usize = 1 << 20;
/// The value of bytes that must not be written.
const UNTOUCHED: u8 = 0xa5;
const IMMEDIATE: u32 = 0x0102_0304;

pub(super) fn checks() -> Vec<Check> {
    let each = |name, kind, carry: Carry| {
        Check::new(name, EXPECTED, move |subject| lengths(subject, kind, carry))
    };
    vec![
        each("RC send", QpType::Rc, |rig, len, seed| {
            rig.send(Operation::Send, len, seed)
        }),
        each("RC send with immediate", QpType::Rc, |rig, len, seed| {
            rig.send(Operation::SendImm(IMMEDIATE), len, seed)
        }),
        each("RC write", QpType::Rc, |rig, len, seed| {
            rig.write(false, len, seed)
        }),
        each("RC write with immediate", QpType::Rc, |rig, len, seed| {
            rig.write(true, len, seed)
        }),
        each("RC read", QpType::Rc, Rig::read),
        each("UC send", QpType::Uc, |rig, len, seed| {
            rig.send(Operation::Send, len, seed)
        }),
        each("UC send with immediate", QpType::Uc, |rig, len, seed| {
            rig.send(Operation::SendImm(IMMEDIATE), len, seed)
        }),
        each("UC write with immediate", QpType::Uc, |rig, len, seed| {
            rig.write(true, len, seed)
        }),
        Check::new("RC fence", "a send waits for the read before it", fence),
        Check::optional("RC atomic write", "8 bytes at once", atomic_write),
        Check::optional("RC flush", "success", flush),
    ]
}

/// Carries a message of some length, with the data of a seed, from one end to the other.
type Carry = fn(&mut Rig, usize, u64) -> Outcome<()>;

/// Two queue pairs, and memory at both ends.
#[derive(Debug)]
struct Rig {
    pair: Pair,
    here: Option<Buffer>,
    there: Option<Buffer>,
    exposed: ExposedMemory,
}

impl Rig {
    fn new(subject: &Subject, kind: QpType) -> Outcome<Self> {
        let pair = Pair::new(subject, kind, usual)?;
        let [here, there] = pair.pd.buffers(MOST + 1)?;
        let exposed = pair.pd.expose(MOST + 1, REMOTE)?;
        Ok(Self {
            pair,
            here: Some(here),
            there: Some(there),
            exposed,
        })
    }

    /// This end's buffer, filled with `len` bytes of a seed's data.
    fn filled(&mut self, len: usize, seed: u64) -> Outcome<Buffer> {
        let mut buffer = self.here.take().ok_or_else(missing)?;
        let bytes = buffer.get_mut(..len);
        fill(bytes.ok_or_else(missing)?, seed);
        Ok(buffer)
    }

    fn send(&mut self, operation: Operation<'static>, len: usize, seed: u64) -> Outcome<()> {
        let mut room = self.there.take().ok_or_else(missing)?;
        if let Some(beyond) = room.get_mut(len) {
            *beyond = UNTOUCHED;
        }
        self.pair.b.qp.recv(room, seed)?;
        let buffer = self.filled(len, seed)?;
        let work = Work::new(operation).memory((buffer, len)).user_data(seed);
        self.pair.a.qp.post(work)?;
        let sent = self.pair.a.success()?;
        ensure(sent.user_data() == seed, || {
            "another send's completion".into()
        })?;
        self.here = Some(buffer_of(sent)?);
        let received = self.pair.b.success()?;
        ensure(received.len() == len, || {
            format!("{} bytes arrived", received.len())
        })?;
        let immediate = match operation {
            Operation::SendImm(value) => Some(value),
            _ => None,
        };
        ensure(received.imm() == immediate, || {
            format!("immediate {:x?}", received.imm())
        })?;
        let room = buffer_of(received)?;
        let (bytes, beyond) = room.split_at(len);
        compare(bytes, seed)?;
        untouched(beyond.first().copied())?;
        self.there = Some(room);
        Ok(())
    }

    fn write(&mut self, immediate: bool, len: usize, seed: u64) -> Outcome<()> {
        let beyond = self.exposed.write(len, &[UNTOUCHED]);
        ensure(beyond, || "outside of the memory".into())?;
        let buffer = self.filled(len, seed)?;
        let remote = self.exposed.remote().start();
        let work = if immediate {
            self.pair.b.qp.recv_empty(seed)?;
            Work::write_imm(remote, IMMEDIATE)
        } else {
            Work::write(remote)
        };
        self.pair.a.qp.post(work.memory((buffer, len)))?;
        self.here = Some(buffer_of(self.pair.a.success()?)?);
        if immediate {
            let reported = self.pair.b.success()?.reported;
            let right = reported.imm == Some(IMMEDIATE) && reported.byte_len as usize == len;
            ensure(right, || {
                format!("immediate {:x?}, {} bytes", reported.imm, reported.byte_len)
            })?;
        }
        let mut found = vec![0; len + 1];
        ensure(self.exposed.read(0, &mut found), || {
            "outside of the memory".into()
        })?;
        let (bytes, beyond) = found.split_at(len);
        compare(bytes, seed)?;
        untouched(beyond.first().copied())
    }

    fn read(&mut self, len: usize, seed: u64) -> Outcome<()> {
        let mut bytes = vec![0; len];
        fill(&mut bytes, seed);
        ensure(self.exposed.write(0, &bytes), || {
            "outside of the memory".into()
        })?;
        let mut buffer = self.here.take().ok_or_else(missing)?;
        if let Some(beyond) = buffer.get_mut(len) {
            *beyond = UNTOUCHED;
        }
        let work = Work::read(self.exposed.remote()).memory((buffer, len));
        self.pair.a.qp.post(work)?;
        let buffer = buffer_of(self.pair.a.success()?)?;
        let (bytes, beyond) = buffer.split_at(len);
        compare(bytes, seed)?;
        untouched(beyond.first().copied())?;
        self.here = Some(buffer);
        Ok(())
    }
}

fn missing() -> Trouble {
    Trouble::failed("a buffer did not come back from an earlier message")
}

fn untouched(beyond: Option<u8>) -> Outcome<()> {
    ensure(beyond == Some(UNTOUCHED), || {
        "the byte behind the message was written".into()
    })
}

fn lengths(subject: &Subject, kind: QpType, carry: Carry) -> Outcome {
    let mtu = subject.mtu()?;
    let most = MOST.min(subject.port_attr()?.max_msg_sz as usize);
    let mut lengths = vec![0, 1, 3, 8, 63, 64, 65, 255, 256, 257];
    lengths.extend([mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 3, 1 << 16, most]);
    let mut rig = Rig::new(subject, kind)?;
    for (len, seed) in lengths.iter().zip(1..) {
        carry(&mut rig, *len, seed).map_err(|trouble| trouble.with(format_args!("{len} bytes")))?;
    }
    Ok(
        Found::new(format_args!("{} lengths up to {most} bytes", lengths.len()))
            .detail(format_args!("{lengths:?}")),
    )
}

/// Reads into memory and immediately sends the same memory: with a fence, what was read is what is
/// sent.
fn fence(subject: &Subject) -> Outcome {
    const LEN: usize = 1 << 16;
    const ROUNDS: u64 = 8;
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let far = pair.pd.expose(LEN, REMOTE)?;
    let near = pair.pd.expose(LEN, REMOTE)?;
    let mut room = Some(pair.pd.buffers::<1>(LEN)?).map(|[room]| room);
    let mut bytes = vec![0; LEN];
    for round in 1..=ROUNDS {
        fill(&mut bytes, round);
        ensure(far.write(0, &bytes), || "outside of the memory".into())?;
        pair.b.qp.recv(room.take().ok_or_else(missing)?, round)?;
        let memory = || Memory::from((near.clone(), 0..LEN));
        pair.a.qp.post(Work::read(far.remote()).memory(memory()))?;
        pair.a
            .qp
            .post(Work::send().memory(memory()).flags(SendFlags::FENCE))?;
        pair.a.success()?;
        pair.a.success()?;
        let received = buffer_of(pair.b.success()?)?;
        compare(&received, round).map_err(|trouble| trouble.with(format_args!("round {round}")))?;
        room = Some(received);
    }
    Ok(Found::new(format_args!(
        "{ROUNDS} reads of {LEN} bytes, sent on"
    )))
}

fn atomic_write(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair.pd.expose(64, REMOTE)?;
    let operation = Operation::AtomicWrite {
        remote: exposed.remote().start(),
        value: *b"eight at",
    };
    pair.a.qp.post(Work::new(operation))?;
    pair.a.success()?;
    let mut found = [0; 16];
    ensure(exposed.read(0, &mut found), || {
        "outside of the memory".into()
    })?;
    ensure(found == *b"eight at\0\0\0\0\0\0\0\0", || {
        format!("found {found:x?}")
    })?;
    Ok(Found::new("8 bytes"))
}

fn flush(subject: &Subject) -> Outcome {
    let access = REMOTE | AccessFlags::FLUSH_GLOBAL;
    let announced = subject.context.device_attr().caps;
    if !announced.contains(DeviceCaps::FLUSH_GLOBAL) {
        return Err(Trouble::unsupported("the device announces none"));
    }
    let mut pair = Pair::new(subject, QpType::Rc, |builder| {
        builder.access(REMOTE | AccessFlags::FLUSH_GLOBAL)
    })?;
    let exposed = pair.pd.expose(4096, access)?;
    let operation = Operation::Flush {
        remote: exposed.remote().start(),
        length: 4096,
        placement: Placement::GLOBAL,
        whole_region: false,
    };
    pair.a.qp.post(Work::new(operation))?;
    pair.a.success()?;
    Ok(Found::new("4096 bytes made visible"))
}
