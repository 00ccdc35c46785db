//! Ethernet frames on raw packet queue pairs.

use uverbs_core::PostError;
use uverbs_core::types::{Operation, Payload, SendFlags, SendRequest, Sge, WcOpcode};

use super::SendRing;
use crate::wqe::inline::Packer;
use crate::wqe::request::{self, Kind};
use crate::wqe::sizes::ETH_MIN_INLINE;
use crate::wqe::{UNIT, opcode};

/// The shortest header that segmentation supports: two addresses and a type.
const MIN_TSO_HEADER: usize = 14;

/// Bytes of the Ethernet segment before the header that it contains.
const PREFIX: u32 = 14;

/// Requests that the device compute the checksums of layers 3 and 4.
const CHECKSUMS: u8 = 0xc0;

/// The Ethernet operations of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ethernet {
    /// Bytes of header that the device requires inline.
    pub(crate) min_inline: u32,
    /// The device can compute checksums.
    pub(crate) checksums: bool,
    /// The longest header of a request for which there is room.
    pub(crate) max_header: u32,
    /// The longest payload that the device can segment; 0: no segmentation.
    pub(crate) max_tso: u32,
}

/// A frame whose header is passed separately, which the device may cut into several.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The flags of the request.
    pub flags: SendFlags,
    /// The first bytes of the frame, which are copied into the queue.
    pub header: &'a [u8],
    /// The rest, in registered memory.
    pub rest: &'a [Sge],
    /// Bytes of payload per frame: the rest is segmented, and each segment gets the header
    /// (`IBV_WR_TSO`). `None`: it is one frame.
    pub segment: Option<u16>,
}

impl Ethernet {
    /// The start of the Ethernet segment.
    fn prefix(
        &self,
        flags: SendFlags,
        segment: u16,
        header: usize,
    ) -> Result<[u8; PREFIX as usize], PostError> {
        let mut bytes = [0; PREFIX as usize];
        if flags.contains(SendFlags::IP_CHECKSUM) {
            if !self.checksums {
                return Err(PostError::UnsupportedOperation);
            }
            bytes[4] = CHECKSUMS;
        }
        bytes[6..8].copy_from_slice(&segment.to_be_bytes());
        let header = u16::try_from(header).map_err(|_| PostError::InvalidRequest)?;
        bytes[12..14].copy_from_slice(&header.to_be_bytes());
        Ok(bytes)
    }
}

impl SendRing {
    /// Puts a frame as an ordinary request.
    ///
    /// If the device requires a part of the header inline, frames have to be sent inline, as a
    /// [`Frame`], or as a [packet](Self::put_packet): the memory that scatter/gather entries name
    /// need not be accessible to this process.
    pub(crate) fn put_ethernet(
        &mut self,
        ethernet: &Ethernet,
        request: &SendRequest<'_>,
    ) -> Result<(), PostError> {
        let header = (ethernet.min_inline == 0).then_some(&[][..]);
        self.put_headed(ethernet, request, header)
    }

    /// Puts a frame as an ordinary request; the bytes that the device requires inline are copied
    /// from the addresses of its scatter/gather entries.
    ///
    /// # Safety
    /// The first bytes of the scatter/gather entries, as many as the device requires inline, are
    /// memory of this process at the addresses that the entries name, and may be read. Nothing
    /// writes to them meanwhile, neither a thread nor a device.
    #[allow(unsafe_code, reason = "reads memory that the caller names")]
    pub(crate) unsafe fn put_packet(
        &mut self,
        ethernet: &Ethernet,
        request: &SendRequest<'_>,
    ) -> Result<(), PostError> {
        let mut header = [0; ETH_MIN_INLINE as usize];
        let header = header
            .get_mut(..ethernet.min_inline as usize)
            .ok_or(PostError::UnsupportedOperation)?;
        if let Payload::Gather(sges) = request.payload {
            let mut left = &mut *header;
            for sge in sges {
                let (bytes, rest) = left.split_at_mut(left.len().min(sge.length as usize));
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "an address of this process"
                )]
                let start = std::ptr::with_exposed_provenance::<u8>(sge.address as usize);
                // SAFETY: the first bytes of the entries, which the caller promises to be readable
                // and not to change.
                unsafe { start.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
                left = rest;
            }
            if !left.is_empty() {
                return Err(PostError::InvalidRequest);
            }
        }
        self.put_headed(ethernet, request, Some(header))
    }

    /// Puts a frame. `copied`: the first bytes of its scatter/gather entries, as many as the device
    /// requires inline; `None` if they are not available.
    fn put_headed(
        &mut self,
        ethernet: &Ethernet,
        request: &SendRequest<'_>,
        copied: Option<&[u8]>,
    ) -> Result<(), PostError> {
        let Operation::Send = request.operation else {
            return Err(PostError::UnsupportedOperation);
        };
        if request.destination.is_some() || request.payload.is_empty() {
            return Err(PostError::InvalidRequest);
        }
        let header = ethernet.min_inline;
        let at = self.admit()?;
        let prefix = ethernet.prefix(request.flags, 0, header as usize)?;
        let mut writer = self.writer(at);
        let mut packer = Packer::new(writer.ring, writer.at);
        packer.push(&prefix);
        match request.payload {
            Payload::Gather(sges) => {
                let copied = copied.ok_or(PostError::UnsupportedOperation)?;
                packer.push(copied);
                writer.at = packer.finish();
                request::gather_behind(&mut writer, self.limits().max_sge, sges, header)?;
            }
            Payload::Inline(slices) => {
                // The header counts as inline data, because it is copied too.
                let max = self.limits().max_inline;
                let requested = request.payload.len();
                let length = u32::try_from(requested)
                    .ok()
                    .filter(|length| *length <= max)
                    .ok_or(PostError::InlineTooLong { requested, max })?;
                let rest = length
                    .checked_sub(header)
                    .ok_or(PostError::InvalidRequest)?;
                let mut left = header as usize;
                for slice in slices {
                    let (first, _) = slice.split_at(slice.len().min(left));
                    packer.push(first);
                    left -= first.len();
                }
                writer.at = packer.finish();
                if rest != 0 {
                    let mut packer = Packer::with_head(writer.ring, writer.at, rest);
                    let mut skip = header as usize;
                    for slice in slices {
                        let (first, data) = slice.split_at(slice.len().min(skip));
                        packer.push(data);
                        skip -= first.len();
                    }
                    writer.at = packer.finish();
                }
            }
            _ => return Err(PostError::UnsupportedOperation),
        }
        let at = writer.at;
        let kind = Kind::new(opcode::SEND, 0, WcOpcode::Send);
        self.commit(request.wr_id, request.flags, kind, at);
        Ok(())
    }

    /// Puts a frame whose header is passed separately.
    pub(crate) fn put_frame(
        &mut self,
        ethernet: &Ethernet,
        frame: &Frame<'_>,
    ) -> Result<(), PostError> {
        let header = frame.header.len();
        let room = ethernet.max_header.max(ethernet.min_inline);
        if header > room as usize {
            return Err(PostError::InlineTooLong {
                requested: header as u64,
                max: room,
            });
        }
        let least = match frame.segment {
            Some(_) => MIN_TSO_HEADER.max(ethernet.min_inline as usize),
            None => ethernet.min_inline as usize,
        };
        let rest: u64 = frame.rest.iter().map(|sge| u64::from(sge.length)).sum();
        if header < least || frame.segment == Some(0) || header == 0 && rest == 0 {
            return Err(PostError::InvalidRequest);
        }
        if frame.segment.is_some() && rest > ethernet.max_tso.into() {
            return if ethernet.max_tso == 0 {
                Err(PostError::UnsupportedOperation)
            } else {
                Err(PostError::MessageTooLong {
                    requested: rest,
                    max: ethernet.max_tso.into(),
                })
            };
        }
        let at = self.admit()?;
        let prefix = ethernet.prefix(frame.flags, frame.segment.unwrap_or(0), header)?;
        let mut writer = self.writer(at);
        let mut packer = Packer::new(writer.ring, writer.at);
        packer.push(&prefix);
        packer.push(frame.header);
        writer.at = packer.finish();
        request::gather(&mut writer, self.limits().max_sge, frame.rest)?;
        let at = writer.at;
        let kind = match frame.segment {
            Some(_) => Kind::new(opcode::TSO, 0, WcOpcode::Tso),
            None => Kind::new(opcode::SEND, 0, WcOpcode::Send),
        };
        self.commit(frame.wr_id, frame.flags, kind, at);
        Ok(())
    }
}

/// The longest header that fits into `room` bytes besides the segment itself.
pub(crate) const fn max_header(room: u32) -> u32 {
    // The segment has room for 18 bytes; longer headers take whole units.
    18 + room.next_multiple_of(UNIT)
}

#[cfg(test)]
mod tests;
