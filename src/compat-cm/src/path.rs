//! Path records: from the form in which the subnet administrator sends them to that of the header.

use uverbs_compat_base::abi::{ibv_gid, ibv_sa_path_rec};
use uverbs_core::cm::PathRecord;

/// The selector of a value that is exactly as given.
const EXACTLY: u8 = 2;

/// Bytes `at` of a record.
fn take<const N: usize>(record: &[u8; 64], at: usize) -> [u8; N] {
    record
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

/// A record for C. What is in network order there is so here, too.
pub(crate) fn to_c(path: &PathRecord) -> ibv_sa_path_rec {
    let record = &path.record;
    let word = |at| u16::from_ne_bytes(take(record, at));
    let gid = |at| ibv_gid {
        raw: take(record, at),
    };
    let [byte_54, byte_55, byte_56] = take(record, 54);
    let [traffic_class, reversible_and_number] = take(record, 48);
    let label_and_hops = u32::from_be_bytes(take(record, 44));
    let [_, hop_limit] = take(record, 46);
    ibv_sa_path_rec {
        dgid: gid(8),
        sgid: gid(24),
        dlid: word(40),
        slid: word(42),
        raw_traffic: 0,
        flow_label: (label_and_hops >> 8).to_be(),
        hop_limit,
        traffic_class,
        reversible: i32::from(reversible_and_number >> 7),
        numb_path: 1,
        pkey: word(50),
        sl: take::<2>(record, 52)[1] & 0xf,
        mtu_selector: EXACTLY,
        mtu: byte_54 & 0x1f,
        rate_selector: EXACTLY,
        rate: byte_55 & 0x1f,
        packet_life_time_selector: EXACTLY,
        packet_life_time: byte_56 & 0x1f,
        preference: (path.flags & 0xff) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_record_has_them() {
        let mut record = [0; 64];
        let counted: [u8; 58] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        record[..58].copy_from_slice(&counted);
        record[49] = 0x83;
        let path = to_c(&PathRecord { flags: 5, record });
        assert_eq!(path.dgid.raw, counted[8..24]);
        assert_eq!(path.sgid.raw, counted[24..40]);
        assert_eq!(path.dlid.to_ne_bytes(), [40, 41]);
        assert_eq!(path.flow_label.to_ne_bytes(), [0, 44, 45, 46]);
        assert_eq!(path.hop_limit, 47);
        assert_eq!((path.traffic_class, path.reversible), (48, 1));
        assert_eq!(path.pkey.to_ne_bytes(), [50, 51]);
        assert_eq!((path.sl, path.mtu), (5, 22));
        assert_eq!((path.rate, path.packet_life_time), (23, 24));
        assert_eq!(path.preference, 5);
    }
}
