//! Sizes of queues and rings: what a program sets, or the files of the system do.

use std::sync::OnceLock;
use std::time::Duration;

use super::wire::{from_scale, to_scale};

/// Where the files are.
const FOLDER: &str = "/etc/rdma/rsocket";
/// The fewest requests of a queue, and the most.
const FEWEST: u32 = 16;
pub(super) const MOST: u32 = 0xfffe;
/// The smallest ring to send from.
const SMALLEST: u32 = 2048;

/// Of one socket.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Sizes {
    /// Requests of the send queue.
    pub(super) sends: u32,
    /// Requests of the receive queue.
    pub(super) receives: u32,
    /// Bytes that requests carry inline.
    pub(super) inline: u32,
    /// Bytes of the ring that is sent from.
    pub(super) staging: u32,
    /// Bytes of the ring that the peer writes into: even.
    pub(super) ring: u32,
    /// Entries for memory that the peer maps.
    pub(super) maps: u32,
}

/// What the files of the system say.
#[derive(Debug)]
pub(super) struct Defaults {
    pub(super) sizes: Sizes,
    /// How long to poll before a thread sleeps.
    pub(super) polls_for: Duration,
}

impl Defaults {
    pub(super) fn get() -> &'static Self {
        static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
        DEFAULTS.get_or_init(|| Self::read(|name| std::fs::read(format!("{FOLDER}/{name}")).ok()))
    }

    fn read(file: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let number = |name, otherwise| {
            let text = file(name).and_then(|bytes| String::from_utf8(bytes).ok());
            let value = text.and_then(|text| text.trim().parse::<u32>().ok());
            value.unwrap_or(otherwise)
        };
        let sizes = Sizes {
            sends: number("sqsize_default", 384).min(MOST),
            receives: number("rqsize_default", 384).min(MOST),
            inline: number("inline_default", 64).min(MOST),
            staging: 0,
            ring: 0,
            maps: from_scale(to_scale(number("iomap_size", 0).min(MOST))),
        };
        Self {
            sizes: sizes
                .with_staging(number("wmem_default", 1 << 17))
                .with_ring(number("mem_default", 1 << 17)),
            polls_for: Duration::from_micros(number("polling_time", 10).into()),
        }
    }
}

impl Sizes {
    pub(super) fn with_staging(self, bytes: u32) -> Self {
        let staging = if bytes < SMALLEST {
            2 * SMALLEST
        } else {
            bytes.min(1 << 30)
        };
        Self { staging, ..self }
    }

    pub(super) fn with_ring(self, bytes: u32) -> Self {
        let ring = bytes.clamp(2, 1 << 28) & !1;
        Self { ring, ..self }
    }

    /// For datagrams, each of which has a place of so many bytes, as a device allows.
    pub(super) fn of_datagrams(self, most_requests: u32, place: u32) -> Self {
        let most = most_requests.clamp(FEWEST, MOST);
        let sends = self.sends.min(self.staging / place).clamp(1, most);
        let receives = self.receives.min(self.ring / place).clamp(1, most);
        Self {
            sends,
            receives,
            staging: sends * place,
            ring: receives * place,
            ..self
        }
    }

    /// As a device allows.
    pub(super) fn on(self, most_requests: u32) -> Self {
        let most = most_requests.clamp(FEWEST, MOST);
        Self {
            sends: self.sends.clamp(FEWEST, most),
            receives: self.receives.clamp(FEWEST, most),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_set_what_sockets_begin_with() {
        let none = Defaults::read(|_| None);
        let sizes = Sizes {
            sends: 384,
            receives: 384,
            inline: 64,
            staging: 1 << 17,
            ring: 1 << 17,
            maps: 0,
        };
        assert_eq!(none.sizes, sizes);
        let some = Defaults::read(|name| match name {
            "sqsize_default" => Some(b"64\n".to_vec()),
            "wmem_default" => Some(b"1".to_vec()),
            "mem_default" => Some(b"4097".to_vec()),
            "iomap_size" => Some(b"1000".to_vec()),
            "rqsize_default" => Some(b"many".to_vec()),
            _ => None,
        });
        let expected = Sizes {
            sends: 64,
            staging: 4096,
            ring: 4096,
            maps: 768,
            ..sizes
        };
        assert_eq!(some.sizes, expected);
    }

    #[test]
    fn queues_fit_the_device() {
        let sizes = Sizes {
            sends: 1,
            receives: MOST,
            ..Sizes::default()
        };
        let fitting = sizes.on(1024);
        assert_eq!((fitting.sends, fitting.receives), (16, 1024));
    }

    #[test]
    fn datagrams_have_places() {
        let sizes = Defaults::read(|_| None).sizes.of_datagrams(1 << 20, 2048);
        assert_eq!((sizes.sends, sizes.receives), (64, 64));
        let sizes = sizes.with_ring(1 << 20);
        let many = Sizes {
            receives: 384,
            ..sizes
        };
        assert_eq!(many.of_datagrams(100, 2048).receives, 100);
        let least = Sizes::default().of_datagrams(0, 2048);
        assert_eq!((least.sends, least.ring), (1, 2048));
    }
}
