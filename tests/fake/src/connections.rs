//! Connections between two channels of one fake kernel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use uverbs_core::cm::{self, CmFile, ConnectionParams, Event, EventKind, PortSpace, PrivateData};
use uverbs_core::sys::Kernel;
use uverbs_core::sys::recorder::{Recorder, Sink};
use uverbs_core::types::{Ece, QpType};
use uverbs_core::{Error, Op, Result};

use crate::Bench;

/// The address of the fake's device.
pub const ADDRESS: [u8; 4] = [10, 0, 0, 1];

/// Longer than anything takes that does not wait forever.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Bench {
    /// The opened connection manager, which does not block.
    ///
    /// # Errors
    /// Those of opening it.
    #[expect(unsafe_code, reason = "issues commands of its own")]
    pub fn connection_manager(&self) -> Result<CmFile> {
        let op = Op::OpenConnectionManager;
        let fake = self.fake.clone();
        let kernel: Arc<dyn Kernel> = match &self.sink {
            Some(sink) => Arc::new(Recorder::new(fake, sink.clone())),
            None => Arc::new(fake),
        };
        let fd = self
            .fake
            .open_connection_manager()
            .map_err(|errno| Error::os(op, errno))?;
        // SAFETY: (1) the descriptor is of the fake's connection manager.
        let file = unsafe { CmFile::new(kernel, fd) };
        file.set_nonblocking()?;
        Ok(file)
    }

    /// An event channel of the facade.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn channel(&self) -> Result<uverbs::cm::EventChannel> {
        let options = uverbs::cm::ChannelOptions::new();
        self.channel_of(match &self.sink {
            Some(sink) => options.record(sink.clone()),
            None => options,
        })
    }

    /// The same, whose commands are reported to `sink` alone.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn channel_recorded_by(&self, sink: Arc<dyn Sink>) -> Result<uverbs::cm::EventChannel> {
        self.channel_of(uverbs::cm::ChannelOptions::new().record(sink))
    }

    fn channel_of(&self, options: uverbs::cm::ChannelOptions) -> Result<uverbs::cm::EventChannel> {
        let fd = self.fake.open_connection_manager();
        let fd = fd.map_err(|errno| Error::os(Op::OpenConnectionManager, errno))?;
        options.over(Arc::new(self.fake.clone()), fd)
    }
}

/// An address of the fake's device.
pub fn at(port: u16) -> cm::CmAddress {
    SocketAddr::from((ADDRESS, port)).into()
}

/// Takes the next event and checks what it is.
///
/// # Errors
/// Those of reading it; [`BadReply`](uverbs_core::ErrorKind::BadReply) if it is another.
pub fn next(file: &CmFile, wanted: EventKind) -> Result<Event> {
    let event = cm::get_event(file)?;
    if event.kind == wanted {
        return Ok(event);
    }
    Err(Error::bad_reply(Op::CmGetEvent, "another event")
        .fact("kind", event.kind.to_string())
        .fact("wanted", wanted.to_string()))
}

/// A listener at a free port; returns its id and the port.
///
/// # Errors
/// Those of every step.
pub fn listen(file: &CmFile, uid: u64, space: PortSpace, backlog: u32) -> Result<(u32, u16)> {
    let id = cm::create_id(file, uid, space, QpType::Rc)?;
    cm::bind(file, id, at(0))?;
    cm::listen(file, id, backlog)?;
    let port = match cm::query_route(file, id)?.source {
        Some(cm::CmAddress::Ip(address)) => address.port(),
        _ => 0,
    };
    Ok((id, port))
}

/// An id whose route to a port of the device is resolved.
///
/// # Errors
/// Those of every step.
pub fn resolve(file: &CmFile, uid: u64, space: PortSpace, port: u16) -> Result<u32> {
    let id = cm::create_id(file, uid, space, QpType::Rc)?;
    cm::resolve_address(file, id, None, at(port), TIMEOUT)?;
    next(file, EventKind::AddressResolved)?;
    cm::resolve_route(file, id, TIMEOUT)?;
    next(file, EventKind::RouteResolved)?;
    Ok(id)
}

/// What a queue pair of this number says, with private data.
///
/// # Errors
/// More data than any message takes.
pub fn params(qp_num: u32, data: &[u8]) -> Result<ConnectionParams> {
    Ok(ConnectionParams {
        qp_num,
        private_data: PrivateData::new(Op::CmConnect, data, PrivateData::MOST)?,
        responder_resources: 3,
        initiator_depth: 5,
        retry_count: 7,
        rnr_retry_count: 6,
        ..ConnectionParams::default()
    })
}

/// The two ends of an established connection: the active side's id, and the passive side's.
///
/// # Errors
/// Those of every step.
pub fn connected(client: &CmFile, server: &CmFile, port: u16, qp_num: u32) -> Result<(u32, u32)> {
    let active = resolve(client, u64::from(qp_num), PortSpace::Tcp, port)?;
    cm::connect(client, active, &params(qp_num, &[])?, Ece::default())?;
    let passive = next(server, EventKind::ConnectRequest)?.id;
    let uid = u64::from(qp_num) << 32;
    cm::accept(
        server,
        passive,
        uid,
        &params(qp_num + 1, &[])?,
        Ece::default(),
    )?;
    next(client, EventKind::ConnectResponse)?;
    cm::establish(client, active)?;
    next(server, EventKind::Established)?;
    Ok((active, passive))
}
