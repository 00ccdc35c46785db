//! Queue buffers: page lists given inline in a command or through a umem.

use crate::layout::{Field, be64, queue};
use crate::memory::{BusError, GuestMemory, Span, push_span};
use crate::status::{Outcome, Rule, require};

/// User memory registered by CREATE_UMEM.
#[derive(Clone, Debug)]
pub(crate) struct Umem {
    pages: Vec<u64>,
    shift: u32,
    offset: u64,
}

impl Umem {
    /// Parses the `umem` structure of CREATE_UMEM.
    pub(crate) fn parse(umem: &[u8]) -> Outcome<Self> {
        let shift = queue::umem::LOG_PAGE.get(umem) + 12;
        let count = queue::umem::COUNT.get(umem);
        let offset = u64::from(queue::umem::PAGE_OFFSET.get(umem));
        require(shift <= 40 && offset < 1 << shift, Rule::Umem)?;
        let pages = page_list(umem, queue::umem::MTT, count)?;
        Ok(Self {
            pages,
            shift,
            offset,
        })
    }

    /// Length in bytes from the start of the umem to the end of its last page.
    pub(crate) fn length(&self) -> u64 {
        ((self.pages.len() as u64) << self.shift).saturating_sub(self.offset)
    }

    /// Number of pages listed.
    pub(crate) fn entries(&self) -> usize {
        self.pages.len()
    }

    /// The part from `offset` on, `length` bytes long.
    pub(crate) fn part(&self, offset: u64, length: u64) -> Outcome<Buffer> {
        let start = self.offset.checked_add(offset).ok_or(Rule::Umem.refuse())?;
        let end = start.checked_add(length).ok_or(Rule::Umem.refuse())?;
        require(end <= (self.pages.len() as u64) << self.shift, Rule::Umem)?;
        let first = (start >> self.shift) as usize;
        let last = (end.saturating_sub(1).max(start) >> self.shift) as usize;
        let pages = self
            .pages
            .get(first..=last)
            .ok_or(Rule::Umem.refuse())?
            .to_vec();
        Ok(Buffer {
            pages,
            shift: self.shift,
            offset: start & ((1 << self.shift) - 1),
            length,
        })
    }
}

/// Reads `count` page addresses; the low 12 bits carry flags.
pub(crate) fn page_list(input: &[u8], at: usize, count: u64) -> Outcome<Vec<u64>> {
    let room = input.len().saturating_sub(at) as u64 / 8;
    require(count <= room, Rule::PageList)?;
    Ok((0..count as usize)
        .map(|i| be64(input, at + i * 8) & !0xfff)
        .collect())
}

/// A queue buffer in guest memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    pages: Vec<u64>,
    shift: u32,
    offset: u64,
    length: u64,
}

impl Buffer {
    /// Takes the buffer from the page list at `at`; `log_page` and `page_offset` (in 1/64 of a
    /// page) are as the contexts give them.
    pub(crate) fn parse(
        input: &[u8],
        at: usize,
        log_page: u32,
        page_offset: u32,
        length: u64,
    ) -> Outcome<Self> {
        let shift = log_page + 12;
        require(shift <= 40, Rule::PageList)?;
        let offset = u64::from(page_offset) << (shift - 6);
        require(offset < 1 << shift, Rule::PageList)?;
        let count = (offset + length).div_ceil(1 << shift);
        let pages = page_list(input, at, count)?;
        Ok(Self {
            pages,
            shift,
            offset,
            length,
        })
    }

    /// The spans of `length` bytes from `offset` on; `None` if they lie outside the buffer.
    pub(crate) fn spans(&self, offset: u64, length: u64) -> Option<Vec<Span>> {
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= self.length)?;
        let mut spans = Vec::new();
        let mut at = offset;
        while at < end {
            let position = at + self.offset;
            let page = self.pages.get((position >> self.shift) as usize)?;
            let within = position & ((1 << self.shift) - 1);
            let run = ((1 << self.shift) - within).min(end - at);
            push_span(&mut spans, page + within, run);
            at += run;
        }
        Some(spans)
    }

    /// The bus address of one byte.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        self.spans(offset, 1)?.first().map(|span| span.address)
    }

    /// Reads from the buffer.
    pub(crate) fn read(
        &self,
        memory: &dyn GuestMemory,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), BusError> {
        let length = data.len();
        let spans = self.spans(offset, length as u64).ok_or(BusError {
            address: offset,
            length,
        })?;
        let mut rest = data;
        for span in spans {
            let (head, tail) = rest.split_at_mut(span.length as usize);
            memory.read(span.address, head)?;
            rest = tail;
        }
        Ok(())
    }

    /// Writes to the buffer.
    pub(crate) fn write(
        &self,
        memory: &dyn GuestMemory,
        offset: u64,
        data: &[u8],
    ) -> Result<(), BusError> {
        let length = data.len();
        let spans = self.spans(offset, length as u64).ok_or(BusError {
            address: offset,
            length,
        })?;
        let mut rest = data;
        for span in spans {
            let (head, tail) = rest.split_at(span.length as usize);
            memory.write(span.address, head)?;
            rest = tail;
        }
        Ok(())
    }

    /// The page addresses, for queries.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }
}

/// Checks a log2 size against its limit and returns the size in bytes.
pub(crate) fn sized(log: Field, context: &[u8], max: u32, unit: u64) -> Outcome<u64> {
    let log = log.get(context);
    require(log <= max, Rule::BadSize)?;
    Ok(unit << log)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::layout::Wide;
    use crate::memory::Ram;

    #[test]
    fn a_buffer_follows_its_scattered_pages() {
        let mut input = vec![0; 32];
        Wide(0).set(&mut input, 0x3000);
        Wide(8).set(&mut input, 0x1000);
        let buffer = Buffer::parse(&input, 0, 0, 32, 0x1000).unwrap();
        assert_eq!(
            buffer.spans(0, 0x1000).unwrap(),
            [
                Span {
                    address: 0x3800,
                    length: 0x800
                },
                Span {
                    address: 0x1000,
                    length: 0x800
                }
            ]
        );
        assert!(buffer.spans(1, 0x1000).is_none());
        let ram = Ram::new(0x4000);
        buffer.write(&ram, 0x7fe, &[1, 2, 3, 4]).unwrap();
        let mut data = [0; 2];
        ram.read(0x1000, &mut data).unwrap();
        assert_eq!(data, [3, 4]);
        assert!(Buffer::parse(&input, 0, 0, 0, 0x10_0000).is_err());
        for log_page in [29, 58, 63] {
            assert!(Buffer::parse(&input, 0, log_page, 63, 0x1000).is_err());
        }
    }

    #[test]
    fn a_umem_part_keeps_to_the_umem() {
        let mut umem = vec![0; 0x30];
        queue::umem::COUNT.set(&mut umem, 2);
        queue::umem::PAGE_OFFSET.set(&mut umem, 0x10);
        Wide(0x20).set(&mut umem, 0x5003);
        Wide(0x28).set(&mut umem, 0x9003);
        let umem = Umem::parse(&umem).unwrap();
        assert_eq!(umem.length(), 0x1ff0);
        assert_eq!(umem.part(0xff8, 8).unwrap().address(0), Some(0x9008));
        assert!(umem.part(0x1ff0, 1).is_err());
        assert!(umem.part(u64::MAX, 2).is_err());
    }
}
