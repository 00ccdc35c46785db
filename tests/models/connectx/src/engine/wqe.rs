//! Send work requests as they stand in the ring.

use crate::engine::atomic::{Atomic, is_atomic, operands};
use crate::engine::receive::{Segment, segment};
use crate::layout::{be16, be32, be64};
use crate::objects::Service;

/// Opcodes of send work requests.
pub(crate) mod opcode {
    pub(crate) const NOP: u8 = 0x00;
    pub(crate) const SEND_INVALIDATE: u8 = 0x01;
    pub(crate) const RDMA_WRITE: u8 = 0x08;
    pub(crate) const RDMA_WRITE_IMMEDIATE: u8 = 0x09;
    pub(crate) const SEND: u8 = 0x0a;
    pub(crate) const SEND_IMMEDIATE: u8 = 0x0b;
    pub(crate) const RDMA_READ: u8 = 0x10;
    pub(crate) const COMPARE_SWAP: u8 = 0x11;
    pub(crate) const FETCH_ADD: u8 = 0x12;
    pub(crate) const MASKED_COMPARE_SWAP: u8 = 0x14;
    pub(crate) const MASKED_FETCH_ADD: u8 = 0x15;
    pub(crate) const SET_PSV: u8 = 0x20;
    pub(crate) const UMR: u8 = 0x25;
    pub(crate) const MMO: u8 = 0x2f;
}

/// Length of the control segment, and the unit of all sizes.
pub(crate) const UNIT: usize = 16;

/// The fence that waits for all requests before.
const FULL_FENCE: u8 = 4;

/// The control segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of its own")]
pub(crate) struct Control {
    pub(crate) opcode: u8,
    /// Qualifies the opcode.
    pub(crate) modifier: u8,
    pub(crate) index: u16,
    pub(crate) qpn: u32,
    /// Length of the whole work request in 16-byte units.
    pub(crate) units: usize,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    /// All requests before it have to be done.
    pub(crate) fenced: bool,
    /// The stream of a DC initiator.
    pub(crate) stream: u16,
    pub(crate) immediate: u32,
    /// Whether it is longer than what was posted and was truncated to that.
    pub(crate) cut: bool,
}

impl Control {
    /// Decodes the first 16 bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let flags = be32(bytes, 8) as u8;
        Self {
            opcode: be32(bytes, 0) as u8,
            modifier: (be32(bytes, 0) >> 24) as u8,
            index: (be32(bytes, 0) >> 8) as u16,
            qpn: be32(bytes, 4) >> 8,
            units: (be32(bytes, 4) & 0x3f) as usize,
            signaled: flags >> 3 & 1 != 0,
            solicited: flags >> 1 & 1 != 0,
            fenced: flags >> 5 == FULL_FENCE,
            stream: (be32(bytes, 8) >> 8) as u16,
            immediate: be32(bytes, 12),
            cut: false,
        }
    }

    /// Number of 64-byte blocks that the work request takes.
    pub(crate) fn blocks(&self) -> u16 {
        (self.units.div_ceil(4)).max(1) as u16
    }
}

/// The address vector of a datagram or of a dynamically connected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressVector {
    pub(crate) key: u64,
    pub(crate) qpn: u32,
    pub(crate) service_level: u32,
    pub(crate) lid: u16,
    pub(crate) gid: Option<[u8; 16]>,
    /// The destination GID whether or not a global route is requested; on Ethernet there always is
    /// one.
    pub(crate) raw_gid: [u8; 16],
    /// Index of the source address.
    pub(crate) source_index: u32,
    pub(crate) class: u8,
}

/// A parsed work request.
#[derive(Clone, Debug)]
pub(crate) struct WorkRequest {
    pub(crate) control: Control,
    pub(crate) address: Option<AddressVector>,
    pub(crate) shared_queue: u32,
    pub(crate) remote_address: u64,
    pub(crate) remote_key: u32,
    pub(crate) atomic: Option<Atomic>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) inline: Option<Vec<u8>>,
}

/// A malformed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Which reserved bits of the control segment are set. Those before the flags are the stream of a
/// DC initiator.
pub(crate) fn reserved(bytes: &[u8], service: Service) -> Option<&'static str> {
    let unnamed = if service == Service::DcInitiator {
        0
    } else {
        0xff00
    };
    [
        (4, 0xc0, "above the size"),
        (8, unnamed, "before the flags"),
        (8, 0x11, "among the flags"),
    ]
    .into_iter()
    .find(|(at, mask, _)| be32(bytes, *at) & mask != 0)
    .map(|(_, _, place)| place)
}

/// Parses the `units` 16-byte units of a work request on a queue of `service`.
pub(crate) fn parse(bytes: &[u8], service: Service) -> Result<WorkRequest, Malformed> {
    let control = Control::parse(bytes);
    let length = control.units * UNIT;
    if length < UNIT || length > bytes.len() {
        return Err(Malformed("size"));
    }
    let bytes = &bytes[..length];
    let mut request = WorkRequest {
        control,
        address: None,
        shared_queue: 0,
        remote_address: 0,
        remote_key: 0,
        atomic: None,
        segments: Vec::new(),
        inline: None,
    };
    let whole = [opcode::NOP, opcode::UMR, opcode::SET_PSV, opcode::MMO];
    if whole.contains(&control.opcode) {
        return Ok(request);
    }
    let mut at = UNIT;
    let mut advance = |by: usize| {
        let start = at;
        at += by;
        if at <= length {
            Ok(start)
        } else {
            Err(Malformed("segments"))
        }
    };
    if service == Service::Xrc {
        request.shared_queue = be32(bytes, advance(UNIT)?) & 0xff_ffff;
    }
    if service.is_datagram() || service == Service::DcInitiator {
        let start = advance(UNIT)?;
        let extended = be32(bytes, start + 8) >> 31 != 0;
        if extended {
            advance(2 * UNIT)?;
        }
        request.address = Some(address_vector(bytes, start, extended));
    }
    let code = control.opcode;
    match code {
        opcode::SEND | opcode::SEND_IMMEDIATE | opcode::SEND_INVALIDATE => {}
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_IMMEDIATE | opcode::RDMA_READ => {
            remote(bytes, advance(UNIT)?, &mut request);
        }
        _ if is_atomic(code) => {
            remote(bytes, advance(UNIT)?, &mut request);
            let start = advance(operands(code))?;
            request.atomic = Some(Atomic::parse(code, control.modifier, &bytes[start..])?);
        }
        _ => return Err(Malformed("opcode")),
    }
    data(bytes, at, &mut request)?;
    Ok(request)
}

fn remote(bytes: &[u8], at: usize, request: &mut WorkRequest) {
    request.remote_address = be64(bytes, at);
    request.remote_key = be32(bytes, at + 8);
}

fn address_vector(bytes: &[u8], at: usize, extended: bool) -> AddressVector {
    let route = be32(bytes, at + 28);
    let mut gid = [0; 16];
    if extended && let Some(found) = bytes.get(at + 32..at + 48) {
        gid.copy_from_slice(found);
    }
    AddressVector {
        key: be64(bytes, at),
        qpn: be32(bytes, at + 8) & 0xff_ffff,
        service_level: be32(bytes, at + 12) >> 24 & 0xf,
        lid: be16(bytes, at + 14),
        gid: (extended && route >> 30 & 1 != 0).then_some(gid),
        raw_gid: gid,
        source_index: route >> 20 & 0xff,
        class: bytes
            .get(at + 26)
            .copied()
            .filter(|_| extended)
            .unwrap_or(0),
    }
}

fn data(bytes: &[u8], mut at: usize, request: &mut WorkRequest) -> Result<(), Malformed> {
    while at < bytes.len() {
        let count = be32(bytes, at);
        if count >> 31 == 0 {
            request.segments.push(segment(bytes, at));
            at += UNIT;
            continue;
        }
        let length = (count & 0x3ff) as usize;
        let found = bytes
            .get(at + 4..at + 4 + length)
            .ok_or(Malformed("inline length"))?;
        if !request.segments.is_empty() {
            return Err(Malformed("inline data after pointer"));
        }
        request
            .inline
            .get_or_insert_default()
            .extend_from_slice(found);
        at += (4 + length).next_multiple_of(UNIT);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::layout::{Wide, word};

    fn control(opcode: u32, units: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        word(0).set(&mut bytes, 0x1234 << 8 | opcode);
        word(4).set(&mut bytes, 0x77 << 8 | units);
        word(8).set(&mut bytes, 0x0a);
        word(12).set(&mut bytes, 0xfeed);
        bytes
    }

    #[test]
    fn an_rdma_write_with_one_pointer() {
        let mut bytes = control(0x08, 3);
        Wide(16).set(&mut bytes, 0xabc0);
        word(24).set(&mut bytes, 0x500);
        word(32).set(&mut bytes, 100);
        word(36).set(&mut bytes, 0x600);
        Wide(40).set(&mut bytes, 0xdef0);
        let request = parse(&bytes, Service::Rc).unwrap();
        assert_eq!(
            (request.remote_address, request.remote_key),
            (0xabc0, 0x500)
        );
        assert_eq!(
            request.segments,
            [Segment {
                length: 100,
                key: 0x600,
                address: 0xdef0
            }]
        );
        assert_eq!(request.control.index, 0x1234);
        assert!(request.control.signaled && request.control.solicited);
        assert_eq!(request.control.immediate, 0xfeed);
    }

    #[test]
    fn inline_data_and_its_bounds() {
        let mut bytes = control(0x0a, 2);
        word(16).set(&mut bytes, 1 << 31 | 5);
        bytes[20..25].copy_from_slice(b"hello");
        assert_eq!(
            parse(&bytes, Service::Rc).unwrap().inline.unwrap(),
            b"hello"
        );
        word(16).set(&mut bytes, (1 << 31) | 0xc8);
        assert_eq!(
            parse(&bytes, Service::Rc).unwrap_err(),
            Malformed("inline length")
        );
    }

    #[test]
    fn pointers_may_follow_inline_data() {
        let mut bytes = control(0x0a, 3);
        word(16).set(&mut bytes, 1 << 31 | 5);
        bytes[20..25].copy_from_slice(b"hello");
        word(32).set(&mut bytes, 100);
        word(36).set(&mut bytes, 0x600);
        let request = parse(&bytes, Service::Rc).unwrap();
        assert_eq!(request.inline.unwrap(), b"hello");
        assert_eq!(request.segments.len(), 1);
        word(16).set(&mut bytes, 100);
        word(32).set(&mut bytes, 1 << 31 | 5);
        let behind = parse(&bytes, Service::Rc).unwrap_err();
        assert_eq!(behind, Malformed("inline data after pointer"));
    }

    #[test]
    fn sizes_that_do_not_add_up_are_malformed() {
        assert!(parse(&control(0x0a, 0), Service::Rc).is_err());
        assert!(parse(&control(0x08, 1), Service::Rc).is_err());
        assert!(parse(&control(0x0a, 9), Service::Rc).is_err());
        assert!(parse(&control(0x3f, 2), Service::Rc).is_err());
    }

    #[test]
    fn a_datagram_names_its_destination() {
        let mut bytes = control(0x0a, 4);
        word(16).set(&mut bytes, 0x1111_1111);
        word(24).set(&mut bytes, 1 << 31 | 0x99);
        word(28).set(&mut bytes, 0x0300_0007);
        let address = parse(&bytes, Service::Ud).unwrap().address.unwrap();
        assert_eq!(
            (address.qpn, address.lid, address.service_level, address.gid),
            (0x99, 7, 3, None)
        );
        assert_eq!(address.key >> 32, 0x1111_1111);
    }
}
