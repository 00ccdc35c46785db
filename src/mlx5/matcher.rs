//! Steering by match parameters: matchers, and rules that steer frames to queue pairs.

use uverbs_core::Result;
use uverbs_core::contract::Qp as _;
use uverbs_mlx5::steering::{FlowMatcher, MatchRule, MatcherInit, SteeringAnchor, TableKind};

use super::{Adapter, FlowId};
use crate::QueuePair;
use crate::transport::{Frames, Transport};

impl Adapter {
    /// `mlx5dv_create_flow_matcher`—creates a matcher, which selects the fields of packets that its
    /// rules look at. One system call, since Linux 4.19.
    ///
    /// [`QueuePair::steer`] steers frames to a queue pair, [`FlowMatcher::create_flow`] elsewhere.
    ///
    /// ```no_run
    /// use uverbs::transport::RawPacket;
    /// use uverbs::mlx5::steering::{FlowTarget, MatchHeaders, MatchRule, MatchParameters, MatcherInit};
    ///
    /// let context = uverbs::Context::open("mlx5_0")?;
    /// let (pd, cq) = (context.alloc_pd()?, context.create_cq(64)?);
    /// let mut qp = pd.queue_pair(RawPacket, &cq, &cq).build()?.activate()?;
    ///
    /// let outer = MatchHeaders::Outer;
    /// let mask = MatchParameters::new().destination_mac(outer, [0xff; 6]).ether_type(outer, 0xffff);
    /// let matcher = context.mlx5()?.create_flow_matcher(&MatcherInit::new(&mask))?;
    /// let mine = MatchParameters::new().destination_mac(outer, [2, 0, 0, 0, 0, 7]);
    /// qp.steer(&matcher, &MatchRule::new(&mine.clone().ether_type(outer, 0x88b5)))?;
    /// // Until this is dropped:
    /// let others = mine.ether_type(outer, 0x88b6);
    /// let _dropping = matcher.create_flow(FlowTarget::Drop, &MatchRule::new(&others))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | EINVAL | tables of the embedded switch where functions have no representors; a port that does not exist, or belongs to another table |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | the context may not steer a port's transport, or an older kernel |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM | memory |
    #[doc(alias = "mlx5dv_create_flow_matcher")]
    pub fn create_flow_matcher(&self, init: &MatcherInit<'_>) -> Result<FlowMatcher> {
        FlowMatcher::create(&self.context().inner.file, init)
    }

    /// `mlx5dv_create_steering_anchor`—creates a table at the rank `priority` that stays in place,
    /// to which tables created by firmware commands lead. One system call, since Linux 6.0.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`PermissionDenied`](crate::ErrorKind::PermissionDenied) | EPERM | no `CAP_NET_RAW` |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | the device has no such tables, or its contexts cannot share them; an older kernel |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM | memory, or a rank that does not exist |
    #[doc(alias = "mlx5dv_create_steering_anchor")]
    pub fn create_steering_anchor(
        &self,
        table: TableKind,
        priority: u16,
    ) -> Result<SteeringAnchor> {
        SteeringAnchor::create(&self.context().inner.file, table, priority)
    }
}

impl<T: Transport> QueuePair<T> {
    /// `mlx5dv_create_flow`—has matching frames delivered to this raw packet queue pair. mlx5
    /// devices only; one system call, which waits for the firmware.
    ///
    /// The rule lasts until [`destroy_flow`](Self::destroy_flow), or until the queue pair is
    /// destroyed. The matcher lives at least as long.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | – | a value with bits outside the matcher's mask; a matcher of another context, or a rule that names something of another context |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | – | more than two actions, a tag of more than 24 bits |
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | EINVAL | another transport, tables that do not lead to queue pairs, actions that exclude each other |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP | tables or fields that the device or kernel does not have; a matcher that is not of the normal kind |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM, ENOSPC | memory, a rank above 15, or the device's tables are full |
    /// | [`PermissionDenied`](crate::ErrorKind::PermissionDenied) | EPERM | no `CAP_NET_RAW` |
    #[doc(alias = "mlx5dv_create_flow")]
    pub fn steer(&mut self, matcher: &FlowMatcher, rule: &MatchRule<'_>) -> Result<FlowId>
    where
        T: Frames,
    {
        let made = matcher.steer(&self.queue.base().object, rule)?;
        Ok(self.children.adopt_flow(made))
    }
}
