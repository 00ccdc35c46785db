//! Options of these devices for the creation of queue pairs.

use std::sync::Arc;

use uverbs_core::contract::QpInit;
use uverbs_core::types::QpType;
use uverbs_core::{Error, ErrorKind, Object, Op, Result};

use super::{Parent, QueuePair, Special, Streams, XrcDomain};
use crate::context::{Context, ProtectionDomain};

/// Options of a queue pair beyond those of the verbs
/// ([`QpInit::extra`](uverbs_core::contract::QpInit)). Default: none.
#[derive(Clone, Debug, Default)]
pub struct QpExtra {
    variety: Variety,
    /// Small messages are delivered in completions: the caller who requested it upholds the
    /// contract of [`scattering`](Self::scattering).
    pub(crate) scatters: bool,
    /// Whether it makes copies.
    copies: bool,
    /// Whether it stops at wrong signatures.
    stops: bool,
    /// Creates one that does. A function, so that only programs with some contain it.
    create: Option<Create>,
}

type Create = fn(&QpExtra, &Context, &ProtectionDomain, &QpInit<'_>) -> Result<QueuePair>;

#[derive(Clone, Debug, Default)]
enum Variety {
    #[default]
    Plain,
    XrcTarget(Arc<Object>),
    DcInitiator(Option<Streams>),
    DcTarget(u64),
    Headers(u16),
}

impl QpExtra {
    /// The receiving end of a connection of this XRC domain, which must belong to the same context.
    pub fn xrc_target(domain: &XrcDomain) -> Self {
        Self::of(Variety::XrcTarget(Arc::clone(domain.object())))
    }

    /// The sending end of dynamic connections.
    pub fn dc_initiator() -> Self {
        Self::of(Variety::DcInitiator(None))
    }

    /// The receiving end of dynamic connections, for senders that have this key.
    pub fn dc_target(access_key: u64) -> Self {
        Self::of(Variety::DcTarget(access_key))
    }

    fn of(variety: Variety) -> Self {
        Self {
            variety,
            ..Self::default()
        }
    }

    /// The same with streams, if it is a DC initiator.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        if let Variety::DcInitiator(of) = &mut self.variety {
            *of = Some(streams);
        }
        self
    }

    /// A raw packet queue pair with room for this many bytes of header in each request.
    #[must_use]
    pub fn with_headers(self, bytes: u16) -> Self {
        Self {
            variety: Variety::Headers(bytes),
            ..self
        }
    }

    /// `MLX5DV_QP_EX_WITH_MEMCPY`—the same with copies by the device
    /// ([`put_copy`](QueuePair::put_copy)): reliable connections and DC initiators, on devices that
    /// have them. Two more system calls, and one whenever it is initialised.
    #[must_use]
    pub fn with_copies(self) -> Self {
        Self {
            copies: true,
            create: Some(Self::create_with_more),
            ..self
        }
    }

    /// `MLX5DV_QP_CREATE_SIG_PIPELINING`—the same, with a send queue that drains when a message to
    /// or from a key with signatures had a wrong one, before the next request with a fence:
    /// reliable connections. [`cancel_sends`](QueuePair::cancel_sends) then takes back what was
    /// posted for the case that all are right. One more system call whenever it is initialised,
    /// which waits for the firmware.
    #[must_use]
    pub fn stopping_at_wrong_signatures(self) -> Self {
        Self {
            stops: true,
            create: Some(Self::create_with_more),
            ..self
        }
    }

    /// Creates the queue pair.
    pub(crate) fn create(
        &self,
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
    ) -> Result<QueuePair> {
        match self.create {
            Some(create) => create(self, context, pd, init),
            None => self.create_plain(context, pd, init),
        }
    }

    fn create_with_more(
        &self,
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
    ) -> Result<QueuePair> {
        let mut created = self.create_plain(context, pd, init)?;
        if self.copies {
            created.prepare_copies(context, pd)?;
        }
        if self.stops {
            created.prepare_stops(context)?;
        }
        Ok(created)
    }

    fn create_plain(
        &self,
        context: &Context,
        pd: &ProtectionDomain,
        init: &QpInit<'_>,
    ) -> Result<QueuePair> {
        let of_kind = |error: Error| error.fact("type", init.kind.to_string());
        let op = Op::CreateQueuePair;
        match &self.variety {
            Variety::Plain if self.scatters => QueuePair::create_scattering(context, pd, init),
            _ if self.scatters => {
                let error = of_kind(Error::new(op, ErrorKind::Unsupported));
                Err(error.fact("scatter_to_completions", true))
            }
            Variety::XrcTarget(domain) => QueuePair::create_xrc_target(context, domain, init),
            Variety::DcInitiator(streams) => {
                QueuePair::create_dc_initiator(context, pd, init, *streams)
            }
            Variety::DcTarget(key) => QueuePair::create_dc_target(context, pd, init, *key),
            Variety::Headers(bytes) if init.kind == QpType::RawPacket => {
                QueuePair::create_raw_packet(context, pd, init, *bytes)
            }
            Variety::Headers(_) => Err(of_kind(Error::invalid(op, "max_tso_header"))),
            Variety::Plain => match init.kind {
                QpType::RawPacket => QueuePair::create_raw_packet(context, pd, init, 0),
                QpType::Rc | QpType::Uc | QpType::Ud | QpType::XrcInitiator => {
                    let parent = Parent::Pd(pd);
                    QueuePair::create_in(context, parent, init, &Special::default())
                }
                // Other types need parameters that are not here.
                _ => Err(of_kind(Error::new(op, ErrorKind::Unsupported))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators_alone_get_streams() {
        let streams = Streams {
            log_concurrent: 3,
            log_errored: 1,
        };
        let with = QpExtra::dc_initiator().with_streams(streams);
        assert!(matches!(with.variety, Variety::DcInitiator(Some(of)) if of == streams));
        let target = QpExtra::dc_target(7).with_streams(streams);
        assert!(matches!(target.variety, Variety::DcTarget(7)));
    }
}
