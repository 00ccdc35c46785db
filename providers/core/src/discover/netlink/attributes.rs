//! Walks netlink attributes.

use netlink_packet_core::{
    NLA_HEADER_SIZE, NlasIterator, parse_u8, parse_u16, parse_u32, parse_u64,
};

/// Bytes from the kernel that cannot be parsed, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The attributes of a message or of a nested attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(&'a [u8]);

/// The value of one attribute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes in `bytes`, as encoded in a message.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Each attribute's type (without the flags for nesting and byte order) and value. Ends after
    /// the first error.
    pub fn iter(self) -> impl Iterator<Item = Result<(u16, Bytes<'a>), Malformed>> {
        NlasIterator::new(self.0).map(|attribute| {
            let attribute = attribute.map_err(|_| Malformed("a length that does not fit"))?;
            let (kind, end) = (attribute.kind(), usize::from(attribute.length()));
            let value = attribute.into_inner().get(NLA_HEADER_SIZE..end);
            Ok((
                kind,
                Bytes(value.ok_or(Malformed("a length that does not fit"))?),
            ))
        })
    }

    /// The attributes of type `kind`, in order.
    pub fn all(self, kind: u16) -> impl Iterator<Item = Result<Bytes<'a>, Malformed>> {
        self.iter().filter_map(move |attribute| match attribute {
            Ok((found, value)) => (found == kind).then_some(Ok(value)),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<'a> Bytes<'a> {
    /// A number of any width that netlink uses.
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self.0.len() {
            1 => parse_u8(self.0).map(u64::from),
            2 => parse_u16(self.0).map(u64::from),
            4 => parse_u32(self.0).map(u64::from),
            _ => parse_u64(self.0),
        }
        .map_err(|_| Malformed("a number of an impossible width"))
    }

    /// A number that fits `T`.
    pub(super) fn fit<T: TryFrom<u64>>(self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed("a number out of range"))
    }

    /// As it is.
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// A flag, encoded as a number.
    pub(super) fn flag(self) -> Result<bool, Malformed> {
        Ok(self.number()? != 0)
    }

    /// Text up to its NUL.
    pub(super) fn text(self) -> Result<String, Malformed> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(self.0.len());
        let text =
            str::from_utf8(&self.0[..end]).map_err(|_| Malformed("text that is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// A name that is valid as a file name.
    pub(super) fn name(self) -> Result<String, Malformed> {
        let name = self.text()?;
        if is_file_name(&name) {
            Ok(name)
        } else {
            Err(Malformed("a name that cannot be a file's"))
        }
    }

    /// The nested attributes.
    pub(super) fn nest(self) -> Attributes<'a> {
        Attributes(self.0)
    }
}

/// Whether `name` is the name of an entry of a directory, and cannot lead outside it.
pub(crate) fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 255 && !name.contains(['/', '\0'])
}
