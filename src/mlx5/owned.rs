//! What owned queue pairs of mlx5 devices can do: each as on the raw queue pair.

use uverbs_core::Result;
use uverbs_mlx5::flow::FlowInit;
use uverbs_mlx5::pacing::RateLimit;
use uverbs_mlx5::sched::{Leaves, Scheduler};
use uverbs_mlx5::steering::{FlowMatcher, MatchRule};

use super::FlowId;
use crate::owned::QueuePair;
use crate::transport::{Frames, Transport};

impl<T: Transport> QueuePair<T> {
    /// `ibv_modify_qp_rate_limit`—sets how fast it may send, also while requests are outstanding,
    /// like [`QueuePair::modify_rate_limit`](crate::QueuePair::modify_rate_limit).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "ibv_modify_qp_rate_limit")]
    pub fn modify_rate_limit(&mut self, limit: &RateLimit) -> Result<()> {
        self.raw_mut().modify_rate_limit(limit)
    }

    /// `mlx5dv_modify_qp_sched_elem`—attaches it to leaves of the scheduling tree, like
    /// [`QueuePair::attach_to`](crate::QueuePair::attach_to).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "mlx5dv_modify_qp_sched_elem")]
    pub fn attach_to(&mut self, scheduler: &Scheduler, leaves: Leaves<'_>) -> Result<()> {
        self.raw_mut().attach_to(scheduler, leaves)
    }

    /// `ibv_create_flow`—has matching frames delivered to it, like
    /// [`QueuePair::create_flow`](crate::QueuePair::create_flow).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "ibv_create_flow")]
    pub fn create_flow(&mut self, init: &FlowInit<'_>) -> Result<FlowId>
    where
        T: Frames,
    {
        self.raw_mut().create_flow(init)
    }

    /// `mlx5dv_create_flow`—has matching frames delivered to it, like
    /// [`QueuePair::steer`](crate::QueuePair::steer).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "mlx5dv_create_flow")]
    pub fn steer(&mut self, matcher: &FlowMatcher, rule: &MatchRule<'_>) -> Result<FlowId>
    where
        T: Frames,
    {
        self.raw_mut().steer(matcher, rule)
    }

    /// `ibv_destroy_flow`—removes a rule, like
    /// [`QueuePair::destroy_flow`](crate::QueuePair::destroy_flow).
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "ibv_destroy_flow")]
    pub fn destroy_flow(&mut self, rule: FlowId) -> Result<()>
    where
        T: Frames,
    {
        self.raw_mut().destroy_flow(rule)
    }
}
