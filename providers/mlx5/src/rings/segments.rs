//! The segments of requests after the control segment.

use uverbs_core::rings::Fields;
use uverbs_core::types::QpType;

use super::reader::Reader;
use crate::wqe::UNIT;

/// The segments between the control segment and the operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    /// None: a connection has a fixed peer.
    Connected,
    /// The destination of a datagram.
    Datagram,
    /// The destination of a request on a dynamic connection.
    Dynamic,
    /// The shared receive queue of an XRC connection.
    Xrc,
    /// The start of a frame.
    Ethernet,
}

impl Route {
    /// The route of queue pairs of this type.
    pub(crate) fn of(kind: QpType) -> Self {
        match kind {
            QpType::Ud => Self::Datagram,
            QpType::Driver => Self::Dynamic,
            QpType::XrcInitiator => Self::Xrc,
            QpType::RawPacket => Self::Ethernet,
            _ => Self::Connected,
        }
    }
}

/// The destination of a request.
pub(super) fn route(fields: &mut Fields, reader: &mut Reader<'_>, route: Route) -> Option<()> {
    match route {
        Route::Connected => Some(()),
        Route::Datagram => {
            fields.key("qkey", reader.word()?);
            reader.take(4)?;
            address(fields, reader)
        }
        Route::Dynamic => {
            fields.key("access_key", reader.long()?);
            address(fields, reader)
        }
        Route::Xrc => {
            fields.hex("srqn", reader.word()?);
            reader.take(12).map(drop)
        }
        Route::Ethernet => ethernet(fields, reader),
    }
}

/// An address vector after its key (`struct mlx5_av`).
fn address(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    const NUMBER: u32 = 0xff_ffff;
    let number = reader.word()?;
    fields.hex("remote_qpn", number & NUMBER);
    fields.hex_if_any("extended", number >> 31);
    fields.hex("rate_and_sl", reader.byte()?);
    fields.hex("path", reader.byte()?);
    fields.hex("lid_or_port", reader.half()?);
    reader.take(4)?;
    fields.bytes("mac", reader.take(6)?);
    fields.hex("traffic_class", reader.byte()?);
    fields.number("hop_limit", reader.byte()?);
    fields.hex("gid_and_label", reader.word()?);
    fields.bytes("gid", reader.take(16)?);
    Some(())
}

/// The start of a frame (`struct mlx5_wqe_eth_seg`), and the header that it contains.
fn ethernet(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    /// Bytes of the segment before the header.
    const PREFIX: usize = 14;
    reader.take(4)?;
    fields.flags(
        "checks",
        reader.byte()?.into(),
        &[(0x40, "l3"), (0x80, "l4")],
    );
    reader.byte()?;
    fields.number("mss", reader.half()?);
    reader.take(4)?;
    let header = reader.half()?;
    let length = usize::from(header);
    fields.bytes("header", reader.take(length)?);
    let end = (PREFIX + length).next_multiple_of(UNIT as usize);
    reader.take(end - PREFIX - length).map(drop)
}

/// An address in the peer's memory.
pub(super) fn remote(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    fields.hex("remote_address", reader.long()?);
    fields.key("rkey", reader.word()?);
    reader.take(4).map(drop)
}

/// Scatter/gather entries, or inline data, up to the end.
pub(super) fn sges(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    /// Inline data of this many bytes follows.
    const INLINE: u32 = 1 << 31;
    while reader.left() != 0 {
        let before = reader.left();
        let length = reader.word()?;
        if length & INLINE == 0 {
            sge(fields, reader, length)?;
            continue;
        }
        fields.bytes("inline", reader.take((length & !INLINE) as usize)?);
        let read = before - reader.left();
        reader.take(read.next_multiple_of(UNIT as usize) - read)?;
    }
    Some(())
}

/// A scatter/gather entry after its length.
pub(super) fn sge(fields: &mut Fields, reader: &mut Reader<'_>, length: u32) -> Option<()> {
    fields.number("length", length);
    fields.key("lkey", reader.word()?);
    fields.hex("address", reader.long()?);
    Some(())
}
