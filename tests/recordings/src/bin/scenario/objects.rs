//! Objects that few devices support.

use uverbs::attr::QpAttr;
use uverbs::link::Mtu;
use uverbs::mlx5::{Hash, HashFields, WorkQueue, WorkQueueState};
use uverbs::time::RnrTimer;
use uverbs::{AccessFlags, CompletionQueue, ProtectionDomain, QpState, QpType, QueuePairBuilder};

use super::{PORT, Stage};

const ACCESS_KEY: u64 = 0xfeed;

/// Send requests and their scatter/gather entries; there are no receives.
fn sizes(builder: QueuePairBuilder<'_>, requests: u32, sges: u32) -> QueuePairBuilder<'_> {
    builder
        .max_send_wr(requests)
        .max_send_sge(sges)
        .max_inline_data(4 * requests)
        .max_recv_wr(0)
        .max_recv_sge(0)
}

impl Stage {
    fn work_queue(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<WorkQueue> {
        let mut queue = self.context.mlx5()?.work_queue(pd, cq).build()?;
        queue.modify(WorkQueueState::Reset, WorkQueueState::Ready)?;
        Ok(queue)
    }

    /// Work queues, a table of them, and the queue pair that distributes over it.
    pub(crate) fn work_queues(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(64)?;
        let (one, two) = (self.work_queue(&pd, &cq)?, self.work_queue(&pd, &cq)?);
        let adapter = self.context.mlx5()?;
        let table = adapter.create_indirection_table(&[&one, &two])?;
        let mut key = [0; 40];
        key[..3].copy_from_slice(&[1, 2, 3]);
        let hash = Hash {
            fields: HashFields::SOURCE_IPV4 | HashFields::DESTINATION_UDP,
            key,
        };
        table.create_queue_pair(&pd, &hash)?.destroy()?;
        table.destroy()?;
        one.destroy()?;
        two.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Both ends of extended reliable connections.
    pub(crate) fn extended(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let domain = self.context.mlx5()?.open_xrc_domain()?;
        let srq = domain.create_srq(&pd, &cq, 64, 1)?;
        let builder = sizes(pd.queue_pair(QpType::XrcInitiator, &cq, &cq), 16, 2);
        let initiator = builder.build()?.into_raw();
        let builder = sizes(domain.target(&pd, &cq).untyped(), 0, 0);
        let target = builder.build()?.into_raw();
        target.destroy()?;
        initiator.destroy()?;
        srq.destroy()?;
        drop(domain);
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Device memory.
    pub(crate) fn device_memory(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let memory = self.context.mlx5()?.alloc_device_memory(4096, 6)?;
        let mr = pd.register_device_memory(&memory, 0, 1024, AccessFlags::LOCAL_WRITE)?;
        memory.write(0, &[0; 64])?;
        mr.deregister()?;
        memory.free()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Both ends of dynamic connections.
    pub(crate) fn dynamic(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let srq = pd.create_srq(64, 2)?;
        let builder = sizes(pd.dc_target(&srq, &cq, ACCESS_KEY).untyped(), 0, 0);
        let mut target = builder.build()?.into_raw();
        let builder = sizes(pd.dc_initiator(&cq).untyped(), 16, 2);
        let mut initiator = builder.build()?.into_raw();

        let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
        let ready = QpAttr::to(QpState::ReadyToReceive)
            .path_mtu(Mtu::B1024)
            .av(self.path()?);
        target.modify(&init.access(AccessFlags::REMOTE_WRITE))?;
        target.modify(&ready.min_rnr_timer(RnrTimer::from_raw(12)))?;
        initiator.modify(&init)?;
        initiator.modify(&ready)?;
        initiator.destroy()?;
        target.destroy()?;
        srq.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }
}
