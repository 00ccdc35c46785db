//! The rate table, row by row.

use proptest::prelude::*;

use crate::types::Rate;

/// Number, multiplier of 2.5 Gb/s, Mb/s: libibverbs' two tables, and the kernel's last row.
const TABLE: [(u8, Option<u32>, u32); 24] = [
    (2, Some(1), 2_500),
    (5, Some(2), 5_000),
    (3, Some(4), 10_000),
    (6, Some(8), 20_000),
    (4, Some(12), 30_000),
    (7, Some(16), 40_000),
    (8, Some(24), 60_000),
    (9, Some(32), 80_000),
    (10, Some(48), 120_000),
    (11, None, 14_062),
    (12, None, 56_250),
    (13, None, 112_500),
    (14, None, 168_750),
    (15, None, 25_781),
    (16, None, 103_125),
    (17, None, 206_250),
    (18, None, 309_375),
    (19, Some(11), 28_125),
    (20, Some(20), 53_125),
    (21, Some(160), 425_000),
    (22, Some(240), 637_500),
    (23, Some(320), 850_000),
    (24, Some(480), 1_275_000),
    (25, Some(640), 1_700_000),
];

#[test]
fn every_row_both_ways() {
    for (raw, multiplier, mbps) in TABLE {
        let rate = Rate::from_raw(raw);
        assert_eq!(rate.multiplier(), multiplier, "{rate}");
        assert_eq!(rate.mbps(), Some(mbps), "{rate}");
        assert_eq!(Rate::from_mbps(mbps), Some(rate));
        if let Some(multiplier) = multiplier {
            assert_eq!(Rate::from_multiplier(multiplier), Some(rate));
        }
    }
    assert_eq!(Rate::ALL.len(), TABLE.len() + 1, "and the port rate");
}

#[test]
fn the_manual_page_example() {
    assert_eq!(Rate::Gbps5.multiplier(), Some(2));
    assert_eq!(Rate::from_multiplier(2), Some(Rate::Gbps5));
}

#[test]
fn the_port_rate_has_no_number() {
    assert_eq!(Rate::default(), Rate::from_raw(0));
    assert_eq!((Rate::Max.multiplier(), Rate::Max.mbps()), (None, None));
    assert_eq!((Rate::from_multiplier(0), Rate::from_mbps(0)), (None, None));
}

proptest! {
    #[test]
    fn rates_outside_the_table_have_no_conversion(raw in any::<u8>(), multiplier in 0..2_000_u32, mbps in any::<u32>()) {
        let rate = Rate::from_raw(raw);
        let row = TABLE.iter().find(|row| row.0 == raw);
        prop_assert_eq!(rate.multiplier(), row.and_then(|row| row.1));
        prop_assert_eq!(rate.mbps(), row.map(|row| row.2));
        let by_multiplier = TABLE.iter().find(|row| row.1 == Some(multiplier));
        prop_assert_eq!(Rate::from_multiplier(multiplier).map(Rate::raw), by_multiplier.map(|row| row.0));
        let by_mbps = TABLE.iter().find(|row| row.2 == mbps);
        prop_assert_eq!(Rate::from_mbps(mbps).map(Rate::raw), by_mbps.map(|row| row.0));
    }
}
