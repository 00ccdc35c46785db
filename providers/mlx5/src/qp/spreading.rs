//! Queue pairs without queues: what they receive, the work queues of a table receive.

use std::sync::Arc;

use uverbs_core::Result;
use uverbs_core::contract::QpBase;
use uverbs_core::types::{QpCaps, QpType};

use super::ece::Establishment;
use super::sends::Sends;
use super::{QueuePair, Rare, RawNumbers, Role};
use crate::context::{Context, ProtectionDomain};
use crate::rss::work_queue::IndirectionTable;
use crate::rss::{self, Hash};
use crate::tracker::registration::Reports;
use crate::tracker::{QueuePairTracker, Receives};

impl QueuePair {
    /// `ibv_create_qp_ex` with a hash—the same as
    /// [`SpreadingQueuePair`](crate::rss::SpreadingQueuePair), for a caller that keeps all kinds in
    /// one type. It refuses requests, and every change of its state.
    ///
    /// # Errors
    /// Those of [`SpreadingQueuePair::create`](crate::rss::SpreadingQueuePair::create).
    pub fn spreading(
        context: &Context,
        pd: &ProtectionDomain,
        table: &IndirectionTable,
        hash: &Hash,
        user_handle: u64,
    ) -> Result<Self> {
        let (object, number, tirn) = rss::create(context, pd, table, hash, user_handle)?;
        Ok(Self {
            send: Sends::None,
            recv: None,
            scattered: None,
            base: QpBase::new(
                object,
                number,
                QpType::RawPacket,
                QpCaps::default(),
                context.device(),
            ),
            tracker: Arc::new(QueuePairTracker::new(0, Receives::None)),
            reports: Reports::default(),
            role: Role::None,
            ece: Establishment::new(context.config().ece(), 0),
            rare: Rare {
                raw: Some(RawNumbers {
                    tirn,
                    ..RawNumbers::default()
                }),
                ..Rare::default()
            }
            .boxed(),
        })
    }
}
