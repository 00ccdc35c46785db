//! `mlx5dv_init_obj`: the device's numbers of objects, and where queues are, for programs that
//! write requests and read completions themselves. Addresses stay until the object is destroyed,
//! those of a completion queue until it is resized.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

use uverbs_any::Of;
use uverbs_mlx5::{CompletionQueue, Place, ProtectionDomain, QueuePair, SharedReceiveQueue};

use super::abi::{
    Doorbell, Ring, mlx5dv_ah, mlx5dv_cq, mlx5dv_devx, mlx5dv_dm, mlx5dv_obj, mlx5dv_pd, mlx5dv_qp,
    mlx5dv_rwq, mlx5dv_srq,
};
use super::devx::Made;
use super::{Dm, Wq};
use crate::ah::Ah;
use crate::answer::{Answer, number};
use crate::cq::Cq;
use crate::errno::Code;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out};
use crate::qp::Qp;
use crate::srq::Srq;

/// `enum mlx5dv_obj_type`.
mod kind {
    pub(super) const QUEUE_PAIR: u64 = 1;
    pub(super) const COMPLETION_QUEUE: u64 = 1 << 1;
    pub(super) const SHARED_QUEUE: u64 = 1 << 2;
    pub(super) const WORK_QUEUE: u64 = 1 << 3;
    pub(super) const DEVICE_MEMORY: u64 = 1 << 4;
    pub(super) const ADDRESS: u64 = 1 << 5;
    pub(super) const DOMAIN: u64 = 1 << 6;
    pub(super) const FIRMWARE_OBJECT: u64 = 1 << 7;
    pub(super) const ALL: u64 = (1 << 8) - 1;
}

/// An address as C has it.
fn at(address: u64) -> *mut c_void {
    with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

fn ring(place: &Place) -> Ring {
    Ring {
        buf: at(place.buffer),
        wqe_cnt: place.count,
        stride: place.stride,
    }
}

/// `MLX5DV_QP_MASK_RAW_QP_HANDLES`, the only addition that is answered.
const NUMBERS: u64 = 2;

/// The doorbell takes 8 bytes at a time, and may be another queue pair's, too: no requests are
/// copied through it.
fn queue_pair(qp: Handle<Qp>, asked: u64) -> Answer<mlx5dv_qp> {
    qp.get()?.queue.with(|queue| {
        let own: Option<&QueuePair> = queue.of();
        let own = own.ok_or(Code::UNSUPPORTED)?;
        let place = own.place();
        let numbers = own.raw_numbers().unwrap_or_default();
        let record = place.send.record.max(place.recv.record);
        Ok(mlx5dv_qp {
            dbrec: at(record),
            sq: ring(&place.send),
            rq: ring(&place.recv),
            bf: Doorbell {
                reg: at(place.doorbell),
                size: 0,
            },
            comp_mask: asked & NUMBERS,
            uar_mmap_offset: 0,
            tirn: numbers.tirn,
            tisn: numbers.tisn,
            rqn: numbers.rqn,
            sqn: numbers.sqn,
            tir_icm_addr: 0,
        })
    })
}

fn completion_queue(cq: Handle<Cq>) -> Answer<mlx5dv_cq> {
    cq.get()?.with(|queue| {
        let own: Option<&CompletionQueue> = queue.of();
        let own = own.ok_or(Code::UNSUPPORTED)?;
        let place = own.place();
        Ok(mlx5dv_cq {
            buf: at(place.buffer),
            dbrec: at(place.record),
            cqe_cnt: place.count,
            cqe_size: place.stride,
            cq_uar: at(own.arm_page()),
            cqn: own.number(),
            comp_mask: 0,
        })
    })
}

/// `MLX5DV_SRQ_MASK_SRQN`.
const NUMBER: u64 = 1;

fn shared_queue(srq: Handle<Srq>, asked: u64) -> Answer<mlx5dv_srq> {
    srq.get()?.queue.with(|queue| {
        let own: Option<&SharedReceiveQueue> = queue.of();
        let own = own.ok_or(Code::UNSUPPORTED)?;
        let place = own.place();
        Ok(mlx5dv_srq {
            buf: at(place.buffer),
            dbrec: at(place.record),
            stride: place.stride,
            head: 0,
            tail: place.count.saturating_sub(1),
            comp_mask: asked & NUMBER,
            srqn: uverbs_core::contract::Srq::number(own),
        })
    })
}

fn work_queue(wq: Handle<Wq>) -> Answer<mlx5dv_rwq> {
    wq.get()?.with(|queue| {
        let place = queue.place();
        Ok(mlx5dv_rwq {
            buf: at(place.buffer),
            dbrec: at(place.record),
            wqe_cnt: place.count,
            stride: place.stride,
            comp_mask: 0,
        })
    })
}

/// `MLX5DV_DM_MASK_REMOTE_VA`.
const DEVICE_ADDRESS: u64 = 1;

/// Peers address its bytes from 0; the device's address is that of memory for steering.
fn device_memory(dm: Handle<Dm>, asked: u64) -> Answer<mlx5dv_dm> {
    dm.get()?.with(|memory| {
        let asked = asked & DEVICE_ADDRESS;
        let device = memory.device_address().filter(|_| asked != 0);
        Ok(mlx5dv_dm {
            buf: memory.address().map_or(null_mut(), at),
            length: memory.length(),
            comp_mask: asked,
            remote_va: device.unwrap_or(0),
        })
    })
}

/// The vector is a part of the handle.
fn address(ah: Handle<Ah>) -> Answer<mlx5dv_ah> {
    let vector: &[u8; 88] = ah.get()?.address.vector();
    Ok(mlx5dv_ah {
        av: vector.as_ptr().cast_mut().cast(),
        comp_mask: 0,
    })
}

fn domain(pd: Handle<Pd>) -> Answer<mlx5dv_pd> {
    let inner = pd.get()?.domain()?;
    let inner: &ProtectionDomain = inner.of().ok_or(Code::UNSUPPORTED)?;
    Ok(mlx5dv_pd {
        pdn: inner.number(),
        comp_mask: 0,
    })
}

fn firmware_object(made: Handle<Made>) -> Answer<mlx5dv_devx> {
    made.get()?.with(|made| {
        Ok(mlx5dv_devx {
            handle: made.handle(),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_init_obj(objects: In<mlx5dv_obj>, kinds: u64) -> c_int {
    number(|| {
        let objects = objects.get()?;
        if kinds & !kind::ALL != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let wanted = |kind| kinds & kind != 0;
        if wanted(kind::QUEUE_PAIR) {
            let out = Out::of(objects.qp.out);
            let asked = out.get()?.comp_mask;
            out.put(queue_pair(Handle::of(objects.qp.r#in), asked)?)?;
        }
        if wanted(kind::COMPLETION_QUEUE) {
            Out::of(objects.cq.out).put(completion_queue(Handle::of(objects.cq.r#in))?)?;
        }
        if wanted(kind::SHARED_QUEUE) {
            let out = Out::of(objects.srq.out);
            let asked = out.get()?.comp_mask;
            out.put(shared_queue(Handle::of(objects.srq.r#in), asked)?)?;
        }
        if wanted(kind::WORK_QUEUE) {
            Out::of(objects.rwq.out).put(work_queue(Handle::of(objects.rwq.r#in))?)?;
        }
        if wanted(kind::DEVICE_MEMORY) {
            let out = Out::of(objects.dm.out);
            let asked = out.get()?.comp_mask;
            out.put(device_memory(Handle::of(objects.dm.r#in), asked)?)?;
        }
        if wanted(kind::ADDRESS) {
            Out::of(objects.ah.out).put(address(Handle::of(objects.ah.r#in))?)?;
        }
        if wanted(kind::DOMAIN) {
            Out::of(objects.pd.out).put(domain(Handle::of(objects.pd.r#in))?)?;
        }
        if wanted(kind::FIRMWARE_OBJECT) {
            Out::of(objects.devx.out).put(firmware_object(Handle::of(objects.devx.r#in))?)?;
        }
        Ok(())
    })
}
