//! The client: one method per query.

use std::cell::RefCell;

use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_ATTR_CHARDEV_TYPE, RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_PORT_INDEX,
    RDMA_NLDEV_CMD_GET, RDMA_NLDEV_CMD_GET_CHARDEV, RDMA_NLDEV_CMD_PORT_GET,
    RDMA_NLDEV_CMD_RES_GET, RDMA_NLDEV_CMD_STAT_GET, RDMA_NLDEV_CMD_SYS_GET,
};

use super::conversation::{Conversation, Outcome, bad_reply};
use super::{
    Attribute, Attributes, Counter, Device, Malformed, NetlinkTransport, Owner, Port, RdmaSocket,
    Request, Resource, ResourceKind, Summary, System, Usage, Uverbs, parse_counters,
};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::sys::CM;

/// How many character devices are queried in one datagram: the answers fit the socket's buffer.
const BATCH: usize = 8;

/// Queries the kernel about RDMA devices.
///
/// A query costs one `sendto` and one `recvmmsg`. A list costs one `recvmmsg` per device, or per 32
/// KiB of objects of one device, plus one for its end. Nothing waits: the kernel answers during
/// `sendto`. The socket is closed on drop.
#[derive(Debug)]
pub struct Client<T = RdmaSocket> {
    pub(super) conversation: Conversation<T>,
}

/// A device found by its name, with the results of the other queries in the same datagram.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) device: Device,
    pub(crate) uverbs: Result<Uverbs>,
}

/// The answers to what was asked about one device in one datagram.
struct Asked {
    found: Result<Option<Found>>,
    system: Option<System>,
    /// The character device that was asked for, too.
    also: Result<Uverbs>,
}

impl Client {
    /// Opens a netlink socket. One system call.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] (EPROTONOSUPPORT) if the kernel has no RDMA, or `ib_core` is not
    /// loaded; EAFNOSUPPORT, EPERM or EACCES in a sandbox; EMFILE, ENFILE.
    pub fn connect() -> Result<Self> {
        match RdmaSocket::open() {
            Ok(socket) => Ok(Self::over(socket)),
            Err(errno @ Errno::PROTONOSUPPORT) => Err(Error::os(Op::ListDevices, errno)
                .hint("the kernel has no RDMA loaded (modprobe ib_uverbs)")),
            Err(errno) => Err(Error::os(Op::ListDevices, errno)),
        }
    }
}

impl<T: NetlinkTransport> Client<T> {
    /// A client over another transport.
    pub fn over(transport: T) -> Self {
        Self {
            conversation: Conversation::new(transport),
        }
    }

    /// All devices of this network namespace.
    ///
    /// # Errors
    /// [`ErrorKind::BadReply`]; ENOBUFS.
    pub fn devices(&mut self) -> Result<Vec<Device>> {
        self.list(
            Op::ListDevices,
            &Request::dump(RDMA_NLDEV_CMD_GET, &[]),
            Device::parse,
        )
    }

    /// One device.
    ///
    /// # Errors
    /// EINVAL if there is no device with this index.
    pub fn device(&mut self, index: u32) -> Result<Device> {
        let attributes = [device(index)];
        self.one(
            Op::ListDevices,
            &Request::get(RDMA_NLDEV_CMD_GET, &attributes),
            Device::parse,
        )
    }

    /// A device's verbs character device (Linux 5.3). The kernel loads `ib_uverbs` if modules are
    /// loaded on demand.
    ///
    /// # Errors
    /// EINVAL if there is no such device, or the kernel is older; EOPNOTSUPP or ENODEV if
    /// `ib_uverbs` is not loaded.
    pub fn char_device(&mut self, index: u32) -> Result<Uverbs> {
        let attributes = [device(index), uverbs()?];
        let request = Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, &attributes);
        self.one(Op::ListDevices, &request, Uverbs::parse)
    }

    /// The character device of the connection manager (Linux 5.3), of which there is one for all
    /// devices. The kernel loads `rdma_ucm` if modules are loaded on demand.
    ///
    /// # Errors
    /// EINVAL if the kernel is older; EOPNOTSUPP or ENODEV if `rdma_ucm` is not loaded.
    pub fn connection_manager(&mut self) -> Result<Uverbs> {
        let op = Op::OpenConnectionManager;
        let attributes = [Attribute::text(op, RDMA_NLDEV_ATTR_CHARDEV_TYPE, CM)?];
        let request = Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, &attributes);
        self.one(op, &request, Uverbs::parse)
    }

    /// The character devices of several devices, in as few datagrams as possible.
    pub(crate) fn char_devices(&mut self, indexes: &[u32]) -> Result<Vec<Result<Uverbs>>> {
        let op = Op::ListDevices;
        let mut found = Vec::with_capacity(indexes.len());
        for indexes in indexes.chunks(BATCH) {
            let attributes = indexes
                .iter()
                .map(|index| Ok([device(*index), uverbs()?]))
                .collect::<Result<Vec<_>>>()?;
            let requests: Vec<_> = attributes
                .iter()
                .map(|attributes| Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, attributes))
                .collect();
            let mut answers = vec![None; indexes.len()];
            let mut outcomes = vec![Outcome::Open; indexes.len()];
            let each = |at: usize, part: Attributes<'_>| {
                answers[at] = Some(Uverbs::parse(part));
                Ok(())
            };
            let requests: Vec<_> = requests.iter().collect();
            self.conversation
                .exchange(op, &requests, &mut outcomes, each, |_| false)?;
            found.extend(
                outcomes
                    .into_iter()
                    .zip(answers)
                    .map(|(outcome, answer)| result_of(op, outcome, answer)),
            );
        }
        Ok(found)
    }

    /// Finds a device by its name, and its character device.
    ///
    /// The number at the end of a name is usually the device's index (`mlx5_3`, `rxe0`), so one
    /// datagram queries the device with that index together with the list of all devices. If the
    /// guess is right, two answers are read and the rest is left unread; otherwise the list is read
    /// and the character device is queried. `learn_fork` queries the system's settings, too, which
    /// is one more answer.
    pub(crate) fn find(
        &mut self,
        name: &str,
        learn_fork: bool,
    ) -> Result<(Option<Found>, Option<System>)> {
        let op = Op::ListDevices;
        let guess = [device(trailing_number(name)), uverbs()?];
        let list = Request::dump(RDMA_NLDEV_CMD_GET, &[]);
        let one = Request::get(RDMA_NLDEV_CMD_GET, &guess[..1]);
        let its_node = Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, &guess);
        let settings = Request::get(RDMA_NLDEV_CMD_SYS_GET, &[]);
        // The list comes last, since answers are read in order.
        let requests: &[_] = if learn_fork {
            &[&one, &its_node, &settings, &list]
        } else {
            &[&one, &its_node, &list]
        };
        let listing = requests.len() - 1;

        let wanted: RefCell<Option<Device>> = RefCell::new(None);
        let mut node = None;
        let mut system = None;
        let each = |at: usize, part: Attributes<'_>| {
            match at {
                1 => node = Some(Uverbs::parse(part)),
                at if at == 0 || at == listing => {
                    let found = Device::parse(part)?;
                    if found.name == name {
                        wanted.replace(Some(found));
                    }
                }
                _ => system = System::parse(part).ok(),
            }
            Ok(())
        };
        // Once the device is known, the rest of the list is not read.
        let enough = |outcomes: &[Outcome]| {
            wanted.borrow().is_some() && !outcomes[..listing].contains(&Outcome::Open)
        };
        let mut outcomes = vec![Outcome::Open; requests.len()];
        self.conversation
            .exchange(op, requests, &mut outcomes, each, enough)?;
        if let Outcome::Failed(errno) = outcomes[listing] {
            return Err(Error::os(op, errno));
        }
        let Some(device) = wanted.into_inner() else {
            return Ok((None, system));
        };
        let uverbs = if device.index == trailing_number(name) {
            result_of(op, outcomes[1], node)
        } else {
            self.char_device(device.index)
        };
        Ok((Some(Found { device, uverbs }), system))
    }

    /// The device with this index and its character device, in one datagram, and two system calls.
    /// `learn_fork` queries the system's settings, too.
    pub(crate) fn at(
        &mut self,
        index: u32,
        learn_fork: bool,
    ) -> Result<(Option<Found>, Option<System>)> {
        let asked = self.ask(Op::ListDevices, index, learn_fork, None)?;
        Ok((asked.found?, asked.system))
    }

    /// The character device of the connection manager and, in the same datagram, what
    /// [`at`](Self::at) asks for. Without an answer to the latter there is no such device.
    pub(crate) fn connection_manager_and(
        &mut self,
        index: u32,
        learn_fork: bool,
    ) -> Result<(Uverbs, Option<Found>, Option<System>)> {
        let op = Op::OpenConnectionManager;
        let manager = [Attribute::text(op, RDMA_NLDEV_ATTR_CHARDEV_TYPE, CM)?];
        let manager = Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, &manager);
        let asked = self.ask(op, index, learn_fork, Some(&manager))?;
        Ok((asked.also?, asked.found.unwrap_or(None), asked.system))
    }

    fn ask(
        &mut self,
        op: Op,
        index: u32,
        learn_fork: bool,
        also: Option<&Request<'_>>,
    ) -> Result<Asked> {
        let wanted = [device(index), uverbs()?];
        let one = Request::get(RDMA_NLDEV_CMD_GET, &wanted[..1]);
        let its_node = Request::get(RDMA_NLDEV_CMD_GET_CHARDEV, &wanted);
        let settings = Request::get(RDMA_NLDEV_CMD_SYS_GET, &[]);
        let mut requests = vec![&one, &its_node];
        requests.extend(also);
        requests.extend(learn_fork.then_some(&settings));
        let (mut found, mut node, mut other, mut system) = (None, None, None, None);
        let each = |at: usize, part: Attributes<'_>| {
            match at {
                0 => found = Some(Device::parse(part)),
                1 => node = Some(Uverbs::parse(part)),
                2 if also.is_some() => other = Some(Uverbs::parse(part)),
                _ => system = System::parse(part).ok(),
            }
            Ok(())
        };
        let mut outcomes = vec![Outcome::Open; requests.len()];
        self.conversation
            .exchange(op, &requests, &mut outcomes, each, |_| false)?;
        let also = result_of(op, outcomes.get(2).copied().unwrap_or_default(), other);
        // What it fails with if there is no such device.
        let found = if outcomes[0] == Outcome::Failed(Errno::INVAL) {
            Ok(None)
        } else {
            let uverbs = result_of(op, outcomes[1], node);
            result_of(op, outcomes[0], found).map(|device| Some(Found { device, uverbs }))
        };
        Ok(Asked {
            found,
            system,
            also,
        })
    }

    /// The ports of a device.
    ///
    /// # Errors
    /// EINVAL if there is no such device.
    pub fn ports(&mut self, index: u32) -> Result<Vec<Port>> {
        let attributes = [device(index)];
        self.list(
            Op::QueryPort,
            &Request::dump(RDMA_NLDEV_CMD_PORT_GET, &attributes),
            Port::parse,
        )
    }

    /// One port of a device.
    ///
    /// # Errors
    /// EINVAL if there is no such device or port.
    pub fn port(&mut self, index: u32, port: u32) -> Result<Port> {
        let attributes = [
            device(index),
            Attribute::u32(RDMA_NLDEV_ATTR_PORT_INDEX, port),
        ];
        self.one(
            Op::QueryPort,
            &Request::get(RDMA_NLDEV_CMD_PORT_GET, &attributes),
            Port::parse,
        )
    }

    /// Settings of the whole subsystem.
    ///
    /// # Errors
    /// EINVAL before Linux 5.2.
    pub fn system(&mut self) -> Result<System> {
        self.one(
            Op::QuerySystem,
            &Request::get(RDMA_NLDEV_CMD_SYS_GET, &[]),
            System::parse,
        )
    }

    /// How many objects of each kind the devices have.
    ///
    /// # Errors
    /// [`ErrorKind::BadReply`]; ENOBUFS.
    pub fn summaries(&mut self) -> Result<Vec<Summary>> {
        self.list(
            Op::QueryResources,
            &Request::dump(RDMA_NLDEV_CMD_RES_GET, &[]),
            Summary::parse,
        )
    }

    /// How many objects of each kind a device has.
    ///
    /// # Errors
    /// EINVAL if there is no such device.
    pub fn summary(&mut self, index: u32) -> Result<Summary> {
        let attributes = [device(index)];
        self.one(
            Op::QueryResources,
            &Request::get(RDMA_NLDEV_CMD_RES_GET, &attributes),
            Summary::parse,
        )
    }

    /// The objects of a kind on a device.
    ///
    /// # Errors
    /// EINVAL if there is no such device, or the kernel does not list this kind.
    pub fn resources(&mut self, index: u32, kind: ResourceKind) -> Result<Vec<Resource>> {
        let attributes = [device(index)];
        let request = Request::dump(kind.command(), &attributes);
        self.conversation
            .query(Op::QueryResources, &request, |all, part| {
                Resource::parse_list(kind, part, all)
            })
            .map_err(|error: Error| error.fact("kind", kind.name()))
    }

    /// The objects of a process on all devices. Kinds that the kernel does not list count as zero.
    ///
    /// # Errors
    /// [`ErrorKind::BadReply`]; ENOBUFS.
    pub fn usage(&mut self, pid: u32) -> Result<Usage> {
        let mut usage = Usage::default();
        for device in self.devices()? {
            for kind in ResourceKind::ALL {
                let resources = match self.resources(device.index, *kind) {
                    Err(error)
                        if error.kind() == ErrorKind::InvalidInput || error.is_unsupported() =>
                    {
                        continue;
                    }
                    resources => resources?,
                };
                let owner = Owner::Process(pid);
                *usage.of(*kind) += resources
                    .iter()
                    .filter(|resource| resource.owner == owner)
                    .count();
            }
        }
        Ok(usage)
    }

    /// The hardware counters of a port.
    ///
    /// # Errors
    /// EINVAL if there is no such device or port, or its driver has no counters.
    pub fn statistics(&mut self, index: u32, port: u32) -> Result<Vec<Counter>> {
        let attributes = [
            device(index),
            Attribute::u32(RDMA_NLDEV_ATTR_PORT_INDEX, port),
        ];
        self.one(
            Op::QueryStatistics,
            &Request::get(RDMA_NLDEV_CMD_STAT_GET, &attributes),
            parse_counters,
        )
    }

    fn one<A>(
        &mut self,
        op: Op,
        request: &Request<'_>,
        parse: fn(Attributes<'_>) -> Result<A, Malformed>,
    ) -> Result<A> {
        let answer = self.conversation.query(op, request, |answer, part| {
            *answer = Some(parse(part)?);
            Ok(())
        })?;
        answer.ok_or_else(|| Error::bad_reply(op, "none"))
    }

    fn list<A>(
        &mut self,
        op: Op,
        request: &Request<'_>,
        parse: fn(Attributes<'_>) -> Result<A, Malformed>,
    ) -> Result<Vec<A>> {
        self.conversation
            .query(op, request, |all: &mut Vec<A>, part| {
                all.push(parse(part)?);
                Ok(())
            })
    }
}

fn device(index: u32) -> Attribute<'static> {
    Attribute::u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)
}

/// The number at the end of a name; 0 if there is none.
fn trailing_number(name: &str) -> u32 {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[stem.len()..].parse().unwrap_or(0)
}

fn uverbs() -> Result<Attribute<'static>> {
    Attribute::text(Op::ListDevices, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")
}

/// The result of one request of a batch.
fn result_of<A>(op: Op, outcome: Outcome, answer: Option<Result<A, Malformed>>) -> Result<A> {
    match (outcome, answer) {
        (Outcome::Failed(errno), _) => Err(Error::os(op, errno)),
        (_, Some(answer)) => answer.map_err(|malformed| bad_reply(op, malformed)),
        (_, None) => Err(Error::bad_reply(op, "none")),
    }
}
