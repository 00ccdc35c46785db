//! Atomic write and flush: used where the kernel announces them (6.2 and later), refused with a
//! typed error where it does not.

use uverbs::caps::DeviceCaps;
use uverbs::completion::WcOpcode;
use uverbs::request::Placement;
use uverbs::{
    AccessFlags, ErrorKind, Operation, Payload, PostError, QpType, SendRequest, WcStatus,
};
use verbs_tests::{Pair, Registered, next, raw, requests_fail};

const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ);

/// A pair with `extra` access rights on both ends.
fn pair(extra: AccessFlags) -> Pair {
    Pair::with(QpType::Rc, |builder| builder.access(ACCESS | extra))
}

fn announced(pair: &Pair, cap: DeviceCaps) -> bool {
    pair.a.context.device_attr().caps.contains(cap)
}

#[test]
fn an_atomic_write_is_done_or_unsupported() {
    let mut pair = pair(AccessFlags::empty());
    let word = Registered::new(&pair.b.pd, 16, ACCESS);
    let operation = Operation::AtomicWrite {
        remote: word.remote(8),
        value: *b"8 bytes!",
    };
    let request = SendRequest::new(operation, Payload::NONE)
        .wr_id(3)
        .signaled();
    if !announced(&pair, DeviceCaps::ATOMIC_WRITE) {
        let failed = raw::send(&mut pair.a.qp, &[request]).unwrap_err();
        assert_eq!(failed.error, PostError::UnsupportedOperation);
        return;
    }
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!(
        (done.status, done.opcode, done.wr_id),
        (WcStatus::Success, WcOpcode::AtomicWrite, 3)
    );
    assert_eq!(word.get(8, 8), b"8 bytes!");
    assert_eq!(word.get(0, 8), [0; 8]);
}

#[test]
fn an_unaligned_atomic_write_is_refused_here() {
    let mut pair = pair(AccessFlags::empty());
    let word = Registered::new(&pair.b.pd, 16, ACCESS);
    let operation = Operation::AtomicWrite {
        remote: word.remote(4),
        value: [1; 8],
    };
    let request = SendRequest::new(operation, Payload::NONE).signaled();
    let failed = raw::send(&mut pair.a.qp, &[request]).unwrap_err();
    if announced(&pair, DeviceCaps::ATOMIC_WRITE) {
        assert_eq!(failed.error, PostError::InvalidRequest);
    } else {
        assert_eq!(failed.error, PostError::UnsupportedOperation);
    }
}

#[test]
fn a_flush_makes_a_range_or_a_region_visible() {
    let extra = AccessFlags::FLUSH_GLOBAL;
    let context = verbs_tests::open();
    if !context
        .device_attr()
        .caps
        .contains(DeviceCaps::FLUSH_GLOBAL)
    {
        let mut pair = pair(AccessFlags::empty());
        let memory = Registered::new(&pair.b.pd, 64, ACCESS);
        let failed = raw::send(
            &mut pair.a.qp,
            &[flush(&memory, 64, Placement::GLOBAL, false)],
        );
        assert_eq!(failed.unwrap_err().error, PostError::UnsupportedOperation);
        return;
    }
    let mut pair = pair(extra);
    let memory = Registered::new(&pair.b.pd, 8192, ACCESS | extra);
    let source = Registered::local(&pair.a.pd, 8192);
    source.fill(|at| at as u8);
    for whole in [false, true] {
        let sges = [source.sge(0, 8192)];
        let write = SendRequest::write(&sges, memory.remote(0));
        raw::send(
            &mut pair.a.qp,
            &[write, flush(&memory, 8192, Placement::GLOBAL, whole)],
        )
        .unwrap();
        let done = next(&mut pair.a.cq);
        assert_eq!(
            (done.status, done.opcode),
            (WcStatus::Success, WcOpcode::Flush),
            "whole region: {whole}"
        );
        assert_eq!(memory.all(), source.all());
        memory.fill(|_| 0);
    }
}

#[test]
fn a_flush_needs_its_access_on_the_region() {
    requests_fail();
    let extra = AccessFlags::FLUSH_GLOBAL;
    let context = verbs_tests::open();
    if !context
        .device_attr()
        .caps
        .contains(DeviceCaps::FLUSH_GLOBAL)
    {
        let pd = context.alloc_pd().unwrap();
        let error = Registered::try_new(&pd, 64, ACCESS | extra).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Unsupported | ErrorKind::InvalidInput
            ),
            "{error}"
        );
        return;
    }
    let mut pair = pair(extra);
    let memory = Registered::new(&pair.b.pd, 64, ACCESS);
    raw::send(
        &mut pair.a.qp,
        &[flush(&memory, 64, Placement::GLOBAL, false)],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::RemoteAccess);
}

#[test]
fn ordinary_memory_cannot_be_registered_as_persistent() {
    // Only the kernel knows which memory is persistent.
    verbs_tests::kernel_may_say("rxe_reg_user_mr");
    let context = verbs_tests::open();
    let pd = context.alloc_pd().unwrap();
    let error = Registered::try_new(&pd, 64, ACCESS | AccessFlags::FLUSH_PERSISTENT).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Unsupported | ErrorKind::InvalidInput
        ),
        "{error}"
    );
}

fn flush(
    memory: &Registered,
    length: u32,
    placement: Placement,
    whole_region: bool,
) -> SendRequest<'static> {
    let operation = Operation::Flush {
        remote: memory.remote(0),
        length,
        placement,
        whole_region,
    };
    SendRequest::new(operation, Payload::NONE).signaled()
}
