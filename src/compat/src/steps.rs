//! The requests of connections that most programs compose: an operation, and its data in one piece.
//!
//! Each operation has functions of its own, which know it and nothing else; what has begun a
//! request leaves them for what says its data. They call no other function, and leave what is not
//! as usual to another one at the end.

use std::ffi::c_void;

use uverbs_any::AnyQp;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{
    LocalKey, Operation, Payload, Remote, RemoteKey, SendFlags, SendRequest, Sge,
};

use crate::abi::ibv_data_buf;
use crate::dv;
use crate::pointer::{Handle, items};
use crate::qp::Qp;
use crate::sends::INLINE;

/// What is known of a request before its data.
#[derive(Clone, Copy, Default)]
pub(crate) struct Begun {
    pub(crate) wr_id: u64,
    pub(crate) flags: u32,
    pub(crate) key: u32,
    pub(crate) address: u64,
    /// What is added, or compared and swapped; an immediate value.
    pub(crate) operands: [u64; 2],
}

/// How a request that was begun goes on.
pub(crate) struct Steps {
    /// Its data are one entry: the key, where it begins, and its length.
    pub(crate) gather: extern "C" fn(&Qp, u32, u64, u32),
    /// Its data are these bytes.
    pub(crate) inline: extern "C" fn(&Qp, *mut c_void, usize),
    /// Its operation.
    pub(crate) operation: fn(&Begun) -> Operation<'static>,
}

/// Of a request that is kept.
pub(crate) static KEPT: Steps = Steps {
    gather: gather_any,
    inline: inline_any,
    operation: |_| Operation::Send,
};

/// An operation.
pub(crate) trait Kind: Sized + 'static {
    /// It is on memory of the peer.
    const HAS_REMOTE: bool;
    /// How many operands it has.
    const OPERANDS: usize;

    /// The operation that was begun.
    fn operation(begun: &Begun) -> Operation<'static>;

    /// How it goes on in a queue pair with locks.
    const LOCKING: &'static Steps = &Steps {
        gather: gather::<Self, true>,
        inline: inline::<Self, true>,
        operation: Self::operation,
    };
    /// The same without.
    const PLAIN: &'static Steps = &Steps {
        gather: gather::<Self, false>,
        inline: inline::<Self, false>,
        operation: Self::operation,
    };
}

macro_rules! kinds {
    ($($name:ident, $remote:literal, $operands:literal = |$begun:ident| $operation:expr;)*) => {$(
        pub(crate) struct $name;

        impl Kind for $name {
            const HAS_REMOTE: bool = $remote;
            const OPERANDS: usize = $operands;

            #[inline(always)]
            fn operation($begun: &Begun) -> Operation<'static> {
                $operation
            }
        }
    )*};
}

kinds! {
    Send, false, 0 = |_begun| Operation::Send;
    SendImm, false, 1 = |begun| Operation::SendImm(immediate(begun));
    Write, true, 0 = |begun| Operation::Write(remote(begun));
    WriteImm, true, 1 = |begun| Operation::WriteImm(remote(begun), immediate(begun));
    Read, true, 0 = |begun| Operation::Read(remote(begun));
    FetchAdd, true, 1 = |begun| Operation::FetchAdd {
        remote: remote(begun),
        add: begun.operands[0],
    };
    CompareSwap, true, 2 = |begun| Operation::CompareSwap {
        remote: remote(begun),
        compare: begun.operands[0],
        swap: begun.operands[1],
    };
}

#[inline]
fn remote(begun: &Begun) -> Remote {
    Remote {
        address: begun.address,
        key: RemoteKey::from_raw(begun.key),
    }
}

/// Of 32 bits.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "it was put there as 32 bits"
)]
const fn immediate(begun: &Begun) -> u32 {
    begun.operands[0] as u32
}

/// Begins a request with what is known of it.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn begin<K: Kind, const LOCKS: bool>(
    qp: Handle<Qp>,
    key: u32,
    address: u64,
    operands: [u64; 2],
) {
    let Ok(own) = qp.get() else { return };
    let steps = if LOCKS { K::LOCKING } else { K::PLAIN };
    let is_behind = own.batch.inside(|batch| batch.steps.is_some());
    if is_behind {
        let [first, second] = operands;
        return begin_behind(own, key, address, first, second, steps);
    }
    own.batch.inside(|batch| {
        batch.steps = Some(steps);
        let begun = &mut batch.begun;
        begun.wr_id = own.c.wr_id.get();
        begun.flags = own.c.wr_flags.get();
        if K::HAS_REMOTE {
            begun.key = key;
            begun.address = address;
        }
        for (place, operand) in begun.operands.iter_mut().zip(operands).take(K::OPERANDS) {
            *place = operand;
        }
    });
}

/// The same after one that is not in the ring yet.
#[cold]
extern "C" fn begin_behind(
    own: &Qp,
    key: u32,
    address: u64,
    first: u64,
    second: u64,
    steps: &'static Steps,
) {
    own.batch.inside(|batch| {
        batch.flush(own);
        batch.steps = Some(steps);
        batch.begun = Begun {
            wr_id: own.c.wr_id.get(),
            flags: own.c.wr_flags.get(),
            key,
            address,
            operands: [first, second],
        };
    });
}

/// Puts the request that was begun, with these data. Nothing if that takes more than a few steps.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
fn put<K: Kind>(own: &Qp, queue: &mut AnyQp, payload: Payload<'_>) -> Option<()> {
    let request = || {
        let begun = own.batch.inside(|batch| batch.begun);
        SendRequest {
            wr_id: begun.wr_id,
            flags: SendFlags::from_bits_retain(begun.flags & !INLINE),
            operation: K::operation(&begun),
            payload,
            destination: None,
        }
    };
    if !dv::put_composed(queue, request) {
        return None;
    }
    own.batch.inside(|batch| batch.steps = None);
    Some(())
}

extern "C" fn gather<K: Kind, const LOCKS: bool>(own: &Qp, key: u32, address: u64, length: u32) {
    let sge = [Sge {
        address,
        length,
        key: LocalKey::from_raw(key),
    }];
    own.queue.quickly_if(
        LOCKS,
        |queue| put::<K>(own, queue, Payload::Gather(&sge)),
        || gather_any(own, key, address, length),
    );
}

/// The same steps, if there is now room that there seemed not to be. Not twice in a row: then it
/// is known that there is room.
fn again(own: &Qp) -> Option<&'static Steps> {
    let has_room = own.queue.with(AnyQp::find_room);
    own.batch.inside(|batch| batch.steps).filter(|_| has_room)
}

#[inline(never)]
extern "C" fn gather_any(own: &Qp, key: u32, address: u64, length: u32) {
    if let Some(steps) = again(own) {
        return (steps.gather)(own, key, address, length);
    }
    let sge = Sge {
        address,
        length,
        key: LocalKey::from_raw(key),
    };
    own.batch.inside(|batch| batch.gather_one(own, sge));
}

extern "C" fn inline<K: Kind, const LOCKS: bool>(own: &Qp, addr: *mut c_void, length: usize) {
    let Ok(bytes) = items(addr.cast::<u8>().cast_const(), length) else {
        return inline_any(own, addr, length);
    };
    own.queue.quickly_if(
        LOCKS,
        |queue| put::<K>(own, queue, Payload::Inline(&[bytes])),
        || inline_any(own, addr, length),
    );
}

#[inline(never)]
extern "C" fn inline_any(own: &Qp, addr: *mut c_void, length: usize) {
    if let Some(steps) = again(own) {
        return (steps.inline)(own, addr, length);
    }
    let piece = ibv_data_buf { addr, length };
    own.batch.inside(|batch| batch.inline_one(own, piece));
}
