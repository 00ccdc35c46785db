//! What the driver has to know of the counters of a rule.

use super::own;
use crate::answer::Answer;
use crate::context::Context;
use crate::errno::Code;

/// Driver data of a rule with these sets of counters: of each what is counted (packets, bytes) and
/// where the count goes. The sets are read during the command, so they outlive it; a rule has one
/// at most.
pub(crate) fn counters_of_rule(context: &Context, sets: &[Vec<[u32; 2]>]) -> Answer<Vec<u8>> {
    let set = match sets {
        [] => return Ok(Vec::new()),
        [set] => set,
        _ => return Err(Code::UNSUPPORTED),
    };
    own(context)?;
    data(set)
}

fn data(set: &[[u32; 2]]) -> Answer<Vec<u8>> {
    let count = u32::try_from(set.len()).map_err(|_| Code::INVALID)?;
    let address = set.as_ptr().expose_provenance() as u64;
    // One set follows: its address, and the number of its counters.
    let mut data = [1_u32.to_ne_bytes(), [0; 4]].concat();
    data.extend_from_slice(&address.to_ne_bytes());
    data.extend_from_slice(&count.to_ne_bytes());
    data.extend_from_slice(&[0; 4]);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_named_by_its_address_and_length() {
        let set = [[0, 3], [1, 4]];
        let data = data(&set).unwrap();
        assert_eq!(data.len(), 24);
        assert_eq!(data[..8], [1_u32.to_ne_bytes(), [0; 4]].concat());
        let address = set.as_ptr().addr() as u64;
        assert_eq!(data[8..16], address.to_ne_bytes());
        assert_eq!(data[16..20], 2_u32.to_ne_bytes());
    }
}
