//! Memory that a program maps, for its peer to write into by offsets.
//!
//! Each side has a list of what the other one has mapped, after its list of buffers, into which the
//! other one writes.

use super::endpoint::Endpoint;
use super::flow::Flow;
use super::memory::{LOCAL, REMOTE, Registered};
use super::send::{by_messages, if_writable};
use super::stream::{Stream, lock};
use super::wire::{ENTRY, Entry, MAP, Map, Message, TARGETS, map};
use crate::answer::Answer;
use crate::errno::Code;

/// Memory of the program.
struct Mapped {
    memory: Registered,
    offset: u64,
    /// The peer's entry for it; none if the peer may not write.
    at: Option<u32>,
    is_told: bool,
}

/// What a socket has mapped.
#[derive(Default)]
pub(super) struct Maps(Vec<Mapped>);

impl Maps {
    /// An entry of the peer's list that is not in use.
    fn free(&self, count: u32) -> Option<u32> {
        (0..count).find(|at| self.0.iter().all(|mapped| mapped.at != Some(*at)))
    }
}

impl Stream {
    /// Maps memory of the program at an offset, or at its address: where it is.
    pub(super) fn map(
        &self,
        (start, len): (usize, usize),
        is_for_peer: bool,
        offset: i64,
    ) -> Answer<i64> {
        let endpoint = self.connected().map_err(|_| Code::INVALID)?;
        let mut maps = lock(&self.maps);
        let (at, access) = if is_for_peer {
            let count = endpoint.remote().map_or(0, |remote| remote.maps);
            let at = maps.free(count).ok_or(Code::NO_ROOM)?;
            (Some(at), LOCAL | REMOTE)
        } else {
            (None, LOCAL)
        };
        let offset = match offset {
            -1 => i64::try_from(start).map_err(|_| Code::INVALID)?,
            offset => offset,
        };
        maps.0.push(Mapped {
            memory: Registered::new(endpoint.pd(), start, len, access)?,
            offset: offset.cast_unsigned(),
            at,
            is_told: at.is_none(),
        });
        Ok(offset)
    }

    /// Ends what was mapped by this address and length.
    pub(super) fn unmap(&self, start: usize, len: usize) -> Answer<()> {
        let mut maps = lock(&self.maps);
        let place = (start, len);
        let at = maps
            .0
            .iter()
            .position(|mapped| mapped.memory.place == place);
        maps.0.remove(at.ok_or(Code::INVALID)?);
        Ok(())
    }

    /// Tells the peer of what was mapped since.
    pub(super) fn announce(
        &self,
        endpoint: &Endpoint,
        position: &mut u32,
        blocks: bool,
    ) -> Answer<()> {
        let next = || {
            let mut maps = lock(&self.maps);
            let untold = maps.0.iter_mut().find(|mapped| !mapped.is_told)?;
            untold.is_told = true;
            let map = Map {
                offset: untold.offset,
                entry: Entry {
                    address: untold.memory.place.0 as u64,
                    key: untold.memory.remote_key(),
                    length: u32::try_from(untold.memory.place.1).unwrap_or(u32::MAX),
                },
            };
            Some((untold.at?, map))
        };
        let take = |endpoint: &Endpoint, flow: &mut Flow| {
            if_writable(endpoint, flow, |flow| flow.announce(MAP).then_some(()))
        };
        let has_untold = || lock(&self.maps).0.iter().any(|mapped| !mapped.is_told);
        while has_untold() {
            self.wait(blocks, take)?;
            let (Some((at, map)), Some(remote)) = (next(), endpoint.remote()) else {
                // Unmapped meanwhile.
                self.flow().sent(Message::Map(0), MAP);
                continue;
            };
            let list = u64::from(remote.targets.length) * u64::from(ENTRY);
            let place = list + u64::from(at) * u64::from(MAP);
            let to = (
                remote.targets.address.wrapping_add(place),
                remote.targets.key,
            );
            let bytes = remote.order.map(map);
            self.post_copy(endpoint, position, &bytes, to, Message::Map(at))?;
        }
        Ok(())
    }

    /// Writes into what the peer has mapped at an offset: how many bytes, 0 if nothing is there.
    pub(super) fn write_mapped(&self, bytes: &[u8], offset: u64, flags: i32) -> Answer<usize> {
        self.connected_first(flags)?;
        let blocks = self.blocks(flags);
        let endpoint = self.connected()?;
        let mut position = lock(&self.sends);
        self.announce(endpoint, &mut position, blocks)?;
        let mut next = offset;
        by_messages(&[bytes], |rest, most| {
            let Some((to, room)) = find(endpoint, next) else {
                return Ok(0);
            };
            let length = self.wait(blocks, |endpoint, flow| {
                if_writable(endpoint, flow, |flow| flow.depart_directly(most.min(room)))
            })?;
            let part = rest.get(..length as usize).unwrap_or_default();
            next = next.wrapping_add(length.into());
            self.post_copy(endpoint, &mut position, part, to, Message::Direct(length))
        })
    }
}

/// Where the peer has mapped an offset, and how many bytes are there.
fn find(endpoint: &Endpoint, offset: u64) -> Option<((u64, u32), u32)> {
    (0..endpoint.sizes.maps).find_map(|at| {
        let mut bytes = [0; MAP as usize];
        let place = TARGETS * ENTRY + at * MAP;
        if !endpoint.lists.read(place as usize, &mut bytes) {
            return None;
        }
        within(map(bytes), offset)
    })
}

fn within(map: Map, offset: u64) -> Option<((u64, u32), u32)> {
    let into = offset.checked_sub(map.offset)?;
    let left = u64::from(map.entry.length).checked_sub(into)?;
    let left = u32::try_from(left).ok().filter(|left| *left > 0)?;
    Some(((map.entry.address.wrapping_add(into), map.entry.key), left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_in_one_map() {
        let map = Map {
            offset: 1000,
            entry: Entry {
                address: 0x4000,
                key: 3,
                length: 100,
            },
        };
        assert_eq!(within(map, 1000), Some(((0x4000, 3), 100)));
        assert_eq!(within(map, 1099), Some(((0x4000 + 99, 3), 1)));
        assert_eq!(within(map, 1100), None);
        assert_eq!(within(map, 999), None);
        assert_eq!(within(Map::default(), 0), None);
        // What a peer writes may be anything.
        let last = Map {
            offset: u64::MAX,
            entry: Entry {
                address: u64::MAX,
                key: 0,
                length: u32::MAX,
            },
        };
        assert_eq!(within(last, u64::MAX), Some(((u64::MAX, 0), u32::MAX)));
        assert_eq!(within(last, 0), None);
    }
}
