//! Queue pair commands.

use uverbs_core::cmd::{mcast, qp};
use uverbs_core::types::{
    Gid, LocalKey, MigrationState, Mtu, Operation, Payload, Psn, QpAttr, QpAttrMask, QpCaps,
    QpCreateFlags, QpState, QpType, RecvRequest, Remote, RemoteKey, SendFlags, SendRequest, Sge,
    SigMode,
};

use super::Run;
use super::address::vector;
use super::memory::access;

/// Creates, modifies, queries and destroys queue pairs, and posts through the kernel, as the bytes
/// say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_qp(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(one);
}

pub(super) fn kind(run: &Run) -> QpType {
    match run.tape.byte() {
        raw @ 0..16 => QpType::from_raw(raw.into()),
        raw => QpType::ALL[usize::from(raw) % QpType::ALL.len()],
    }
}

pub(super) fn create(run: &Run) {
    let tape = &run.tape;
    let parent = match tape.byte() % 4 {
        0 => qp::Parent::Xrcd(tape.byte().into()),
        _ => qp::Parent::Pd(tape.byte().into()),
    };
    let number = |tape: &crate::Tape| u32::from(tape.byte());
    let caps = QpCaps {
        max_send_wr: tape.word(),
        max_recv_wr: tape.word(),
        max_send_sge: number(tape),
        max_recv_sge: number(tape),
        max_inline_data: number(tape),
    };
    let request = qp::Create {
        send_cq: tape.maybe(number),
        recv_cq: tape.maybe(number),
        srq: tape.maybe(number),
        ind_table: tape.maybe(number),
        flags: QpCreateFlags::from_bits_truncate(tape.half().into()),
        signal: tape.one_of(&[SigMode::All, SigMode::Requested]),
        source_qpn: tape.maybe(number),
        event_fd: tape.maybe(|_| run.fd()),
        ..qp::Create::new(kind(run), parent, tape.long(), caps)
    };
    run.examine(run.with_uhw(|uhw| qp::create(&run.file, &request, uhw)));
}

fn attr(run: &Run) -> QpAttr {
    let tape = &run.tape;
    let mut attr = QpAttr::new();
    attr.state = tape.maybe(|tape| QpState::from_raw(tape.byte() % 9));
    attr.cur_state = tape.maybe(|tape| QpState::from_raw(tape.byte() % 9));
    attr.access = tape.maybe(|_| access(run));
    attr.qkey = tape.maybe(crate::Tape::word);
    attr.av = tape.maybe(|_| vector(run));
    attr.path_mtu = tape.maybe(|tape| Mtu::from_raw(tape.byte() % 8));
    attr.rq_psn = tape.maybe(|tape| Psn::from_raw(tape.word()));
    attr.dest_qpn = tape.maybe(|tape| tape.word() & 0x1ff_ffff);
    attr.migration = tape.maybe(|tape| MigrationState::from_raw(tape.byte() % 4));
    attr.caps = tape.maybe(|_| QpCaps::default());
    attr.rate_limit_kbps = tape.maybe(crate::Tape::word);
    attr
}

fn one(run: &Run, which: u8) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match which % 8 {
        0 => create(run),
        1 => {
            let attr = attr(run);
            run.examine(run.with_uhw(|uhw| qp::modify(file, handle, &attr, uhw)));
        }
        2 => {
            let mask = QpAttrMask::from_bits_truncate(tape.word());
            run.examine(qp::query(file, handle, mask));
        }
        3 => {
            let _ = qp::doorbell(file, handle);
        }
        4 => send(run, handle),
        5 => receive(run, handle),
        6 => {
            let mut gid = [0; 16];
            tape.fill(&mut gid);
            run.examine(mcast::attach(
                file,
                handle,
                &Gid::from_bytes(gid),
                tape.half(),
            ));
            run.examine(mcast::detach(
                file,
                handle,
                &Gid::from_bytes(gid),
                tape.half(),
            ));
        }
        _ => drop(run.examine(qp::KIND.destroy(file, handle))),
    }
}

pub(super) fn pieces(run: &Run) -> Vec<Sge> {
    let tape = &run.tape;
    let piece = |_| Sge {
        address: tape.long(),
        length: tape.word(),
        key: LocalKey::from_raw(tape.byte().into()),
    };
    (0..tape.pick(4)).map(piece).collect()
}

fn operation(run: &Run) -> Operation<'static> {
    let tape = &run.tape;
    let remote = Remote {
        address: tape.long(),
        key: RemoteKey::from_raw(tape.byte().into()),
    };
    match tape.byte() % 9 {
        0 => Operation::Send,
        1 => Operation::SendImm(tape.word()),
        2 => Operation::SendInvalidate(remote.key),
        3 => Operation::Write(remote),
        4 => Operation::WriteImm(remote, tape.word()),
        5 => Operation::Read(remote),
        6 => Operation::CompareSwap {
            remote,
            compare: tape.long(),
            swap: tape.long(),
        },
        7 => Operation::FetchAdd {
            remote,
            add: tape.long(),
        },
        _ => Operation::LocalInvalidate(remote.key),
    }
}

fn send(run: &Run, handle: u32) {
    let tape = &run.tape;
    let lists: Vec<Vec<Sge>> = (0..tape.pick(4)).map(|_| pieces(run)).collect();
    let requests: Vec<SendRequest<'_>> = lists
        .iter()
        .map(|pieces| {
            let flags = SendFlags::from_bits_truncate(tape.byte().into());
            SendRequest::new(operation(run), Payload::Gather(pieces)).with(flags)
        })
        .collect();
    run.examine(qp::post_send(&run.file, handle, &requests));
}

fn receive(run: &Run, handle: u32) {
    let tape = &run.tape;
    let lists: Vec<Vec<Sge>> = (0..tape.pick(4)).map(|_| pieces(run)).collect();
    let requests: Vec<RecvRequest<'_>> = lists
        .iter()
        .map(|scatter| RecvRequest { wr_id: 1, scatter })
        .collect();
    run.examine(qp::post_recv(&run.file, handle, &requests));
    run.examine(uverbs_core::cmd::srq::post_recv(
        &run.file, handle, &requests,
    ));
}
