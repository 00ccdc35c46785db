//! Receive requests.

use uverbs_core::rings::Fields;

use super::reader::Reader;
use super::segments;

/// The key that ends the scatter/gather entries of a request with fewer of them than it could have
/// (the kernel's `MLX5_INVALID_LKEY`).
const INVALID_LKEY: u64 = 0x100;

/// Decodes the memory for a message. `listed`: the request begins with the number of the next one.
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
            // What follows the end mark is stale.
            return Some(());
        }
        segments::sge(fields, reader, length)?;
    }
    Some(())
}
