//! The sizes of the queues of a queue pair, and their capacities.

use uverbs_core::types::QpCaps;
use uverbs_core::{Error, Op, Result};

use crate::wqe::{MAX_UNITS, UNIT};

/// Bytes of a block of a send queue.
pub(crate) const BLOCK: u32 = 64;

/// The most blocks of a send queue that this crate uses, whatever the device offers: it counts them
/// in 16 bits, and so do senders.
pub(crate) const MAX_BLOCKS: u32 = 1 << 15;

/// The number of bytes that Ethernet sends carry inline unless the device requires none.
pub(crate) const ETH_MIN_INLINE: u32 = 18;

/// The limits for the sizes of queue pairs (from the reply to opening a context).
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "all of them are the most there may be"
)]
pub(crate) struct Limits {
    /// The maximum number of bytes of a send request.
    pub(crate) max_sq_desc: u32,
    /// The maximum number of bytes of a receive request.
    pub(crate) max_rq_desc: u32,
    /// The maximum number of blocks of a send queue.
    pub(crate) max_send_blocks: u32,
    /// The maximum number of receive requests.
    pub(crate) max_recv_wr: u32,
}

/// The segments before the data of a send request: the room for them in every request, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Overhead {
    /// Reserved per request: for the largest operation.
    pub(crate) reserved: u32,
    /// Used by the largest operation that carries data.
    pub(crate) used: u32,
}

impl Overhead {
    /// Reliable and unreliable connections: room to bind a window.
    pub(crate) const CONNECTED: Self = Self {
        reserved: 192,
        used: 48,
    };
    /// The same with the number of a shared receive queue.
    pub(crate) const XRC: Self = Self {
        reserved: 192 + 16,
        used: 48 + 16,
    };
    /// The same with a datagram's destination.
    pub(crate) const DC: Self = Self {
        reserved: 192 + 48,
        used: 48 + 48,
    };
    /// A destination, followed by the message.
    pub(crate) const DATAGRAM: Self = Self {
        reserved: 16 + 48,
        used: 16 + 48,
    };
    /// An Ethernet header.
    pub(crate) const RAW: Self = Self {
        reserved: 16 + 32,
        used: 16 + 32,
    };
}

/// A send queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Send {
    /// The number of blocks, a power of two, or 0 for no queue.
    pub(crate) blocks: u32,
    /// The number of requests that can be outstanding.
    pub(crate) max_post: u32,
    /// Scatter/gather entries of a request, as announced.
    pub(crate) max_sge: u32,
    /// Inline bytes of a request, as announced.
    pub(crate) max_inline: u32,
    /// Bytes for segmentation headers.
    pub(crate) max_header: u32,
    /// The part of `max_sge` that the size field of a request allows.
    pub(crate) usable_sge: u32,
    /// The part of `max_inline` that it allows.
    pub(crate) usable_inline: u32,
}

/// A receive queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Receive {
    /// The number of requests, a power of two, or 0 for no queue.
    pub(crate) count: u32,
    /// log₂ of the bytes of each request.
    pub(crate) shift: u32,
    /// Scatter/gather entries of a request.
    pub(crate) max_sge: u32,
}

impl Send {
    /// `header` is the room for segmentation headers.
    ///
    /// # Errors
    /// Sizes above the limits.
    pub(crate) fn new(
        op: Op,
        limits: &Limits,
        caps: &QpCaps,
        overhead: Overhead,
        header: u32,
    ) -> Result<Self> {
        if caps.max_send_wr == 0 {
            return Ok(Self::default());
        }
        let max = u64::from(limits.max_sq_desc);
        let reserved = u64::from(overhead.reserved);
        let header_room = u64::from(header).next_multiple_of(UNIT.into());
        let room = max
            .checked_sub(reserved + header_room)
            .ok_or_else(|| Error::limit(op, "max_tso_header", header.into(), max))?;
        let max_gather = room / u64::from(UNIT);
        if u64::from(caps.max_send_sge) > max_gather {
            let requested = caps.max_send_sge.into();
            return Err(Error::limit(op, "max_send_sge", requested, max_gather));
        }
        let gather = reserved + header_room + u64::from(caps.max_send_sge) * u64::from(UNIT);
        let inline = match caps.max_inline_data {
            0 => 0,
            bytes => reserved + (u64::from(bytes) + 4).next_multiple_of(UNIT.into()),
        };
        if inline > max {
            let requested = caps.max_inline_data.into();
            return Err(Error::limit(op, "max_inline_data", requested, room - 4));
        }
        let size = gather.max(inline).next_multiple_of(BLOCK.into());
        if size > max {
            let requested = caps.max_send_sge.into();
            return Err(Error::limit(op, "max_send_sge", requested, max_gather));
        }
        let requested = u64::from(caps.max_send_wr);
        let bytes = (requested * size).next_power_of_two();
        let blocks = bytes / u64::from(BLOCK);
        let most = u64::from(limits.max_send_blocks);
        if blocks > most || requested > 0x7fff_ffff / max {
            let fit = most.checked_ilog2().map_or(0, |log| (1 << log) * 64 / size);
            return Err(Error::limit(op, "max_send_wr", requested, fit));
        }
        // A request without room for scatter/gather entries or inline data has the size of the
        // segments before them.
        let max_inline = size.saturating_sub(reserved + 4);
        let used = u64::from(overhead.used) + header_room;
        let ceiling = u64::from(MAX_UNITS * UNIT).saturating_sub(used);
        Ok(Self {
            blocks: narrow(blocks),
            max_post: narrow(bytes / size),
            max_sge: caps.max_send_sge,
            max_inline: narrow(max_inline),
            max_header: header,
            usable_sge: caps.max_send_sge.min(narrow(ceiling / u64::from(UNIT))),
            usable_inline: narrow(max_inline.min(ceiling.saturating_sub(4))),
        })
    }

    /// Bytes of the ring.
    pub(crate) const fn bytes(&self) -> u32 {
        self.blocks * BLOCK
    }
}

impl Receive {
    /// # Errors
    /// Sizes above the limits.
    pub(crate) fn new(op: Op, limits: &Limits, max_wr: u32, max_sge: u32) -> Result<Self> {
        if max_wr == 0 {
            return Ok(Self::default());
        }
        if max_wr > limits.max_recv_wr {
            let (requested, max) = (max_wr.into(), limits.max_recv_wr.into());
            return Err(Error::limit(op, "max_recv_wr", requested, max));
        }
        let stride = u64::from(max_sge.max(1)) * u64::from(UNIT);
        if stride > limits.max_rq_desc.into() {
            let max = limits.max_rq_desc / UNIT;
            return Err(Error::limit(op, "max_recv_sge", max_sge.into(), max.into()));
        }
        let stride = stride.next_power_of_two();
        let bytes = (u64::from(max_wr).next_power_of_two() * stride).max(BLOCK.into());
        if bytes > 1 << 31 {
            let max = (1_u64 << 31) / stride;
            return Err(Error::limit(op, "max_recv_wr", max_wr.into(), max));
        }
        Ok(Self {
            count: narrow(bytes / stride),
            shift: stride.ilog2(),
            max_sge: narrow(stride / u64::from(UNIT)),
        })
    }

    /// As [`new`](Self::new), of requests that begin with a unit of their own, before the entries.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn linked(op: Op, limits: &Limits, max_wr: u32, max_sge: u32) -> Result<Self> {
        let mut sizes = Self::new(op, limits, max_wr, max_sge.max(1).saturating_add(1))?;
        sizes.max_sge = sizes.max_sge.saturating_sub(1);
        Ok(sizes)
    }

    /// Bytes of the ring.
    pub(crate) const fn bytes(&self) -> u32 {
        self.count << self.shift
    }
}

/// The values here were compared with limits of 32 bits.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const LIMITS: Limits = Limits {
        max_sq_desc: 1024,
        max_rq_desc: 512,
        max_send_blocks: 32768,
        max_recv_wr: 32768,
    };

    fn send(caps: QpCaps, overhead: Overhead) -> Result<Send> {
        Send::new(Op::CreateQueuePair, &LIMITS, &caps, overhead, 0)
    }

    fn caps(wr: u32, sge: u32, inline: u32) -> QpCaps {
        QpCaps {
            max_send_wr: wr,
            max_send_sge: sge,
            max_inline_data: inline,
            ..QpCaps::default()
        }
    }

    /// (transport, requested requests, scatter/gather entries, inline) → (blocks, requests, inline)
    /// as libmlx5 computes them.
    #[test]
    fn sizes_are_those_of_libmlx5() {
        let table = [
            (Overhead::CONNECTED, (1, 1, 0), (4, 1, 60)),
            (Overhead::CONNECTED, (100, 1, 0), (512, 128, 60)),
            (Overhead::CONNECTED, (128, 4, 0), (512, 128, 60)),
            (Overhead::CONNECTED, (128, 5, 0), (1024, 204, 124)),
            (Overhead::CONNECTED, (16, 1, 61), (128, 25, 124)),
            (Overhead::DATAGRAM, (10, 1, 0), (32, 16, 60)),
            (Overhead::DATAGRAM, (16, 4, 0), (32, 16, 60)),
            (Overhead::RAW, (16, 1, 0), (16, 16, 12)),
            (Overhead::XRC, (16, 3, 0), (64, 16, 44)),
            (Overhead::DC, (16, 1, 0), (64, 16, 12)),
        ];
        for (overhead, (wr, sge, inline), expected) in table {
            let sizes = send(caps(wr, sge, inline), overhead).unwrap();
            assert_eq!(
                (sizes.blocks, sizes.max_post, sizes.max_inline),
                expected,
                "{wr} {sge} {inline}"
            );
            assert!(sizes.max_post >= wr);
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (caps, what) in [
            (caps(1, 53, 0), "max_send_sge"),
            (caps(1, 1, 829), "max_inline_data"),
            (caps(1 << 20, 1, 0), "max_send_wr"),
            (caps(u32::MAX, 1, 0), "max_send_wr"),
        ] {
            let error = send(caps, Overhead::CONNECTED).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(send(caps(0, 60, 0), Overhead::RAW).unwrap().blocks, 0);
        assert_eq!(
            send(caps(1, 52, 828), Overhead::CONNECTED)
                .unwrap()
                .max_inline,
            828
        );
    }

    #[test]
    fn a_request_never_outgrows_its_size_field() {
        let sizes = send(caps(1, 60, 0), Overhead::DATAGRAM).unwrap();
        assert_eq!((sizes.max_sge, sizes.usable_sge), (60, 59));
        assert_eq!((sizes.max_inline, sizes.usable_inline), (956, 940));
    }

    #[test]
    fn receive_queues() {
        let receive = |wr, sge| Receive::new(Op::CreateQueuePair, &LIMITS, wr, sge);
        let sizes = |wr, sge| {
            let sizes = receive(wr, sge).unwrap();
            (sizes.count, sizes.shift, sizes.max_sge)
        };
        assert_eq!(sizes(1, 1), (4, 4, 1));
        assert_eq!(sizes(100, 1), (128, 4, 1));
        assert_eq!(sizes(5, 3), (8, 6, 4));
        assert_eq!(sizes(1, 0), (4, 4, 1));
        assert_eq!(sizes(0, 9), (0, 0, 0));
        assert!(receive(1, 33).is_err());
        assert!(receive(32769, 1).is_err());
    }
}
