//! Events of the device, by subscription.

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
        /// The type of an event (`MLX5_EVENT_TYPE_*`).
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum EventType {
            $($(#[$doc])* $name,)*
            /// A type without a name here: it can be received, but not subscribed to.
            Unknown(Unrecognized<EventType, u16>),
        }

        impl EventType {
            /// Converts from the device's number.
            pub const fn from_raw(raw: u16) -> Self {
                match raw {
                    $($raw => Self::$name,)*
                    other => Self::Unknown(Unrecognized::new(other)),
                }
            }

            /// The device's number.
            pub const fn raw(self) -> u16 {
                match self {
                    $(Self::$name => $raw,)*
                    Self::Unknown(unrecognized) => unrecognized.raw(),
                }
            }

            /// Its number in a subscription.
            fn checked(self) -> Result<u16> {
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
    /// An armed completion queue has completions.
    Completion = 0x00;
    /// A queue pair migrated to its alternate path.
    PathMigrated = 0x01;
    /// A queue pair received a packet from its peer before it was told that communication is
    /// established.
    CommunicationEstablished = 0x02;
    /// A send queue has drained.
    SendQueueDrained = 0x03;
    /// A completion queue overran, or could not be written.
    CompletionQueueError = 0x04;
    /// A work queue cannot continue.
    WorkQueueError = 0x05;
    /// Migration to the alternate path failed.
    PathMigrationFailed = 0x07;
    /// An internal error of the device.
    InternalError = 0x08;
    /// A port changed its state.
    PortChange = 0x09;
    /// A firmware command completed.
    Command = 0x0a;
    /// The firmware requests pages, or returns some.
    PageRequest = 0x0b;
    /// A request met a page fault in on-demand paged memory.
    PageFault = 0x0c;
    /// The context of a function's port changed.
    VportChange = 0x0d;
    /// Functions of the embedded switch were added or removed.
    SwitchFunctionsChanged = 0x0e;
    /// A function changed its state.
    FunctionStateChange = 0x0f;
    /// A queue pair received an invalid request.
    InvalidRequest = 0x10;
    /// A queue pair received a request for memory that it has no right to access.
    AccessError = 0x11;
    /// A shared receive queue cannot continue.
    SharedReceiveQueueError = 0x12;
    /// A queue pair took its last request from a shared receive queue.
    LastRequest = 0x13;
    /// A shared receive queue fell below its limit.
    ReceiveLimit = 0x14;
    /// A GPIO pin of the adapter changed.
    Gpio = 0x15;
    /// A transceiver was plugged in, unplugged or failed.
    PortModule = 0x16;
    /// The adapter's temperature is too high.
    TemperatureWarning = 0x17;
    /// An extended receive queue cannot continue.
    ExtendedReceiveQueueError = 0x18;
    /// The adapter was configured remotely.
    RemoteConfiguration = 0x19;
    /// Doorbells arrive faster than the device handles them.
    DoorbellCongestion = 0x1a;
    /// The host stalls the device.
    Stall = 0x1b;
    /// A dynamically connected target has drained.
    TargetDrained = 0x1c;
    /// A packet reached such a target with a wrong key.
    TargetKeyViolation = 0x1d;
    /// An error of the adapter's FPGA.
    FpgaError = 0x20;
    /// An error of a queue pair of the adapter's FPGA.
    FpgaQueuePairError = 0x21;
    /// Another event, which the sub-type specifies.
    General = 0x22;
    /// A monitored counter passed its threshold.
    MonitorCounter = 0x24;
    /// A pulse-per-second signal came in, or went out.
    PulsePerSecond = 0x25;
    /// The device's tracer has data.
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
    /// The event's type.
    #[expect(clippy::cast_possible_truncation, reason = "the field has 8 bits")]
    pub fn kind(&self) -> EventType {
        EventType::from_raw(TYPE.get(&self.0) as u16)
    }

    /// The sub-type, which some types have.
    pub fn sub_kind(&self) -> u32 {
        SUB_TYPE.get(&self.0)
    }

    /// The number of the object that the event is about, 24 bits. For types without an object, and
    /// for unknown types, the value is arbitrary.
    pub fn object_number(&self) -> u32 {
        let byte = match self.kind() {
            EventType::CompletionQueueError => 0x20,
            EventType::ExtendedReceiveQueueError => 0x34,
            _ => 0x38,
        };
        word(byte).get(&self.0) & 0xff_ffff
    }

    /// The kind of queue that the number belongs to, for events of queues: 0 queue pair, 1 receive
    /// queue, 2 send queue.
    pub fn queue_type(&self) -> u32 {
        QUEUE_TYPE.get(&self.0)
    }

    /// The 28 bytes whose meaning depends on the type.
    pub fn data(&self) -> &[u8] {
        &self.0[DATA..DATA + DATA_LEN]
    }

    /// The whole entry.
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

/// `mlx5dv_devx_async_event_hdr`—an event from a subscription.
#[doc(alias = "mlx5dv_devx_async_event_hdr")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Event {
    /// The subscriber's number.
    pub user_data: u64,
    /// The entry that the device wrote; `None` from a channel that omits it.
    pub entry: Option<Eqe>,
}

/// `mlx5dv_devx_event_channel`—a channel for the events of subscriptions.
///
/// Subscriptions last until the file or their object is gone, and keep neither alive.
#[doc(alias = "mlx5dv_devx_event_channel")]
#[derive(Debug)]
pub struct EventChannel {
    file: Arc<UverbsFile>,
    fd: OwnedFd,
    omits_data: bool,
}

impl Devx {
    /// `mlx5dv_devx_create_event_channel`—creates an event channel.
    ///
    /// With `omit_data` events carry only their number, and an event that occurs again before it
    /// was read is reported once.
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
    /// `mlx5dv_devx_subscribe_devx_event`—subscribes this channel to events of these types (16 at
    /// most) of `object`, or of the device, which then carry `user_data`.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EINVAL: more than 16 types, or one that does not exist, or that is not available for
    /// objects, or only for objects.
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

    /// `mlx5dv_devx_subscribe_devx_event_fd`—has events of these types signal `eventfd` instead.
    ///
    /// One system call.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe); EBADF, EINVAL: not an event descriptor.
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
            // Its handle is the number of another object in this context.
            check_context(op, object, &self.file)?;
        }
        let numbers: Vec<u16> = kinds
            .iter()
            .map(|kind| kind.checked())
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

    /// `mlx5dv_devx_get_event`—takes the next event. Blocks until there is one, unless
    /// [`set_nonblocking`](Self::set_nonblocking) was called.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EOVERFLOW: the kernel had no memory for some events, which are lost; the next call
    /// continues.
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

    /// Waits until there is an event, for at most `timeout` (`None`: without limit). Returns
    /// whether there is one.
    ///
    /// # Errors
    /// [`DeviceRemoved`](uverbs_core::ErrorKind::DeviceRemoved).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        self.file
            .wait_readable(Op::DevxEvent, self.fd.as_fd(), timeout)
    }

    /// Makes [`next`](Self::next) return at once if there is no event.
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

/// The subscriber's number, followed by the entry.
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
            let requested = kernel.take_calls();
            if matches!(kind, EventType::Unknown(_)) {
                let error = done.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert_eq!(requested, [""; 0], "{raw:#x}");
            } else {
                done.unwrap();
                assert_eq!(requested.len(), 1, "{raw:#x}");
            }
        }
    }
}
