//! Ports of bonds, source ports of UDP, streams that failed, reserved numbers of queue pairs, and
//! addresses that are tied to one.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use uverbs_any::Of as _;
use uverbs_mlx5::QueuePair;
use uverbs_mlx5::devx::{AddressMapping, ReservedNumbers};

use super::devx::firmware;
use super::to::wrapped;
use crate::ah::Ah;
use crate::answer::{Answer, number};
use crate::context::Context;
use crate::errno::Code;
use crate::pointer::{Handle, Out};
use crate::qp::Qp;

/// Runs `body` with the vendor's queue pair, while no other thread sends.
fn with_own<R>(
    qp: Handle<Qp>,
    body: impl FnOnce(&mut QueuePair) -> uverbs_core::Result<R>,
) -> Answer<R> {
    qp.get()?.sending(|queue| {
        let own: Option<&mut QueuePair> = queue.of_mut();
        Ok(body(own.ok_or(Code::UNSUPPORTED)?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_query_qp_lag_port(
    qp: Handle<Qp>,
    configured: Out<u8>,
    active: Out<u8>,
) -> c_int {
    number(|| {
        let port = with_own(qp, |own| own.lag_port())?;
        configured.put(port.configured)?;
        active.put(port.active)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_modify_qp_lag_port(qp: Handle<Qp>, port: u8) -> c_int {
    number(|| with_own(qp, |own| own.set_lag_port(port)))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_modify_qp_udp_sport(qp: Handle<Qp>, port: u16) -> c_int {
    number(|| with_own(qp, |own| own.set_udp_source_port(port)))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_dci_stream_id_reset(qp: Handle<Qp>, stream: u16) -> c_int {
    number(|| with_own(qp, |own| own.reset_stream(wrapped(stream, own.streams()))))
}

/// The numbers that a program has taken, block by block. A number is not given out again, so that
/// packets of its former connection meet nobody; a block goes back when all of it was.
#[derive(Default)]
pub(crate) struct Reserved(Mutex<Vec<Block>>);

struct Block {
    numbers: ReservedNumbers,
    /// How many were given out, and which of them are still taken.
    given: u32,
    taken: Vec<u32>,
}

impl Reserved {
    fn take(&self, context: Handle<Context>) -> Answer<u32> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used_up = |block: &Block| block.given as usize >= block.numbers.numbers().len();
        if blocks.last().is_none_or(is_used_up) {
            let numbers = firmware(context)?.reserve_numbers()?;
            blocks.push(Block {
                numbers,
                given: 0,
                taken: Vec::new(),
            });
        }
        let block = blocks.last_mut().ok_or(Code::INVALID)?;
        let number = block.numbers.numbers().start + block.given;
        block.given += 1;
        block.taken.push(number);
        Ok(number)
    }

    fn give_back(&self, number: u32) -> Answer<()> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |block: &Block| block.taken.contains(&number);
        let at = blocks.iter().position(has).ok_or(Code::INVALID)?;
        let block = blocks.get_mut(at).ok_or(Code::INVALID)?;
        block.taken.retain(|taken| *taken != number);
        let is_over = block.given as usize >= block.numbers.numbers().len();
        if is_over && block.taken.is_empty() {
            // What the firmware does not take back is freed with the context.
            drop(blocks.swap_remove(at));
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_reserved_qpn_alloc(context: Handle<Context>, into: Out<u32>) -> c_int {
    number(|| {
        let opened = context.get()?;
        into.get()?;
        into.put(opened.reserved.take(context)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_reserved_qpn_dealloc(context: Handle<Context>, qpn: u32) -> c_int {
    number(|| context.get()?.reserved.give_back(qpn))
}

/// The queue pair that an address is tied to, until the address is destroyed.
#[derive(Default)]
pub(crate) struct Mapping(Mutex<Option<AddressMapping>>);

/// Only the first one counts, as in rdma-core.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_map_ah_to_qp(ah: Handle<Ah>, qp_number: u32) -> c_int {
    number(|| {
        let ah = ah.get()?;
        let devx = firmware(ah.context())?;
        let mut mapping = ah.mapping.0.lock().unwrap_or_else(PoisonError::into_inner);
        if mapping.is_none() {
            *mapping = Some(devx.map_address(&ah.address, qp_number)?);
        }
        Ok(())
    })
}
