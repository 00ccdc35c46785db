//! What is checked before a queue pair is created, and found out about its port.

use std::sync::OnceLock;

use uverbs_core::cm::Path;
use uverbs_core::types::{LinkLayer, PortAttr, QpType};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::super::gid::{self, GidChoice};
use super::{Port, QueuePairBuilder};
use crate::transport::Transport;

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// Checks that every value has a name and that all objects are of one device; the kernel could
    /// not even name those of another.
    pub(super) fn check(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        self.kind().checked(op, "kind")?;
        self.flags.checked(op, "flags")?;
        let context = self.pd.context();
        for (what, cq) in [("send_cq", self.send_cq), ("recv_cq", self.recv_cq)] {
            if !cq.is_of(context) {
                return Err(Error::invalid(op, what)
                    .hint("the completion queue belongs to another context"));
            }
        }
        match self.srq {
            Some(srq) if !srq.pd().is_of(context) => Err(Error::invalid(op, "srq")
                .hint("the shared receive queue belongs to another context")),
            Some(_) if matches!(self.kind(), QpType::Uc | QpType::RawPacket) => {
                Err(Error::new(op, ErrorKind::Unsupported)
                    .fact("argument", "srq")
                    .fact("transport", self.kind().to_string())
                    .hint("shared receive queues are for RC, UD, XRC and DC"))
            }
            _ => self.check_device(),
        }
    }

    /// Checks what the device reported about itself when it was opened.
    fn check_device(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        let settings = &self.settings;
        settings.static_rate.checked(op, "static_rate")?;
        let device = self.pd.context().device_attr();
        let (port, ports) = (settings.port, device.phys_port_cnt.max(1));
        if port == 0 || port > ports {
            return Err(Error::invalid(op, "port")
                .fact("port", port)
                .fact("ports", ports)
                .hint("ports are numbered from 1"));
        }
        // One at a time is the default, also where the device has no reads.
        for (what, asked, max) in [
            (
                "max_rd_atomic",
                settings.max_rd_atomic,
                device.max_qp_init_rd_atom,
            ),
            (
                "max_dest_rd_atomic",
                settings.max_dest_rd_atomic,
                device.max_qp_rd_atom,
            ),
        ] {
            Error::at_most(op, what, asked, max.max(1))?;
        }
        Ok(())
    }

    /// Takes what there is to know of the port from the path that the connection manager found.
    pub(crate) fn along(mut self, path: &Path) -> Self {
        // On InfiniBand a port may have several LIDs, of which the path has one.
        let is_ethernet = path.slid == 0 && path.dlid == 0;
        if is_ethernet && !path.source.is_zero() {
            self.port = OnceLock::from(Port {
                lid: 0,
                mtu: path.mtu,
                pkeys: None,
                link_layer: LinkLayer::Ethernet,
                gid: Some(path.source),
                choice: None,
            });
        }
        self
    }

    pub(super) fn find_port(&self) -> Result<&Port> {
        if let Some(port) = self.port.get() {
            return Ok(port);
        }
        let attr = self.pd.context().query_port(self.settings.port)?;
        let choice = self.find_gid(&attr)?;
        Ok(self.port.get_or_init(|| Port {
            lid: attr.lid,
            mtu: attr.active_mtu,
            pkeys: Some(attr.pkey_tbl_len),
            link_layer: attr.link_layer,
            gid: choice.map(|choice| choice.entry.gid),
            choice,
        }))
    }

    /// Checks the partition key's index; the table has at least one entry.
    pub(super) fn check_pkey(&self, port: &Port) -> Result<()> {
        let index = self.settings.pkey_index;
        match port.pkeys.map(|entries| entries.max(1)) {
            Some(entries) if index >= entries => {
                Err(Error::invalid(Op::CreateQueuePair, "pkey_index")
                    .fact("pkey_index", index)
                    .fact("entries", entries))
            }
            _ => Ok(()),
        }
    }

    fn find_gid(&self, attr: &PortAttr) -> Result<Option<GidChoice>> {
        // Raw packets are frames, which carry their own addresses.
        let needed = attr.link_layer == LinkLayer::Ethernet && self.kind() != QpType::RawPacket;
        gid::find(self.pd.context(), self.settings.port, self.gid, needed)
    }
}
