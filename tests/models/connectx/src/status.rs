//! How a command fails: the status byte and a syndrome that identifies the rule of the model that
//! refused it.

/// Result of one command.
pub(crate) type Outcome<T = ()> = Result<T, Refusal>;

/// A refused command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) syndrome: u32,
}

/// Command status codes of the PRM that the model returns, some of them on request only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Internal = 0x01,
    BadOpcode = 0x02,
    BadParameter = 0x03,
    BadSystemState = 0x04,
    BadResource = 0x05,
    Busy = 0x06,
    NotReady = 0x07,
    Limit = 0x08,
    BadResourceState = 0x09,
    BadIndex = 0x0a,
    NoResources = 0x0f,
    BadQpState = 0x10,
    TooManyCompletions = 0x40,
    BadInputLength = 0x50,
    BadOutputLength = 0x51,
}

impl Status {
    /// Decodes a status that a command is to fail with.
    pub(crate) fn parse(raw: u8) -> Option<Self> {
        [
            Self::Internal,
            Self::BadOpcode,
            Self::BadParameter,
            Self::BadSystemState,
            Self::BadResource,
            Self::Busy,
            Self::NotReady,
            Self::Limit,
            Self::BadResourceState,
            Self::BadIndex,
            Self::NoResources,
            Self::BadQpState,
            Self::TooManyCompletions,
            Self::BadInputLength,
            Self::BadOutputLength,
        ]
        .into_iter()
        .find(|status| *status as u8 == raw)
    }
}

/// Every check that can refuse a command; the number is the syndrome that appears in the guest's
/// kernel log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rule {
    UnknownOpcode = 0xc0_0001,
    OutOfRange = 0xc0_0002,
    NoSuchObject = 0xc0_0003,
    ForeignObject = 0xc0_0004,
    InUse = 0xc0_0005,
    TableFull = 0xc0_0006,
    BadSize = 0xc0_0007,
    PageList = 0xc0_0008,
    Umem = 0xc0_0009,
    Transition = 0xc0_000a,
    ServiceType = 0xc0_000b,
    AccessMode = 0xc0_000c,
    Parent = 0xc0_000d,
    ElementType = 0xc0_000e,
    Share = 0xc0_000f,
    RingState = 0xc0_0010,
    Reserved = 0xc0_0011,
    Register = 0xc0_0013,
    Injected = 0xc0_0014,
    TooShort = 0xc0_0015,
    Depth = 0xc0_0016,
    Outstanding = 0xc0_0017,
}

impl Rule {
    /// The refusal with the status that usually goes with the rule.
    pub(crate) fn refuse(self) -> Refusal {
        let status = match self {
            Self::UnknownOpcode => Status::BadOpcode,
            Self::OutOfRange
            | Self::BadSize
            | Self::PageList
            | Self::ServiceType
            | Self::AccessMode
            | Self::ElementType
            | Self::Share
            | Self::Depth
            | Self::Register
            | Self::Parent
            | Self::Reserved => Status::BadParameter,
            Self::NoSuchObject | Self::ForeignObject | Self::Umem => Status::BadResource,
            Self::InUse | Self::RingState => Status::BadResourceState,
            Self::TableFull => Status::Limit,
            Self::Transition => Status::BadQpState,
            Self::Injected => Status::Internal,
            Self::Outstanding => Status::TooManyCompletions,
            Self::TooShort => Status::BadInputLength,
        };
        self.with(status)
    }

    /// The refusal with a chosen status.
    pub(crate) fn with(self, status: Status) -> Refusal {
        Refusal {
            status,
            syndrome: self as u32,
        }
    }
}

/// Refuses by `rule` unless `condition` holds.
pub(crate) fn require(condition: bool, rule: Rule) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(rule.refuse())
    }
}
