//! Receive requests.

use uverbs_core::rings::Fields;

use super::reader::Reader;
use super::segments;

/// The key that ends the pieces of a request which has fewer than it could (the kernel's
/// `MLX5_INVALID_LKEY`).
const INVALID_LKEY: u64 = 0x100;

/// Says where a message may go. `listed`: the request begins with the number of the one behind it.
pub(super) fn fields(bytes: &[u8], listed: bool) -> Fields {
    let mut fields = Fields::of(Some("RECEIVE"));
    let mut reader = Reader::new(bytes);
    if request(&mut fields, &mut reader, listed).is_none() {
        fields.rest(reader.rest());
    }
    fields
}

fn request(fields: &mut Fields, reader: &mut Reader<'_>, listed: bool) -> Option<()> {
    if listed {
        reader.take(2)?;
        fields.number("next", reader.half()?);
        reader.take(12)?;
    }
    while reader.left() != 0 {
        let length = reader.word()?;
        let mut ahead = *reader;
        if length == 0 && ahead.number(4) == Some(INVALID_LKEY) {
            // What is behind the end is of old.
            return Some(());
        }
        segments::piece(fields, reader, length)?;
    }
    Some(())
}
