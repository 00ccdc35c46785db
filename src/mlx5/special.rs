//! Queue pairs that are created by more than the verbs say.

use uverbs_driver::contract::QpInit;
use uverbs_driver::types::QpType;
use uverbs_driver::{Error, ErrorKind, Op, Result};

use super::{Streams, XrcDomain};
use crate::provider::AnyQp;
use crate::{Context, ProtectionDomain};

/// What a queue pair is besides what the verbs say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Special<'a> {
    /// Nothing.
    #[default]
    None,
    /// The receiving end of a connection of this XRC domain.
    XrcTarget(&'a XrcDomain),
    /// The sending end of dynamic connections.
    DcInitiator(Option<Streams>),
    /// The receiving end of dynamic connections, with its access key.
    DcTarget(u64),
    /// Frames with headers up to this many bytes in the queue itself.
    Headers(u16),
}

/// Which end of dynamic connections a queue pair is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum DynamicEnd {
    /// None.
    #[default]
    Neither,
    /// The one that sends.
    Initiator,
    /// The one that receives.
    Target,
}

impl Special<'_> {
    pub(crate) fn end(self) -> DynamicEnd {
        match self {
            Self::DcInitiator(_) => DynamicEnd::Initiator,
            Self::DcTarget(_) => DynamicEnd::Target,
            Self::None | Self::XrcTarget(_) | Self::Headers(_) => DynamicEnd::Neither,
        }
    }

    /// Whether what it names is of this context.
    pub(crate) fn is_of(self, context: &Context) -> bool {
        match self {
            Self::XrcTarget(domain) => domain.is_of(context),
            _ => true,
        }
    }

    /// Creates the queue pair.
    pub(crate) fn create(self, pd: &ProtectionDomain, init: &QpInit<'_>) -> Result<AnyQp> {
        let provider = &pd.context().inner.provider;
        let header = match self {
            Self::None if init.kind != QpType::RawPacket => {
                return provider.create_qp(&pd.inner.pd, init);
            }
            Self::Headers(bytes) => bytes,
            _ => 0,
        };
        let op = Op::CreateQueuePair;
        let (Some(context), Some(domain)) = (provider.mlx5(), pd.inner.pd.mlx5()) else {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("type", init.kind.to_string()));
        };
        let created = match self {
            Self::XrcTarget(xrc) => xrc.domain.create_target(context, init),
            Self::DcInitiator(streams) => context.create_dc_initiator(domain, init, streams),
            Self::DcTarget(key) => context.create_dc_target(domain, init, key),
            Self::None | Self::Headers(_) if init.kind == QpType::RawPacket => {
                context.create_raw_packet(domain, init, header)
            }
            Self::None | Self::Headers(_) => {
                Err(Error::invalid(op, "max_tso_header").fact("type", init.kind.to_string()))
            }
        };
        created.map(AnyQp::Mlx5)
    }

    /// Creates one whose small messages come in completions. Its builder was promised that receive requests name memory of this process.
    pub(crate) fn create_scattering(
        self,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
    ) -> Result<AnyQp> {
        let provider = &pd.context().inner.provider;
        let (Some(context), Some(domain), Self::None) = (provider.mlx5(), pd.inner.pd.mlx5(), self)
        else {
            return Err(Error::new(Op::CreateQueuePair, ErrorKind::Unsupported)
                .fact("type", init.kind.to_string())
                .fact("scatter_to_completions", true));
        };
        #[expect(
            unsafe_code,
            reason = "whoever polls writes to memory that requests name"
        )]
        // SAFETY: what `QueuePairBuilder::scatter_to_completions` asks for, which says so of this builder.
        let created = unsafe { context.create_scattering(domain, init) };
        created.map(AnyQp::Mlx5)
    }
}
