//! Completion and asynchronous events.

use std::time::Duration;

use anyhow::{Context as _, bail};
use uverbs::attr::SrqModify;
use uverbs::event::AsyncEventType;
use uverbs::{AccessFlags, Notify, QpType, RecvRequest, SendRequest, Sge};

use super::{Stage, queue_pairs};

/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Stage {
    /// A message to itself from a shared queue, which wakes the channel and falls below the limit.
    pub(crate) fn events(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let channel = self.context.create_completion_channel()?;
        let mut cq = self
            .context
            .completion_queue(32)
            .channel(&channel)
            .build()?;
        // SAFETY: see the program's paragraph.
        let mr = unsafe { pd.register(self.memory, 4096, AccessFlags::LOCAL_WRITE) }?;
        let mut srq = pd.create_srq(64, 2)?;
        let mut qp = queue_pairs::create(&pd, &cq, Some(&srq), QpType::Rc)?;
        let sge = [Sge {
            address: mr.address(),
            length: 64,
            key: mr.lkey(),
        }];
        self.connect_to_itself(&mut qp)?;
        for wr_id in 0..2 {
            let request = RecvRequest {
                wr_id,
                scatter: &sge,
            };
            // SAFETY: see the program's paragraph.
            unsafe { srq.post_recv(&[request]) }?;
        }
        srq.modify(&SrqModify::new().limit(2))?;
        cq.request_notification(Notify::Any)?;
        // SAFETY: see the program's paragraph.
        unsafe { qp.post_send(&[SendRequest::send(&sge).signaled()]) }?;
        let event = self.context.async_event(Some(PATIENCE))?;
        let event = event.context("no event")?.event;
        if event != AsyncEventType::SrqLimitReached {
            bail!("{event:?}");
        }
        channel.event(Some(PATIENCE))?.context("no completion")?;
        let mut left = 2;
        while left > 0 {
            if let Some(done) = cq.poll()? {
                if !done.status.is_success() {
                    bail!("{}", done.status);
                }
                left -= 1;
            }
        }
        qp.destroy()?;
        srq.destroy()?;
        mr.deregister()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }
}
