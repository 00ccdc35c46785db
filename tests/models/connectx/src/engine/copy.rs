//! Memory-to-memory operations (MMO): copies that the device makes by itself.

use crate::device::Device;
use crate::engine::completion::Syndrome;
use crate::engine::message::Payload;
use crate::engine::receive::segment;
use crate::engine::wqe::{Control, UNIT};
use crate::layout::{be32, be64};
use crate::memory::Span;
use crate::memory_key::{Access, Right};
use crate::objects::Service;

/// The modifier of copies.
const COPY: u8 = 1;
/// Bytes that the device writes for the program's library.
const SCRATCH: u64 = 64;
/// What a length of 0 stands for.
const LONGEST: u64 = 1 << 31;

/// Makes a copy; returns its bytes.
pub(super) fn apply(
    device: &mut Device,
    control: Control,
    bytes: &[u8],
    qpn: u32,
) -> Result<u64, Syndrome> {
    let pair = device.qps.get(qpn).ok_or(Syndrome::LocalQpOperation)?;
    let fits = matches!(pair.service, Service::Rc | Service::DcInitiator);
    let (pd, is_allowed) = (pair.pd(), pair.copies && fits);
    let mut refuse = |reason| {
        device.report("malformed work request", reason);
        Err(Syndrome::LocalQpOperation)
    };
    if !is_allowed {
        return refuse("a copy on a queue pair that makes none");
    }
    if control.modifier != COPY || control.units != 4 || bytes.len() < 4 * UNIT {
        return refuse("memory-to-memory operation");
    }
    if be32(bytes, UNIT) != 0 {
        return refuse("control bits of a copy");
    }
    let (from, to) = (segment(bytes, 2 * UNIT), segment(bytes, 3 * UNIT));
    if from.length != to.length {
        return refuse("a copy of two lengths");
    }
    let length = match from.length {
        0 => LONGEST,
        length => length,
    };
    let access = |key, address, length, right| Access {
        key,
        address,
        length,
        pd,
        qpn,
        right,
    };
    let source = reach(
        device,
        access(from.key, from.address, length, Right::LocalRead),
    )?;
    let place = reach(
        device,
        access(to.key, to.address, length, Right::LocalWrite),
    )?;
    let (key, address) = (be32(bytes, UNIT + 4), be64(bytes, UNIT + 8));
    let scratch = reach(device, access(key, address, SCRATCH, Right::LocalWrite))?;
    let memory = &*device.memory;
    let said = Payload::Inline(vec![0; SCRATCH as usize]);
    Payload::Memory(source)
        .copy(memory, memory, &place)
        .and_then(|()| said.copy(memory, memory, &scratch))
        .map_err(|_| Syndrome::LocalProtection)?;
    Ok(length)
}

fn reach(device: &mut Device, access: Access) -> Result<Vec<Span>, Syndrome> {
    let mut spans = Vec::new();
    device.translate(access, &mut spans).map_err(|reason| {
        device.report_key(&access, reason);
        Syndrome::LocalProtection
    })?;
    Ok(spans)
}
