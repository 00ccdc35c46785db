//! The bytes of a command or of its reply.

use std::fmt;

use super::field::{Field, Wide, field, word};
use super::status::Status;

const OPCODE: Field = field(0x00, 31, 16);
const MODIFIER: Field = field(0x04, 15, 0);
const STATUS: Field = field(0x00, 31, 24);
const SYNDROME: Field = word(0x04);

/// A command to the firmware, or its reply: big-endian words, zero unless set.
///
/// The first 16 bytes of a command contain opcode, user context (which the kernel fills in) and
/// modifier; those of a reply contain status and syndrome. The rest depends on the opcode.
///
/// ```
/// use uverbs_mlx5::prm::{Mailbox, opcode, field};
///
/// let mut query = Mailbox::command(opcode::QUERY_HCA_CAP, 1, 16);
/// assert_eq!(&query.as_bytes()[..8], [1, 0, 0, 0, 0, 0, 0, 1]);
/// query.set(field(0x0c, 15, 0), 7);
/// assert_eq!(query.as_bytes()[15], 7);
/// ```
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Mailbox(Vec<u8>);

impl Mailbox {
    /// `len` zero bytes, at least 16: a buffer for a reply.
    pub fn new(len: usize) -> Self {
        Self(vec![0; len.max(16)])
    }

    /// A command of `len` bytes (at least 16) with its opcode and modifier.
    pub fn command(opcode: u16, modifier: u16, len: usize) -> Self {
        let mut mailbox = Self::new(len);
        mailbox.set(OPCODE, opcode.into());
        mailbox.set(MODIFIER, modifier.into());
        mailbox
    }

    /// Sets a field. The mailbox grows if it ends before the field.
    pub fn set(&mut self, field: Field, value: u32) {
        while !field.set(&mut self.0, value) {
            self.0.extend([0; 16]);
        }
    }

    /// Sets a 64-bit word. The mailbox grows if it ends before the word.
    pub fn set_wide(&mut self, word: Wide, value: u64) {
        while !word.set(&mut self.0, value) {
            self.0.extend([0; 16]);
        }
    }

    /// A field; 0 beyond the end.
    pub fn get(&self, field: Field) -> u32 {
        field.get(&self.0)
    }

    /// A 64-bit word; 0 beyond the end.
    pub fn get_wide(&self, word: Wide) -> u64 {
        word.get(&self.0)
    }

    /// The command's opcode.
    #[expect(clippy::cast_possible_truncation, reason = "the field has 16 bits")]
    pub fn opcode(&self) -> u16 {
        self.get(OPCODE) as u16
    }

    /// The reply's status.
    #[expect(clippy::cast_possible_truncation, reason = "the field has 8 bits")]
    pub fn status(&self) -> Status {
        Status::from_raw(self.get(STATUS) as u8)
    }

    /// The reply's syndrome: the firmware's own number of the error.
    pub fn syndrome(&self) -> u32 {
        self.get(SYNDROME)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, mutable.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl From<Vec<u8>> for Mailbox {
    /// A mailbox of these bytes, padded with zeros to 16.
    fn from(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().max(16), 0);
        Self(bytes)
    }
}

impl fmt::Debug for Mailbox {
    /// Its words that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())?;
        for (at, word) in self.0.chunks(4).enumerate() {
            if word.iter().any(|byte| *byte != 0) {
                write!(f, " {:#x}:", at * 4)?;
                word.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        Ok(())
    }
}
