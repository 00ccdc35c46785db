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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_grows_until_its_fields_fit() {
        for (byte, length) in [
            (0, 16),
            (12, 16),
            (13, 32),
            (16, 32),
            (28, 32),
            (0x40, 0x50),
        ] {
            let mut mailbox = Mailbox::new(0);
            mailbox.set(word(byte), 0x0102_0304);
            assert_eq!(mailbox.as_bytes().len(), length, "{byte}");
            assert_eq!(mailbox.as_bytes()[byte..byte + 4], [1, 2, 3, 4]);
            assert_eq!(mailbox.get(word(byte)), 0x0102_0304);
        }
        for (byte, length) in [(8, 16), (9, 32), (24, 32), (25, 48)] {
            let mut mailbox = Mailbox::new(0);
            mailbox.set_wide(Wide(byte), 0x0102_0304_0506_0708);
            assert_eq!(mailbox.as_bytes().len(), length, "{byte}");
            assert_eq!(mailbox.as_bytes()[byte..byte + 8], [1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(mailbox.get_wide(Wide(byte)), 0x0102_0304_0506_0708);
        }
        assert_eq!(Mailbox::new(16).get(word(16)), 0);
        assert_eq!(Mailbox::new(16).get_wide(Wide(9)), 0);
    }

    #[test]
    fn the_header_has_opcode_and_modifier_or_status_and_syndrome() {
        let command = Mailbox::command(0x1234, 0x5678, 20);
        let mut bytes = [0; 20];
        (bytes[..2]).copy_from_slice(&[0x12, 0x34]);
        (bytes[6..8]).copy_from_slice(&[0x56, 0x78]);
        assert_eq!((command.opcode(), command.as_bytes()), (0x1234, &bytes[..]));
        let reply = Mailbox::from(vec![6, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
        assert_eq!(
            (reply.status(), reply.syndrome()),
            (Status::Busy, 0x0102_0304)
        );
        assert_eq!(reply.as_bytes().len(), 16);
        assert_eq!(Mailbox::from(vec![0; 17]).as_bytes().len(), 17);
        assert_eq!(Mailbox::new(17).as_bytes().len(), 17);
    }

    #[test]
    fn only_words_that_are_not_zero_are_printed() {
        let mut mailbox = Mailbox::command(0x0100, 0, 24);
        mailbox.set(word(20), 0x0a0b);
        let text = "24 bytes 0x0:01000000 0x14:00000a0b";
        assert_eq!(format!("{mailbox:?}"), text);
    }
}
