//! Memory of the program: registered, split, and taken back.

use uverbs::AccessFlags;
use uverbs::owned::{Buffer, ExposedMemory, NotRegistered, NotReturned, PageSize, SharedMemory};

use super::made::Hand;
use super::make::{REMOTE, site_of};
use super::{ENOUGH, FULL, Outcome, World, pick};
use crate::finding::Rule;

/// Lengths of what is registered: also a part of a word, and more than a page.
const LENGTHS: [usize; 8] = [64, 64, 8, 100, 13, 4096, 5000, 256];

/// Memory that the program registered and has back, and its contents then.
pub(super) struct Own {
    bytes: Bytes,
    copy: Vec<u8>,
}

/// The types that are registered here.
enum Bytes {
    Boxed(Box<[u8]>),
    Listed(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Boxed(bytes) => bytes,
            Self::Listed(bytes) => bytes,
        }
    }
}

impl Own {
    fn new(bytes: Bytes) -> Self {
        let copy = bytes.get().to_vec();
        Self { bytes, copy }
    }

    pub(super) fn has_changed(&self) -> bool {
        self.bytes.get() != self.copy
    }
}

/// A try to take memory back: what it was, or what is left of the handle.
enum Back<T> {
    Own(Bytes),
    Not(Option<T>),
}

impl<T> Back<T> {
    fn of(tried: Result<Bytes, NotReturned<T>>) -> Self {
        match tried {
            Ok(bytes) => Self::Own(bytes),
            Err(kept) => Self::Not(kept.memory),
        }
    }
}

fn of_buffer(buffer: Buffer, boxed: bool) -> Back<Buffer> {
    Back::of(match boxed {
        true => buffer.into_inner().map(Bytes::Boxed),
        false => buffer.into_inner().map(Bytes::Listed),
    })
}

fn of_exposed(memory: ExposedMemory, boxed: bool) -> Back<ExposedMemory> {
    Back::of(match boxed {
        true => memory.into_inner().map(Bytes::Boxed),
        false => memory.into_inner().map(Bytes::Listed),
    })
}

impl World<'_> {
    pub(super) fn lend(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        match c % 8 {
            0 | 1 => self.register(a, b, c >> 3),
            2 => self.expose_own(a, b, c >> 3),
            3 => self.expose_shared(a, b),
            4 => self.take_back(a, c & 0x80 != 0),
            5 => self.take_exposed_back(a, c & 0x80 != 0),
            6 => self.split(a, b),
            _ => return self.join(a, b),
        }
        Ok(())
    }

    fn register(&mut self, a: u8, b: u8, c: u8) {
        let Some(pd) = self.pd(site_of(a), usize::from(b & 0xf0 == 0xf0)) else {
            return;
        };
        if self.hands.len() >= FULL {
            return;
        }
        let bytes = vec![b; LENGTHS[pick(LENGTHS.len(), c)]];
        let (registered, back) = if a & 1 == 0 {
            apart(pd.register_owned(bytes), Bytes::Listed)
        } else {
            apart(pd.register_owned(bytes.into_boxed_slice()), Bytes::Boxed)
        };
        self.hands.extend(registered.map(Hand::new));
        self.keep(back);
    }

    fn expose_own(&mut self, a: u8, b: u8, c: u8) {
        let site = site_of(a);
        let Some(pd) = self.pd(site, 0) else { return };
        if self.exposed.len() >= ENOUGH {
            return;
        }
        // Sometimes rights that are refused.
        let access = match b >> 5 {
            7 => AccessFlags::empty(),
            _ => REMOTE,
        };
        let bytes = vec![b; LENGTHS[pick(LENGTHS.len(), c)]];
        let (exposed, back) = if a & 1 == 0 {
            apart(pd.expose_owned(bytes, access), Bytes::Listed)
        } else {
            let bytes = bytes.into_boxed_slice();
            apart(pd.expose_owned(bytes, access), Bytes::Boxed)
        };
        self.exposed.extend(exposed.map(|memory| (site, memory)));
        self.keep(back);
    }

    fn keep(&mut self, bytes: Option<Bytes>) {
        if self.own.len() >= FULL {
            self.own.remove(0);
        }
        self.own.extend(bytes.map(Own::new));
    }

    /// Exposes shared memory, sometimes the same once more.
    fn expose_shared(&mut self, a: u8, b: u8) {
        let site = site_of(a);
        let Some(pd) = self.pd(site, 0) else { return };
        if self.exposed.len() >= ENOUGH {
            return;
        }
        if self.shared.is_none() || b.is_multiple_of(4) {
            self.shared = SharedMemory::new(256, PageSize::Base).ok();
        }
        if let Some(shared) = &self.shared
            && let Ok(memory) = pd.expose_shared(shared, REMOTE)
        {
            self.exposed.push((site, memory));
        }
    }

    /// Takes the first memory back that can be, beginning somewhere: most of it is the library's.
    fn take_back(&mut self, a: u8, boxed: bool) {
        for _ in 0..self.hands.len() {
            let hand = self.hands.remove(pick(self.hands.len(), a));
            match of_buffer(hand.buffer, boxed) {
                Back::Own(bytes) => return self.keep(Some(bytes)),
                Back::Not(buffer) => self.hands.extend(buffer.map(Hand::new)),
            }
        }
    }

    fn take_exposed_back(&mut self, a: u8, boxed: bool) {
        for _ in 0..self.exposed.len() {
            let (site, memory) = self.exposed.remove(pick(self.exposed.len(), a));
            match of_exposed(memory, boxed) {
                Back::Own(bytes) => return self.keep(Some(bytes)),
                Back::Not(memory) => self.exposed.extend(memory.map(|memory| (site, memory))),
            }
        }
    }

    fn split(&mut self, a: u8, b: u8) {
        if self.hands.is_empty() || self.hands.len() >= FULL {
            return;
        }
        let hand = self.hands.swap_remove(pick(self.hands.len(), a));
        let mut buffer = hand.buffer;
        // Also at its ends, and beyond.
        let rest = buffer.split_off(pick(buffer.len() + 2, b));
        self.hands.push(Hand::new(buffer));
        self.hands.extend(rest.map(Hand::new));
    }

    /// Joins two buffers, neighbours if there are any.
    fn join(&mut self, a: u8, b: u8) -> Outcome {
        if self.hands.len() < 2 {
            return Ok(());
        }
        let mut buffer = self.hands.swap_remove(pick(self.hands.len(), a)).buffer;
        let end = buffer.as_ptr().addr() + buffer.len();
        let follows = |hand: &Hand| hand.buffer.as_ptr().addr() == end;
        let next = self.hands.iter().position(follows);
        let next = next.unwrap_or(pick(self.hands.len(), b));
        let next = self.hands.swap_remove(next).buffer;
        let lengths = (buffer.len(), next.len());
        let expected = [&buffer[..], &next].concat();
        let back = buffer.unsplit(next).err();
        let found = match &back {
            Some(next) => [&buffer[..], next].concat(),
            None => buffer.to_vec(),
        };
        self.hands.push(Hand::new(buffer));
        self.hands.extend(back.map(Hand::new));
        if found == expected {
            return Ok(());
        }
        self.found(Rule::Changed, || format!("joining {lengths:?} bytes"))
    }
}

/// What was made, or the memory that was refused.
fn apart<T, M>(
    made: Result<T, NotRegistered<M>>,
    kind: fn(M) -> Bytes,
) -> (Option<T>, Option<Bytes>) {
    match made {
        Ok(made) => (Some(made), None),
        Err(refused) => (None, refused.memory.map(kind)),
    }
}
