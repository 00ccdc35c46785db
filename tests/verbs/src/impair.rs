//! Impairs the packets that an interface sends, as `tc qdisc … netem` does, by rtnetlink.
//!
//! Messages: `linux/rtnetlink.h`, `linux/pkt_sched.h`.

use crate::link::talk;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const CREATE_OR_REPLACE: u16 = 0x400 | 0x100;
const ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_NETEM_REORDER: u16 = 3;
const TCA_NETEM_CORRUPT: u16 = 4;
/// Number of packets that may be queued.
const LIMIT: u32 = 1000;

/// What happens to packets. Shares are in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    /// Never arrive.
    pub lost: u8,
    /// Arrive twice.
    pub duplicated: u8,
    /// Arrive with a wrong bit.
    pub corrupted: u8,
    /// Do not wait for `delay_us`, and so overtake others.
    pub overtaking: u8,
    /// Delay of packets, in microseconds.
    pub delay_us: u32,
}

/// Packets are impaired until this is dropped.
#[derive(Debug)]
pub struct Impaired {
    index: u32,
}

impl Impaired {
    /// Impairs what the interface with this index sends. The interface is looked up in the network
    /// namespace of the calling thread, which must also be the one that drops this.
    pub fn new(index: u32, how: &Impairment) -> Self {
        let mut options = Vec::new();
        // The kernel counts in units of 64 ns.
        let latency = u64::from(how.delay_us) * 1000 / 64;
        let latency = u32::try_from(latency).expect("a delay below minutes");
        for word in [latency, LIMIT, share(how.lost), 0, share(how.duplicated), 0] {
            options.extend(word.to_ne_bytes());
        }
        if how.overtaking > 0 {
            // The first packet after this many may overtake.
            options[12..16].copy_from_slice(&1_u32.to_ne_bytes());
            options.extend(attribute(TCA_NETEM_REORDER, &correlated(how.overtaking)));
        }
        if how.corrupted > 0 {
            options.extend(attribute(TCA_NETEM_CORRUPT, &correlated(how.corrupted)));
        }
        let mut body = place(index);
        body.extend(attribute(TCA_KIND, b"netem\0"));
        body.extend(attribute(TCA_OPTIONS, &options));
        talk(RTM_NEWQDISC, CREATE_OR_REPLACE, &body);
        Self { index }
    }
}

impl Drop for Impaired {
    fn drop(&mut self) {
        talk(RTM_DELQDISC, 0, &place(self.index));
    }
}

/// The root of an interface's queueing disciplines.
fn place(index: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in [index, 0, ROOT, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

fn share(percent: u8) -> u32 {
    u32::MAX / 100 * u32::from(percent)
}

/// A share that does not depend on the previous packet.
fn correlated(percent: u8) -> Vec<u8> {
    [share(percent).to_ne_bytes(), [0; 4]].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).expect("a short attribute");
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
