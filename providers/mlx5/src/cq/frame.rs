//! What entries say of received frames beyond what completions carry.

use super::CompletionQueue;
use crate::cqe::Tail;

/// What the device wrote of a received frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameFields {
    /// The VLAN tag that was stripped from it: priority and number.
    pub vlan: u16,
    /// The tag of the flow rule that it matched; 0 for none.
    pub tag: u32,
}

impl CompletionQueue {
    /// `ibv_wc_read_cvlan`, `ibv_wc_read_flow_tag`—what the entry of the completion that was taken
    /// last says of its frame. Only before its slot is given back, and only for a receive.
    #[doc(alias = "ibv_wc_read_cvlan")]
    #[doc(alias = "ibv_wc_read_flow_tag")]
    pub fn frame_fields(&self) -> FrameFields {
        let Some(position) = self.consumer.position().checked_sub(1) else {
            return FrameFields::default();
        };
        let ring = self.consumer.ring();
        let first = ring.first(position);
        let [_, flags] = ring.units.get(first.wrapping_add(1));
        let [_, tail] = ring.units.get(first.wrapping_add(3));
        FrameFields {
            vlan: (u64::from_be(flags) & 0xffff) as u16,
            tag: Tail(u64::from_be(tail)).qpn(),
        }
    }
}
