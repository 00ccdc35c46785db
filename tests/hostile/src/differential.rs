//! The same calls, encoded for the ioctl and for `write(2)`.

use std::fmt::Debug;

use fake_tests::Bench;
use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr, SrqModify};
use uverbs::kernel::CommandPath;
use uverbs::memory::MwType;
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Context, ErrorKind, Gid, ProtectionDomain,
    QpState, QpType, QueuePair, Result, SharedReceiveQueue,
};
use uverbs_fake::{Objects, Profile};

use crate::tape::Tape;

/// The result of each call, as text, and what exists in the end.
type Outcome = (Vec<String>, Objects);

/// Makes the calls given by the bytes in every encoding.
///
/// # Panics
/// If a kernel understands, grants or refuses a call differently in one encoding than in another.
pub fn differential(bytes: &[u8]) {
    let profile = match bytes.first().is_some_and(|byte| byte & 1 != 0) {
        true => Profile::v6_1(),
        false => Profile::v7_2(),
    };
    let by = |path| calls(bytes, &Bench::new(profile, path));
    let Some(one) = by(CommandPath::Ioctl) else {
        return;
    };
    for path in [
        CommandPath::InvokeWrite,
        CommandPath::Write,
        CommandPath::Auto,
    ] {
        assert_eq!(by(path).as_ref(), Some(&one), "{path:?}");
    }
}

#[derive(Default)]
struct World {
    said: Vec<String>,
    qps: Vec<QueuePair>,
    srqs: Vec<SharedReceiveQueue>,
    cqs: Vec<CompletionQueue>,
    pds: Vec<ProtectionDomain>,
}

impl World {
    fn say<T: Debug>(&mut self, what: &str, result: Result<T>) {
        self.said.push(match result {
            Ok(value) => format!("{what}: {value:?}"),
            Err(error) => of_error(what, error.kind(), error.errno()),
        });
    }

    /// Records how a create ended, and keeps the object.
    fn made<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.said.push(what.to_owned());
                Some(value)
            }
            Err(error) => {
                self.said.push(of_error(what, error.kind(), error.errno()));
                None
            }
        }
    }
}

fn of_error(what: &str, kind: ErrorKind, errno: Option<uverbs::error::Errno>) -> String {
    format!("{what}: {kind:?} {errno:?}")
}

fn calls(bytes: &[u8], bench: &Bench) -> Option<Outcome> {
    let tape = Tape::new(bytes);
    let context = bench.context().ok()?;
    let mut world = World::default();
    for _ in 0..48 {
        if tape.is_empty() {
            break;
        }
        match tape.byte() % 8 {
            0 => about(&mut world, &tape, &context),
            1..=3 => create(&mut world, &tape, &context),
            4 => change_pair(&mut world, &tape),
            5 => change_others(&mut world, &tape),
            6 => short_lived(&mut world, &tape),
            _ => destroy(&mut world, &tape),
        }
    }
    Some((std::mem::take(&mut world.said), bench.fake.objects()))
}

/// The length of a queue: usually short, because memory is most of its cost, and in one of 256
/// cases the longest that can be expressed.
fn length(tape: &Tape) -> u32 {
    match tape.half() {
        long @ 0xff00.. => long.into(),
        short => u32::from(short) % 300,
    }
}

fn about(world: &mut World, tape: &Tape, context: &Context) {
    match tape.byte() % 3 {
        0 => world.say("port", context.query_port(tape.byte() % 4)),
        1 => world.say("gid", context.gid(1, u32::from(tape.byte()) % 4)),
        _ => {
            let device = context.device_attr();
            world.said.push(format!("{device:?}"));
        }
    }
}

fn create(world: &mut World, tape: &Tape, context: &Context) {
    match tape.byte() % 4 {
        0 => {
            let pd = world.made("pd", context.alloc_pd());
            world.pds.extend(pd);
        }
        1 => {
            let made = context
                .completion_queue(length(tape))
                .vector(tape.byte().into())
                .build();
            let cq = world.made("cq", made);
            if let Some(cq) = &cq {
                world.said.push(format!("{} entries", cq.entries()));
            }
            world.cqs.extend(cq);
        }
        2 => {
            let Some(pd) = world.pds.last().cloned() else {
                return;
            };
            let made = pd.create_srq(length(tape), u32::from(tape.byte()) % 40);
            let srq = world.made("srq", made);
            if let Some(srq) = &srq {
                world
                    .said
                    .push(format!("{:?} {}", srq.size(), srq.number()));
            }
            world.srqs.extend(srq);
        }
        _ => create_pair(world, tape),
    }
}

fn create_pair(world: &mut World, tape: &Tape) {
    let Some(pd) = world.pds.last().cloned() else {
        return;
    };
    if world.cqs.is_empty() {
        return;
    }
    let made = {
        let [send, recv] = [(), ()].map(|()| &world.cqs[tape.pick(world.cqs.len())]);
        let kind = tape.one_of(&[QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket]);
        let mut builder = pd
            .queue_pair(kind, send, recv)
            .max_send_wr(length(tape))
            .max_recv_wr(length(tape))
            .max_send_sge(u32::from(tape.byte()) % 40)
            .max_recv_sge(u32::from(tape.byte()) % 40)
            .max_inline_data(tape.half().into())
            .psn(Psn::from_raw(tape.word()));
        if tape.flag() {
            builder = builder.signal_all();
        }
        if let Some(srq) = world.srqs.last().filter(|_| tape.flag()) {
            builder = builder.srq(srq);
        }
        if tape.flag() {
            builder = builder.gid_index(tape.byte() % 3);
        }
        builder.build().map(|prepared| {
            let endpoint = prepared.endpoint();
            let caps = format!("{endpoint:?}");
            let ready = match kind {
                QpType::Ud => prepared.activate().ok(),
                _ => prepared.handshake(endpoint).ok(),
            };
            (caps, ready)
        })
    };
    if let Some((caps, ready)) = world.made("qp", made) {
        world.said.push(caps);
        if let Some(qp) = ready {
            world.said.push(format!("{:?} {:?}", qp.caps(), qp.state()));
            world.qps.push(qp);
        }
    }
}

fn vector(tape: &Tape) -> AddressVector {
    let mut vector = AddressVector::local(tape.byte() % 3, tape.half());
    vector.sl = tape.byte() % 16;
    vector.grh = tape.maybe(|tape| {
        let mut gid = [0; 16];
        tape.fill(&mut gid);
        GlobalRoute {
            traffic_class: tape.byte(),
            hop_limit: tape.byte(),
            ..GlobalRoute::new(Gid::from_bytes(gid), tape.byte() % 4)
        }
    });
    vector
}

fn change_pair(world: &mut World, tape: &Tape) {
    let Some(mut qp) = world.qps.pop() else {
        return;
    };
    let mut attr = QpAttr::to(QpState::from_raw(tape.byte() % 7));
    attr.access = tape.maybe(|tape| AccessFlags::from_bits_retain(tape.byte().into()));
    attr.qkey = tape.maybe(Tape::word);
    attr.av = tape.maybe(vector);
    attr.dest_qpn = tape.maybe(|tape| tape.word() & 0xff_ffff);
    attr.sq_psn = tape.maybe(|tape| Psn::from_raw(tape.word()));
    attr.rq_psn = tape.maybe(|tape| Psn::from_raw(tape.word()));
    attr.port = tape.maybe(|tape| tape.byte() % 3);
    attr.max_rd_atomic = tape.maybe(Tape::byte);
    world.say("modify qp", qp.modify(&attr));
    world.say("query qp", qp.query());
    world.qps.push(qp);
}

fn change_others(world: &mut World, tape: &Tape) {
    if tape.flag() {
        let Some(mut srq) = world.srqs.pop() else {
            return;
        };
        let change = SrqModify {
            max_wr: tape.maybe(length),
            limit: tape.maybe(|tape| tape.byte().into()),
        };
        world.say("modify srq", srq.modify(&change));
        world.say("query srq", srq.query());
        world.srqs.push(srq);
    } else if let Some(mut cq) = world.cqs.pop() {
        world.say("resize", cq.resize(length(tape)));
        world.said.push(format!("{} entries", cq.entries()));
        world.cqs.push(cq);
    }
}

fn short_lived(world: &mut World, tape: &Tape) {
    let Some(pd) = world.pds.last().cloned() else {
        return;
    };
    match tape.byte() % 3 {
        0 => {
            let made = pd.create_ah(&vector(tape)).map(drop);
            world.say("ah", made);
        }
        1 => {
            let made = pd.alloc_mw(MwType::from_raw(tape.byte() % 4));
            let keys = made.map(|window| window.key().raw());
            world.say("mw", keys);
        }
        _ => {
            let access = AccessFlags::from_bits_retain(u32::from(tape.half()) & 0x7ff);
            let made = pd.expose(1 + usize::from(tape.half()), access);
            world.say("mr", made.map(|memory| memory.remote().key.raw()));
        }
    }
}

fn destroy(world: &mut World, tape: &Tape) {
    match tape.byte() % 4 {
        0 => {
            if let Some(qp) = world.qps.pop() {
                world.say("destroy qp", qp.destroy());
            }
        }
        1 => {
            if let Some(srq) = world.srqs.pop() {
                world.say("destroy srq", srq.destroy());
            }
        }
        2 => {
            if let Some(cq) = world.cqs.pop() {
                world.say("destroy cq", cq.destroy());
            }
        }
        _ => {
            if let Some(pd) = world.pds.pop() {
                world.say("dealloc pd", pd.dealloc());
            }
        }
    }
}
