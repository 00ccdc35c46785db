//! Enhanced connection establishment: the options that a queue pair offers, and those that both
//! sides agreed on.
//!
//! The kernel passes them between firmware and driver data (`ece_options` of `mlx5_ib_create_qp`,
//! `mlx5_ib_modify_qp` and their replies) without interpreting them.

use uverbs_core::types::Ece;
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::mlx5_ib_modify_qp_resp;

/// Requests the firmware's options, by the number of their first version.
const VERSION_1: u32 = 0x1000_0000;

/// The end of the options in the reply to a modify.
const OPTIONS_END: usize = std::mem::offset_of!(mlx5_ib_modify_qp_resp, ece_options) + 4;

/// The options that a queue pair is created with.
pub(super) fn at_create(supported: bool) -> u32 {
    if supported { VERSION_1 } else { 0 }
}

/// The options of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Establishment {
    supported: bool,
    /// The device's options, reported at creation.
    offered: u32,
    /// The options agreed on; the offered ones as long as none were requested.
    agreed: u32,
    /// The options that the next modify requests; 0: none.
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

    /// The options that it offers, or that were agreed on.
    pub(super) fn options(&self) -> Result<Ece> {
        self.check_supported(Op::QueryEce)?;
        Ok(Ece {
            vendor_id: Ece::MELLANOX,
            options: self.agreed,
            comp_mask: 0,
        })
    }

    /// Checks that the options are of this vendor.
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

    /// Stores the peer's options for the next modify.
    pub(super) fn set_peer(&mut self, ece: &Ece) -> Result<()> {
        self.check(ece)?;
        self.wanted = ece.options;
        // Nothing is agreed on before the device has confirmed it.
        self.agreed = 0;
        Ok(())
    }

    /// The options that a modify requests.
    pub(super) fn requested(&self) -> u32 {
        self.wanted
    }

    /// Records the reply to a successful modify.
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

    /// A reset queue pair offers its original options again.
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
    fn the_peer_is_queried_once() {
        let mut ece = Establishment::new(true, 0x1000_0007);
        assert_eq!(ece.options().unwrap().options, 0x1000_0007);
        assert_eq!(ece.requested(), 0);
        ece.set_peer(&PEER).unwrap();
        assert_eq!(
            (ece.requested(), ece.options().unwrap().options),
            (0x1000_0005, 0)
        );
        ece.answered(&reply(16, 0x1000_0004));
        assert_eq!(
            (ece.requested(), ece.options().unwrap().options),
            (0, 0x1000_0004)
        );
        // A later modify requests nothing, and its reply has no meaning.
        ece.answered(&reply(16, 0));
        assert_eq!(ece.options().unwrap().options, 0x1000_0004);
        ece.restart();
        assert_eq!(ece.options().unwrap().options, 0x1000_0007);
    }

    #[test]
    fn an_answer_without_options_agrees_to_none() {
        let mut ece = Establishment::new(true, 7);
        ece.set_peer(&PEER).unwrap();
        ece.answered(&reply(8, 0x1000_0005));
        assert_eq!(ece.options().unwrap().options, 0);
    }

    #[test]
    fn options_of_another_vendor_are_refused() {
        let mut ece = Establishment::new(true, 7);
        let none = Ece::default();
        let kind = |error: Error| error.kind();
        assert_eq!(
            ece.set_peer(&none).map_err(kind),
            Err(ErrorKind::Unsupported)
        );
        for (vendor_id, comp_mask) in [(0x8086, 0), (Ece::MELLANOX, 1)] {
            let other = Ece {
                vendor_id,
                comp_mask,
                ..PEER
            };
            assert_eq!(
                ece.set_peer(&other).map_err(kind),
                Err(ErrorKind::InvalidInput)
            );
        }
        assert_eq!((ece.requested(), ece.options().unwrap().options), (0, 7));
    }

    #[test]
    fn a_device_without_options_says_so() {
        let mut ece = Establishment::new(false, 0);
        assert_eq!(at_create(false), 0);
        assert_eq!(ece.options().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(
            ece.set_peer(&PEER).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}
