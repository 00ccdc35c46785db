//! Events of the device, for those who subscribed to them.

use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use uverbs_core::contract::set_nonblocking;
use uverbs_core::sys::{Attr, Uhw, Value};
use uverbs_core::{Errno, Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
    MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE,
    MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE,
    MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
    MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, MLX5_IB_OBJECT_DEVX, MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA, mlx5_ib_uapi_devx_async_event_hdr,
};
use zerocopy::IntoBytes;

use super::{Devx, DevxObject, check_context};
use crate::prm::{Field, Unrecognized, field, word};

const HEADER: usize = size_of::<mlx5_ib_uapi_devx_async_event_hdr>();

macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident = $raw:literal;)*) => {
        /// What happened (`MLX5_EVENT_TYPE_*`).
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum EventType {
            $($(#[$doc])* $name,)*
            /// A type that has no name here: it is read, never subscribed to.
            Unknown(Unrecognized<EventType, u16>),
        }

        impl EventType {
            /// From its number.
            pub const fn from_raw(raw: u16) -> Self {
                match raw {
                    $($raw => Self::$name,)*
                    other => Self::Unknown(Unrecognized::new(other)),
                }
            }

            /// Its number.
            pub const fn raw(self) -> u16 {
                match self {
                    $(Self::$name => $raw,)*
                    Self::Unknown(unrecognized) => unrecognized.raw(),
                }
            }

            /// Its number for a subscription.
            fn asked(self) -> Result<u16> {
                match self {
                    Self::Unknown(other) => Err(Error::invalid(Op::DevxSubscribe, "kinds")
                        .fact("unknown", other.raw())),
                    named => Ok(named.raw()),
                }
            }
        }
    };
}

event_types! {
    /// A completion queue that was armed has completions.
    Completion = 0x00;
    /// A queue pair migrated to its alternate path.
    PathMigrated = 0x01;
    /// A queue pair heard from its peer before it was told to expect it.
    CommunicationEstablished = 0x02;
    /// A send queue has drained.
    SendQueueDrained = 0x03;
    /// A completion queue overran, or could not be written.
    CompletionQueueError = 0x04;
    /// A work queue cannot go on.
    WorkQueueError = 0x05;
    /// Migration to the alternate path failed.
    PathMigrationFailed = 0x07;
    /// The device failed inside.
    InternalError = 0x08;
    /// A port changed its state.
    PortChange = 0x09;
    /// A firmware command completed.
    Command = 0x0a;
    /// The firmware wants pages, or gives some back.
    PageRequest = 0x0b;
    /// A request faulted on memory that is paged in on demand.
    PageFault = 0x0c;
    /// The context of a function's port changed.
    VportChange = 0x0d;
    /// Functions of the embedded switch came or went.
    SwitchFunctionsChanged = 0x0e;
    /// A function changed its state.
    FunctionStateChange = 0x0f;
    /// A queue pair received a request that it must not have.
    InvalidRequest = 0x10;
    /// A queue pair received a request for memory that it must not touch.
    AccessError = 0x11;
    /// A shared receive queue cannot go on.
    SharedReceiveQueueError = 0x12;
    /// A queue pair took its last request from a shared receive queue.
    LastRequest = 0x13;
    /// A shared receive queue fell below its limit.
    ReceiveLimit = 0x14;
    /// A pin of the adapter changed.
    Gpio = 0x15;
    /// A transceiver came, went or failed.
    PortModule = 0x16;
    /// The adapter is too warm.
    TemperatureWarning = 0x17;
    /// An extended receive queue cannot go on.
    ExtendedReceiveQueueError = 0x18;
    /// The adapter was configured from elsewhere.
    RemoteConfiguration = 0x19;
    /// Doorbells come faster than the device takes them.
    DoorbellCongestion = 0x1a;
    /// The device is stalled by the host.
    Stall = 0x1b;
    /// A dynamically connected target has drained.
    TargetDrained = 0x1c;
    /// A packet came to such a target with the wrong key.
    TargetKeyViolation = 0x1d;
    /// The adapter's logic array failed.
    FpgaError = 0x20;
    /// A queue pair of the adapter's logic array failed.
    FpgaQueuePairError = 0x21;
    /// Something else, which the sub-type tells.
    General = 0x22;
    /// A watched counter passed its threshold.
    MonitorCounter = 0x24;
    /// A pulse per second came in, or went out.
    PulsePerSecond = 0x25;
    /// The device's tracer has something to say.
    Tracer = 0x26;
    /// An object changed.
    ObjectChange = 0x27;
}

/// An entry of the device's event queue, 64 bytes.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Eqe([u8; 64]);

const SUB_TYPE: Field = field(0x00, 7, 0);
const TYPE: Field = field(0x00, 23, 16);
const QUEUE_TYPE: Field = field(0x34, 31, 24);
const DATA: usize = 0x20;
const DATA_LEN: usize = 28;

impl Eqe {
    /// What happened.
    #[expect(clippy::cast_possible_truncation, reason = "the field has 8 bits")]
    pub fn kind(&self) -> EventType {
        EventType::from_raw(TYPE.get(&self.0) as u16)
    }

    /// A number that tells more, for some kinds.
    pub fn sub_kind(&self) -> u32 {
        SUB_TYPE.get(&self.0)
    }

    /// The number of the object that it happened to, 24 bits; for kinds that have no object, and
    /// for unknown ones, whatever is there.
    pub fn object_number(&self) -> u32 {
        let byte = match self.kind() {
            EventType::CompletionQueueError => 0x20,
            EventType::ExtendedReceiveQueueError => 0x34,
            _ => 0x38,
        };
        word(byte).get(&self.0) & 0xff_ffff
    }

    /// What kind of queue that number is of, for events of queues: 0 queue pair, 1 receive queue, 2
    /// send queue.
    pub fn queue_type(&self) -> u32 {
        QUEUE_TYPE.get(&self.0)
    }

    /// The 28 bytes whose meaning depends on the kind.
    pub fn data(&self) -> &[u8] {
        &self.0[DATA..DATA + DATA_LEN]
    }

    /// All of it.
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Debug for Eqe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Eqe({:?}, object {:#x})",
            self.kind(),
            self.object_number()
        )
    }
}

/// `mlx5dv_devx_async_event_hdr`—an event that was subscribed to.
#[doc(alias = "mlx5dv_devx_async_event_hdr")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Event {
    /// The number that the subscriber gave.
    pub user_data: u64,
    /// What the device wrote; `None` from a channel that omits it.
    pub entry: Option<Eqe>,
}

/// `mlx5dv_devx_event_channel`—where events arrive that were subscribed to.
///
/// Subscriptions last until the file or their object is gone, and hold neither back.
#[doc(alias = "mlx5dv_devx_event_channel")]
#[derive(Debug)]
pub struct EventChannel {
    file: Arc<UverbsFile>,
    fd: OwnedFd,
    omits_data: bool,
}

impl Devx {
    /// `mlx5dv_devx_create_event_channel`—creates a place where events arrive.
    ///
    /// With `omit_data` events carry their number alone, and one that happens again before it was
    /// read is told once.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM; unsupported without DEVX.
    #[doc(alias = "mlx5dv_devx_create_event_channel")]
    pub fn event_channel(&self, omit_data: bool) -> Result<EventChannel> {
        let op = Op::DevxEventChannel;
        let flags = if omit_data {
            MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA
        } else {
            0
        };
        let slot = Cell::new(None);
        self.file.ioctl_only(op, || {
            let attrs = [
                Attr::new_fd(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, &slot),
                Attr::constant(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, flags),
            ];
            self.file.ioctl(
                op,
                MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
                MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
                &attrs,
                &Uhw::NONE,
            )
        })?;
        let fd = slot
            .take()
            .ok_or_else(|| Error::bad_reply(op, "no descriptor"))?;
        Ok(EventChannel {
            file: Arc::clone(&self.file),
            fd,
            omits_data: omit_data,
        })
    }
}

impl EventChannel {
    /// `mlx5dv_devx_subscribe_devx_event`—has events of these kinds (16 at most) about `object`, or
    /// about the device, come here with `user_data`.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EINVAL: more kinds, or one that does not exist, or not for objects, or only for objects.
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): an object of another context.
    #[doc(alias = "mlx5dv_devx_subscribe_devx_event")]
    pub fn subscribe(
        &self,
        object: Option<&DevxObject>,
        kinds: &[EventType],
        user_data: u64,
    ) -> Result<()> {
        self.subscribe_by(object.map(DevxObject::object), kinds, Some(user_data), None)
    }

    /// `mlx5dv_devx_subscribe_devx_event_fd`—has events of these kinds signal `eventfd` instead.
    ///
    /// One system call.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe); EBADF, EINVAL: no event descriptor.
    #[doc(alias = "mlx5dv_devx_subscribe_devx_event_fd")]
    pub fn subscribe_eventfd(
        &self,
        object: Option<&DevxObject>,
        kinds: &[EventType],
        eventfd: BorrowedFd<'_>,
    ) -> Result<()> {
        self.subscribe_by(object.map(DevxObject::object), kinds, None, Some(eventfd))
    }

    fn subscribe_by(
        &self,
        object: Option<&Arc<Object>>,
        kinds: &[EventType],
        user_data: Option<u64>,
        eventfd: Option<BorrowedFd<'_>>,
    ) -> Result<()> {
        let op = Op::DevxSubscribe;
        if kinds.is_empty() {
            return Err(Error::invalid(op, "kinds"));
        }
        if let Some(object) = object {
            // Its handle is another object's here.
            check_context(op, object, &self.file)?;
        }
        let numbers: Vec<u16> = kinds
            .iter()
            .map(|kind| kind.asked())
            .collect::<Result<_>>()?;
        let number = eventfd.map(|fd| fd.as_raw_fd().cast_unsigned());
        let handle = object.map(|object| object.handle());
        self.file
            .ioctl_only(op, || {
                let attrs = [
                    Attr::fd(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, self.fd.as_fd()),
                    Attr::maybe(
                        handle,
                        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE,
                        Attr::object,
                    ),
                    Attr::new(
                        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST,
                        Value::In(numbers.as_bytes(), None),
                    ),
                    Attr::maybe(
                        user_data.as_ref(),
                        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE,
                        Attr::input,
                    ),
                    Attr::maybe(
                        number.as_ref(),
                        MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM,
                        Attr::input,
                    ),
                ];
                self.file.ioctl(
                    op,
                    MLX5_IB_OBJECT_DEVX,
                    MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT,
                    &attrs,
                    &Uhw::NONE,
                )
            })
            .map_err(|error| error.fact("kinds", format!("{kinds:?}")))
    }

    /// `mlx5dv_devx_get_event`—takes the next event. It waits for one, unless
    /// [`set_nonblocking`](Self::set_nonblocking).
    ///
    /// One system call.
    ///
    /// # Errors
    /// EOVERFLOW: the kernel had no memory for some events, which are lost; the next call goes on.
    /// [`WouldBlock`](uverbs_core::ErrorKind::WouldBlock),
    /// [`DeviceRemoved`](uverbs_core::ErrorKind::DeviceRemoved).
    #[doc(alias = "mlx5dv_devx_get_event")]
    pub fn next(&self) -> Result<Event> {
        let op = Op::DevxEvent;
        if self.omits_data {
            let user_data = self.file.read_event(op, self.fd.as_fd());
            let user_data = user_data.map_err(explain)?;
            return Ok(Event {
                user_data,
                entry: None,
            });
        }
        let event: [u8; HEADER + size_of::<Eqe>()] =
            self.file.read_event(op, self.fd.as_fd()).map_err(explain)?;
        parse(&event).ok_or_else(|| Error::bad_reply(op, "an event of another size"))
    }

    /// Waits until there is an event, for at most `timeout` (`None`: for ever). Returns whether
    /// there is.
    ///
    /// # Errors
    /// [`DeviceRemoved`](uverbs_core::ErrorKind::DeviceRemoved).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        self.file
            .wait_readable(Op::DevxEvent, self.fd.as_fd(), timeout)
    }

    /// Makes [`next`](Self::next) return at once when there is nothing.
    ///
    /// # Errors
    /// The errno of `fcntl(2)`.
    pub fn set_nonblocking(&self) -> Result<()> {
        set_nonblocking(Op::DevxEvent, self.fd.as_fd())
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::OVERFLOW) => error.hint("events were lost; look at the state of the objects"),
        _ => error,
    }
}

/// The user's number, and the entry after it.
fn parse(event: &[u8]) -> Option<Event> {
    let (user_data, rest) = event.split_first_chunk::<HEADER>()?;
    Some(Event {
        user_data: u64::from_ne_bytes(*user_data),
        entry: Some(Eqe(*rest.first_chunk()?)),
    })
}

#[cfg(test)]
mod tests {
    use uverbs_core::ErrorKind;

    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn an_entry_is_read_in_place() {
        let mut event = [0_u8; 72];
        event[..8].copy_from_slice(&7_u64.to_ne_bytes());
        event[8 + 1] = 0x13;
        event[8 + 3] = 2;
        event[8 + 0x38..8 + 0x3c].copy_from_slice(&[0, 0, 1, 5]);
        let event = parse(&event).unwrap();
        assert_eq!(event.user_data, 7);
        let entry = event.entry.unwrap();
        assert_eq!(entry.kind(), EventType::LastRequest);
        assert_eq!((entry.sub_kind(), entry.object_number()), (2, 0x105));
        assert_eq!(entry.data().len(), 28);
    }

    #[test]
    fn what_is_too_short_is_no_event() {
        assert_eq!(parse(&[0; 71]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn numbers_survive() {
        for raw in [0, 9, 0x1d, 0x1e, 0xff, 0x1234] {
            assert_eq!(EventType::from_raw(raw).raw(), raw);
        }
    }

    #[test]
    fn what_has_no_name_is_not_subscribed_to() {
        let (kernel, file) = Scripted::new();
        let events = EventChannel {
            file,
            fd: std::fs::File::open("/dev/null").unwrap().into(),
            omits_data: false,
        };
        for raw in (0..=0x200).chain([u16::MAX]) {
            let kind = EventType::from_raw(raw);
            let done = events.subscribe(None, &[EventType::PortChange, kind], 1);
            let asked = kernel.asked();
            if matches!(kind, EventType::Unknown(_)) {
                let error = done.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert_eq!(asked, [""; 0], "{raw:#x}");
            } else {
                done.unwrap();
                assert_eq!(asked.len(), 1, "{raw:#x}");
            }
        }
    }
}
