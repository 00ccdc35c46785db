//! Enhanced connection establishment: the options that a queue pair offers, and those that both
//! sides agreed to.
//!
//! The kernel passes them between firmware and driver data (`ece_options` of `mlx5_ib_create_qp`,
//! `mlx5_ib_modify_qp` and their answers) without looking at them.

use uverbs_core::types::Ece;
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::mlx5_ib_modify_qp_resp;

/// Asks the firmware for what it has, by the number of the options' first version.
const VERSION_1: u32 = 0x1000_0000;

/// Where the options end in the answer to a change.
const OPTIONS_END: usize = std::mem::offset_of!(mlx5_ib_modify_qp_resp, ece_options) + 4;

/// The options that a queue pair is created with.
pub(super) fn at_create(supported: bool) -> u32 {
    if supported { VERSION_1 } else { 0 }
}

/// The options of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Establishment {
    supported: bool,
    /// What the device has, told when it was created.
    offered: u32,
    /// What it agreed to; what it has as long as nobody asked.
    agreed: u32,
    /// What the next change asks for; 0: nothing.
    wanted: u32,
}

impl Establishment {
    pub(super) fn new(supported: bool, offered: u32) -> Self {
        Self {
            supported,
            offered,
            agreed: offered,
            wanted: 0,
        }
    }

    /// What it offers, or agreed to.
    pub(super) fn told(&self) -> Result<Ece> {
        self.check_supported(Op::QueryEce)?;
        Ok(Ece {
            vendor_id: Ece::MELLANOX,
            options: self.agreed,
            comp_mask: 0,
        })
    }

    /// Whether the options are this device's kind.
    pub(super) fn check(&self, ece: &Ece) -> Result<()> {
        let op = Op::SetEce;
        self.check_supported(op)?;
        match (ece.vendor_id, ece.comp_mask) {
            (Ece::MELLANOX, 0) => Ok(()),
            (Ece::MELLANOX, mask) => Err(Error::invalid(op, "comp_mask").fact("comp_mask", mask)),
            (0, _) => Err(Error::new(op, ErrorKind::Unsupported)
                .fact("vendor_id", 0_u32)
                .hint("the peer's device has no such options")),
            (vendor, _) => Err(Error::invalid(op, "vendor_id").fact("vendor_id", vendor)),
        }
    }

    /// Remembers what the peer can, for the next change.
    pub(super) fn wish(&mut self, ece: &Ece) -> Result<()> {
        self.check(ece)?;
        self.wanted = ece.options;
        // Nothing is agreed to before the device said so.
        self.agreed = 0;
        Ok(())
    }

    /// What a change asks for.
    pub(super) fn asked(&self) -> u32 {
        self.wanted
    }

    /// The change was made.
    pub(super) fn answered(&mut self, reply: &mlx5_ib_modify_qp_resp) {
        if self.wanted == 0 {
            return;
        }
        self.wanted = 0;
        self.agreed = if (reply.response_length as usize) < OPTIONS_END {
            0
        } else {
            reply.ece_options
        };
    }

    /// A queue pair that starts again offers what it did at first.
    pub(super) fn restart(&mut self) {
        self.agreed = self.offered;
        self.wanted = 0;
    }

    fn check_supported(&self, op: Op) -> Result<()> {
        if self.supported {
            return Ok(());
        }
        Err(Error::new(op, ErrorKind::Unsupported)
            .hint("the device, or its firmware, has no enhanced connection establishment"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const PEER: Ece = Ece {
        vendor_id: Ece::MELLANOX,
        options: 0x1000_0005,
        comp_mask: 0,
    };

    fn reply(length: u32, options: u32) -> mlx5_ib_modify_qp_resp {
        mlx5_ib_modify_qp_resp {
            response_length: length,
            ece_options: options,
            ..mlx5_ib_modify_qp_resp::default()
        }
    }

    #[test]
    fn what_the_peer_has_is_asked_for_once() {
        let mut ece = Establishment::new(true, 0x1000_0007);
        assert_eq!(ece.told().unwrap().options, 0x1000_0007);
        assert_eq!(ece.asked(), 0);
        ece.wish(&PEER).unwrap();
        assert_eq!((ece.asked(), ece.told().unwrap().options), (0x1000_0005, 0));
        ece.answered(&reply(16, 0x1000_0004));
        assert_eq!((ece.asked(), ece.told().unwrap().options), (0, 0x1000_0004));
        // A later change asks for nothing, and its answer says nothing.
        ece.answered(&reply(16, 0));
        assert_eq!(ece.told().unwrap().options, 0x1000_0004);
        ece.restart();
        assert_eq!(ece.told().unwrap().options, 0x1000_0007);
    }

    #[test]
    fn an_answer_without_options_agrees_to_none() {
        let mut ece = Establishment::new(true, 7);
        ece.wish(&PEER).unwrap();
        ece.answered(&reply(8, 0x1000_0005));
        assert_eq!(ece.told().unwrap().options, 0);
    }

    #[test]
    fn options_that_are_nobodys_are_refused() {
        let mut ece = Establishment::new(true, 7);
        let none = Ece::default();
        let kind = |error: Error| error.kind();
        assert_eq!(ece.wish(&none).map_err(kind), Err(ErrorKind::Unsupported));
        for (vendor_id, comp_mask) in [(0x8086, 0), (Ece::MELLANOX, 1)] {
            let other = Ece {
                vendor_id,
                comp_mask,
                ..PEER
            };
            assert_eq!(ece.wish(&other).map_err(kind), Err(ErrorKind::InvalidInput));
        }
        assert_eq!((ece.asked(), ece.told().unwrap().options), (0, 7));
    }

    #[test]
    fn a_device_without_options_says_so() {
        let mut ece = Establishment::new(false, 0);
        assert_eq!(at_create(false), 0);
        assert_eq!(ece.told().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(ece.wish(&PEER).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
