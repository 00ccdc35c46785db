//! What spreads the packets of queue pairs over links: the port of a bond that they leave by, and
//! their source port of UDP. Layouts: Programmer's Reference Manual, `QUERY_LAG`, `RTS2RTS_QP`,
//! `MODIFY_TIS`.

use uverbs_core::types::{QpState, QpType};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::{QueuePair, Role};
use crate::devx::Devx;
use crate::prm::{Field, GeneralCaps, Mailbox, Wide, bit, field, opcode};

/// `mlx5dv_query_qp_lag_port`—the port of a bond by which a queue pair sends; they count from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LagPort {
    /// The one that it is configured for.
    pub configured: u8,
    /// The one by which its packets leave now: another one while that is down.
    pub active: u8,
}

pub(super) const REPLY_LEN: usize = 16;
/// The number that a command is about, 24 bits.
pub(super) const NUMBER: Field = field(0x08, 23, 0);

// The bond.
const BOND_STATE: Field = field(0x08, 2, 0);
const ACTIVE_OF_FIRST: Field = field(0x0c, 3, 0);
const ACTIVE_OF_SECOND: Field = field(0x0c, 11, 8);

// Of a queue pair: replies to queries, and the changes of one that is ready to send.
pub(super) const QP_REPLY: usize = 0x110;
const QP_PORT: Field = field(0x18, 27, 24);
pub(super) const QP_CHANGE: usize = 0x1d0;
pub(super) const CHANGES: Field = field(0x10, 31, 0);
const CHANGES_PORT: u32 = 1 << 15;
pub(super) const MORE_CHANGES: Wide = Wide(0x108);
const CHANGES_SOURCE_PORT: u64 = 1 << 2;
const SOURCE_PORT: Field = field(0x50, 15, 0);

// Of the transport interface underneath a raw packet queue pair.
const TIS_REPLY: usize = 0xb0;
const TIS_PORT: Field = field(0x10, 27, 24);
const TIS_CHANGE: usize = 0xc0;
const TIS_CHANGES_PORT: Field = bit(0x14, 2);
const TIS_NEW_PORT: Field = field(0x20, 27, 24);

impl QueuePair {
    pub(super) fn unsupported(&self, op: Op, device_lacks: &'static str) -> Error {
        Error::new(op, ErrorKind::Unsupported)
            .fact("type", self.base.kind.to_string())
            .fact("state", self.base.state.to_string())
            .fact("device_lacks", device_lacks)
    }

    pub(super) fn firmware(&self) -> Devx {
        Devx::new(self.base.object.file())
    }

    /// `mlx5dv_query_qp_lag_port`—queries by which port of a bond it sends.
    ///
    /// Three system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device is not part of a bond, or a queue pair
    /// that only receives. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_query_qp_lag_port")]
    pub fn lag_port(&self) -> Result<LagPort> {
        self.lag_port_with(&self.firmware().general_caps()?)
    }

    fn lag_port_with(&self, caps: &GeneralCaps) -> Result<LagPort> {
        let op = Op::DevxQuery;
        let sends = match self.base.kind {
            QpType::Driver => self.role == Role::Initiator,
            QpType::XrcTarget => false,
            _ => true,
        };
        if caps.lag_ports <= 1 || !sends {
            return Err(self.unsupported(op, "ports of a bond"));
        }
        let devx = self.firmware();
        let bond = devx.query(&Mailbox::command(opcode::QUERY_LAG, 0, 16), REPLY_LEN)?;
        if bond.get(BOND_STATE) == 0 && !caps.lag_tx_port_affinity {
            return Err(self.unsupported(op, "a bond"));
        }
        let (opcode, number, length, port) = match self.raw_numbers() {
            Some(raw) => (opcode::QUERY_TIS, raw.tisn, TIS_REPLY, TIS_PORT),
            None => (opcode::QUERY_QP, self.base.number, QP_REPLY, QP_PORT),
        };
        let mut query = Mailbox::command(opcode, 0, 16);
        query.set(NUMBER, number);
        let reply = devx.query_object(&self.base.object, &query, length)?;
        let configured = reply.get(port);
        let active = match configured {
            1 => bond.get(ACTIVE_OF_FIRST),
            2 => bond.get(ACTIVE_OF_SECOND),
            _ => return Err(self.unsupported(op, "such a port").fact("port", configured)),
        };
        let narrow = |port: u32| u8::try_from(port).unwrap_or(0);
        Ok(LagPort {
            configured: narrow(configured),
            active: narrow(active),
        })
    }

    /// `mlx5dv_modify_qp_lag_port`—has it send by another port of a bond. Other queue pairs than
    /// those for raw packets have to be ready to send.
    ///
    /// Four system calls; they wait for the firmware.
    ///
    /// # Errors
    /// As [`lag_port`](Self::lag_port), of which this needs the answer: the firmware ignores a
    /// change where there is no bond. [`Unsupported`](ErrorKind::Unsupported): the device cannot
    /// change it, or not in this state; an XRC initiator.
    /// [`InvalidInput`](ErrorKind::InvalidInput): the bond has no such port; they count from 1.
    #[doc(alias = "mlx5dv_modify_qp_lag_port")]
    pub fn set_lag_port(&mut self, port: u8) -> Result<()> {
        let op = Op::DevxModify;
        let devx = self.firmware();
        let caps = devx.general_caps()?;
        self.lag_port_with(&caps)?;
        // The field is narrower: a greater number would be another port.
        if port == 0 || port > caps.lag_ports {
            return Err(Error::invalid(op, "port")
                .fact("port", port)
                .fact("ports", caps.lag_ports));
        }
        let object = &self.base.object;
        if let Some(raw) = self.raw_numbers() {
            let mut change = Mailbox::command(opcode::MODIFY_TIS, 0, TIS_CHANGE);
            change.set(NUMBER, raw.tisn);
            change.set(TIS_CHANGES_PORT, 1);
            change.set(TIS_NEW_PORT, port.into());
            return devx.modify_harmless(object, &change, REPLY_LEN).map(drop);
        }
        let changes = caps.rts2rts_lag_port && self.base.state == QpState::ReadyToSend;
        if !changes || self.base.kind == QpType::XrcInitiator {
            return Err(self.unsupported(op, "changes of the port of a bond"));
        }
        let mut change = Mailbox::command(opcode::RTS2RTS_QP, 0, QP_CHANGE);
        change.set(NUMBER, self.base.number);
        change.set(CHANGES, CHANGES_PORT);
        change.set(QP_PORT, port.into());
        devx.modify_harmless(object, &change, REPLY_LEN).map(drop)
    }

    /// `mlx5dv_modify_qp_udp_sport`—sets the source port of UDP of the packets of a connection over
    /// RoCE v2 that is ready to send: networks choose a path by it.
    ///
    /// Two system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): no plain connection, not ready to send, or the
    /// device does not change it. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_modify_qp_udp_sport")]
    pub fn set_udp_source_port(&mut self, port: u16) -> Result<()> {
        let op = Op::DevxModify;
        let fits = matches!(self.base.kind, QpType::Rc | QpType::Uc);
        if !fits || self.base.state != QpState::ReadyToSend {
            return Err(self.unsupported(op, "a connection that is ready to send"));
        }
        let devx = self.firmware();
        if !devx.general_caps()?.rts2rts_udp_source_port {
            return Err(self.unsupported(op, "changes of source ports"));
        }
        let mut change = Mailbox::command(opcode::RTS2RTS_QP, 0, QP_CHANGE);
        change.set(NUMBER, self.base.number);
        change.set_wide(MORE_CHANGES, CHANGES_SOURCE_PORT);
        change.set(SOURCE_PORT, port.into());
        devx.modify_harmless(&self.base.object, &change, REPLY_LEN)
            .map(drop)
    }
}
