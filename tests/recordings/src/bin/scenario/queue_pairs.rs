//! Queue pairs through their states.

use std::time::Duration;

use anyhow::bail;
use uverbs::attr::{Psn, QpAttr};
use uverbs::link::Mtu;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, CompletionQueue, Gid, ProtectionDomain, QpState, QpType, QueuePair,
    SharedReceiveQueue,
};

use super::{PORT, Stage};

const QKEY: u32 = 0x1111_1111;

/// The options of a peer's device, and those common to both.
const PEER: u32 = 0x1000_0035;
const AGREED: u32 = 0x1000_0005;

/// Creates one with 16 send requests of 2 scatter/gather entries, and 8 receives of 1.
pub(crate) fn create(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    srq: Option<&SharedReceiveQueue>,
    kind: QpType,
) -> anyhow::Result<QueuePair> {
    let mut builder = pd
        .queue_pair(kind, cq, cq)
        .max_send_wr(16)
        .max_send_sge(2)
        .max_inline_data(64)
        .max_recv_wr(8)
        .max_recv_sge(1);
    if let Some(srq) = srq {
        builder = builder.srq(srq).max_recv_wr(0).max_recv_sge(0);
    }
    Ok(builder.build()?.into_raw())
}

impl Stage {
    pub(crate) fn states(&self, kind: QpType) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = create(&pd, &cq, None, kind)?;
        qp.query()?;
        self.connect_to_itself(&mut qp)?;
        qp.query()?;
        qp.modify(&QpAttr::to(QpState::Error))?;
        qp.query()?;
        qp.modify(&QpAttr::to(QpState::Reset))?;
        qp.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    pub(crate) fn connect_to_itself(&self, qp: &mut QueuePair) -> anyhow::Result<()> {
        let kind = qp.kind();
        let psn = Psn::new(0x1234)?;
        let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
        qp.modify(&if kind == QpType::Ud {
            init.qkey(QKEY)
        } else {
            init.access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)
        })?;
        let mut ready = QpAttr::to(QpState::ReadyToReceive);
        if kind != QpType::Ud {
            ready = ready
                .av(self.path()?)
                .path_mtu(Mtu::B1024)
                .dest_qpn(qp.qp_num())
                .rq_psn(psn);
        }
        if kind == QpType::Rc {
            ready = ready
                .max_dest_rd_atomic(1)
                .min_rnr_timer(RnrTimer::from_duration(Duration::from_micros(640))?);
        }
        qp.modify(&ready)?;
        let mut ready = QpAttr::to(QpState::ReadyToSend).sq_psn(psn);
        if kind == QpType::Rc {
            ready = ready
                .timeout(AckTimeout::code(14)?)
                .retry_count(RetryCount::new(7)?)
                .rnr_retry(RnrRetry::INFINITE)
                .max_rd_atomic(1);
        }
        qp.modify(&ready)?;
        Ok(())
    }

    /// The options that the device offers, the peer's, and those agreed to in the transition to
    /// RTR.
    pub(crate) fn establishment(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = create(&pd, &cq, None, QpType::Uc)?;
        let mut ece = qp.ece()?;
        let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
        let rtr = QpAttr::to(QpState::ReadyToReceive)
            .av(self.path()?)
            .path_mtu(Mtu::B1024)
            .dest_qpn(qp.qp_num())
            .rq_psn(Psn::new(0)?);
        qp.modify(&init.access(AccessFlags::empty()))?;
        ece.options = PEER;
        qp.set_ece(&ece)?;
        qp.modify(&rtr)?;
        qp.modify(&QpAttr::to(QpState::ReadyToSend).sq_psn(Psn::new(0)?))?;
        if qp.ece()?.options != AGREED {
            bail!("the device agreed to {:?}", qp.ece()?);
        }
        qp.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    pub(crate) fn multicast(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = create(&pd, &cq, None, QpType::Ud)?;
        let mut group = [0; 16];
        group[..2].copy_from_slice(&[0xff, 0x0e]);
        group[15] = 7;
        let group = Gid::from_bytes(group);
        self.connect_to_itself(&mut qp)?;
        qp.attach_multicast(&group, 0xc007)?;
        qp.detach_multicast(&group, 0xc007)?;
        qp.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }
}
