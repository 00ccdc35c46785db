//! The number that comes with a write.

/// The number that comes with a write, or with nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum Message {
    /// This many bytes are in the buffer.
    Data(u32),
    /// Up to this message, counted from the first, the sender of this may be sent data; a buffer
    /// may have been added.
    Credits(u32),
    /// The entry of mapped memory has changed.
    Map(u32),
    Control(Control),
    /// Bytes that the peer is not told of: only completions have this.
    Direct(u32),
    /// None of these.
    Unknown,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum Control {
    /// Nothing more is sent or received.
    Disconnect,
    /// The peer is there.
    KeepAlive,
    /// Nothing more is sent.
    Shutdown,
    Other(u32),
}

/// The lower bits of a message.
const BITS: u32 = 29;
pub(super) const VALUE: u32 = (1 << BITS) - 1;

impl Message {
    pub(in super::super) fn to_raw(self) -> u32 {
        let (kind, value) = match self {
            Self::Data(value) => (0, value),
            Self::Direct(value) => (2, value),
            Self::Credits(value) => (4, value),
            Self::Map(value) => (6, value),
            Self::Unknown => (5, 0),
            Self::Control(control) => {
                let value = match control {
                    Control::Disconnect => 0,
                    Control::KeepAlive => 1,
                    Control::Shutdown => 2,
                    Control::Other(value) => value,
                };
                (7, value)
            }
        };
        (kind << BITS) | (value & VALUE)
    }

    pub(in super::super) fn from_raw(raw: u32) -> Self {
        let value = raw & VALUE;
        match raw >> BITS {
            0 => Self::Data(value),
            2 => Self::Direct(value),
            4 => Self::Credits(value),
            6 => Self::Map(value),
            7 => Self::Control(match value {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                2 => Control::Shutdown,
                other => Control::Other(other),
            }),
            _ => Self::Unknown,
        }
    }
}
