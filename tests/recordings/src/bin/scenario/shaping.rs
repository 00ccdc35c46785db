//! Scheduling elements and rates.

use uverbs::attr::QpAttr;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::sched::{ElementAttr, Leaves};
use uverbs::{AccessFlags, CompletionQueue, ProtectionDomain, QpState, QpType, QueuePair};

use super::{PORT, Stage, queue_pairs};

impl Stage {
    pub(crate) fn scheduling(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = queue_pairs::create(&pd, &cq, None, QpType::Rc)?;
        let scheduler = self.context.mlx5()?.scheduling()?;
        let root = scheduler.create_root()?;
        let mut early = queue_pairs::create(&pd, &cq, None, QpType::Rc)?;

        let node = root.create_node(&ElementAttr::new().share(2).max_mbps(20_000))?;
        let one = node.create_leaf(&ElementAttr::new().share(7))?;
        let two = root.create_leaf(&ElementAttr::new().max_mbps(4096))?;
        node.modify(&ElementAttr::new().share(5))?;
        one.modify(&ElementAttr::new().max_mbps(100))?;
        let init = QpAttr::to(QpState::Init).port(PORT).pkey_index(0);
        early.modify(&init.access(AccessFlags::empty()))?;
        self.connect_to_itself(&mut qp)?;
        let leaves = |requestor, responder| Leaves {
            requestor,
            responder,
        };
        early.attach_to(&scheduler, leaves(Some(&one), None))?;
        qp.attach_to(&scheduler, leaves(Some(&one), Some(&two)))?;
        qp.attach_to(&scheduler, Leaves::default())?;
        early.attach_to(&scheduler, Leaves::default())?;
        early.destroy()?;
        qp.destroy()?;
        for leaf in [two, one] {
            leaf.destroy()?;
        }
        for node in [node, root] {
            node.destroy()?;
        }
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Scheduling of a send queue.
    pub(crate) fn raw_scheduling(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = raw(&pd, &cq)?;
        let scheduler = self.context.mlx5()?.scheduling()?;
        let root = scheduler.create_root()?;
        let leaf = root.create_leaf(&ElementAttr::new().max_mbps(4096))?;
        let requests = Leaves {
            requestor: Some(&leaf),
            responder: None,
        };
        qp.attach_to(&scheduler, requests)?;
        qp.attach_to(&scheduler, Leaves::default())?;
        qp.destroy()?;
        leaf.destroy()?;
        root.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Entries of the rate table.
    pub(crate) fn pacing_entries(&self) -> anyhow::Result<()> {
        let devx = self.context.mlx5()?.devx()?;
        let limit = RateLimit::kbps(100_000)
            .max_burst(20_000)
            .typical_packet(1024);
        let (shared, alone) = (devx.pace(&limit, false)?, devx.pace(&limit, true)?);
        shared.free()?;
        alone.free()?;
        Ok(())
    }

    pub(crate) fn pacing(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut qp = raw(&pd, &cq)?;
        let rate = RateLimit::kbps(100_000);
        qp.modify_rate_limit(&rate)?;
        qp.modify_rate_limit(&rate.max_burst(20_000))?;
        let other = RateLimit::kbps(200_000).max_burst(20_000);
        qp.modify_rate_limit(&other.typical_packet(1500))?;
        qp.modify_rate_limit(&RateLimit::UNLIMITED)?;
        qp.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }
}

/// A raw packet queue pair that is ready to send.
pub(crate) fn raw(pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<QueuePair> {
    let mut qp = queue_pairs::create(pd, cq, None, QpType::RawPacket)?;
    qp.modify(&QpAttr::to(QpState::Init).port(PORT))?;
    qp.modify(&QpAttr::to(QpState::ReadyToReceive))?;
    qp.modify(&QpAttr::to(QpState::ReadyToSend))?;
    Ok(qp)
}
