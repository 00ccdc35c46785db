//! The timer tables of queue pairs, entry by entry.

use std::time::Duration;

use proptest::prelude::*;

use crate::types::{AckTimeout, FlowLabel, OutOfRange, Psn, RetryCount, RnrRetry, RnrTimer};

/// Milliseconds by code.
const RNR: [&str; 32] = [
    "655.36", "0.01", "0.02", "0.03", "0.04", "0.06", "0.08", "0.12", "0.16", "0.24", "0.32",
    "0.48", "0.64", "0.96", "1.28", "1.92", "2.56", "3.84", "5.12", "7.68", "10.24", "15.36",
    "20.48", "30.72", "40.96", "61.44", "81.92", "122.88", "163.84", "245.76", "327.68", "491.52",
];

/// Wait by code from 1 as documented: unit in nanoseconds, figure, and digits after its point.
const ACK: [(u64, &str); 31] = [
    (1_000, "8.192"),
    (1_000, "16.384"),
    (1_000, "32.768"),
    (1_000, "65.536"),
    (1_000, "131.072"),
    (1_000, "262.144"),
    (1_000, "524.288"),
    (1_000_000, "1.048"),
    (1_000_000, "2.097"),
    (1_000_000, "4.194"),
    (1_000_000, "8.388"),
    (1_000_000, "16.777"),
    (1_000_000, "33.554"),
    (1_000_000, "67.108"),
    (1_000_000, "134.217"),
    (1_000_000, "268.435"),
    (1_000_000, "536.870"),
    (1_000_000_000, "1.07"),
    (1_000_000_000, "2.14"),
    (1_000_000_000, "4.29"),
    (1_000_000_000, "8.58"),
    (1_000_000_000, "17.1"),
    (1_000_000_000, "34.3"),
    (1_000_000_000, "68.7"),
    (1_000_000_000, "137"),
    (1_000_000_000, "275"),
    (1_000_000_000, "550"),
    (1_000_000_000, "1100"),
    (1_000_000_000, "2200"),
    (1_000_000_000, "4400"),
    (1_000_000_000, "8800"),
];

#[test]
fn rnr_table() {
    for (code, millis) in (0..).zip(RNR) {
        let (whole, hundredths) = millis.split_once('.').unwrap();
        let hundredths: u64 =
            whole.parse::<u64>().unwrap() * 100 + hundredths.parse::<u64>().unwrap();
        let timer = RnrTimer::code(code).unwrap();
        assert_eq!(
            timer.duration(),
            Duration::from_micros(hundredths * 10),
            "code {code}"
        );
        assert_eq!(
            RnrTimer::from_duration(timer.duration()),
            Ok(timer),
            "code {code}"
        );
    }
}

#[test]
fn ack_table() {
    for (code, (unit, figure)) in (1..).zip(ACK) {
        let timeout = AckTimeout::code(code).unwrap();
        let wait = timeout.duration().unwrap();
        assert_eq!(wait.as_nanos(), 4_096 << code, "code {code}");
        // The documented figures are cut or rounded: they agree to one unit of their last digit,
        // and the last four, given in whole hundreds, to one half per cent.
        let decimals = figure.split_once('.').map_or(0, |(_, rest)| rest.len());
        let documented = figure.parse::<f64>().unwrap() * f64::from(u32::try_from(unit).unwrap());
        let step =
            f64::from(u32::try_from(unit).unwrap()) / 10_f64.powi(i32::try_from(decimals).unwrap());
        let off = (wait.as_secs_f64() * 1e9 - documented).abs();
        assert!(
            off < step.max(documented * 0.005),
            "code {code}: {wait:?}, documented {figure}"
        );
        assert_eq!(AckTimeout::from_duration(wait), timeout, "code {code}");
    }
}

#[test]
fn defaults() {
    assert_eq!(
        AckTimeout::default().duration(),
        Some(Duration::from_nanos(67_108_864))
    );
    assert_eq!(AckTimeout::default().raw(), 14);
    assert_eq!(AckTimeout::IBVERBS_CRATE.raw(), 4);
    assert_eq!(RnrTimer::default().duration(), Duration::from_micros(2_560));
    assert_eq!(RnrTimer::default().raw(), 16);
    assert_eq!(
        (RetryCount::default().raw(), RnrRetry::default().raw()),
        (6, 6)
    );
    assert!(!RnrRetry::default().is_infinite());
}

#[test]
fn ends_of_the_ack_timeout() {
    assert_eq!(AckTimeout::INFINITE.raw(), 0);
    assert_eq!(AckTimeout::INFINITE.duration(), None);
    assert_eq!(AckTimeout::from_duration(Duration::ZERO).raw(), 1);
    assert_eq!(
        AckTimeout::from_duration(Duration::from_nanos(8_192)).raw(),
        1
    );
    assert_eq!(
        AckTimeout::from_duration(Duration::from_nanos(8_193)).raw(),
        2
    );
    let longest = AckTimeout::MAX.duration().unwrap();
    assert_eq!(AckTimeout::from_duration(longest).raw(), 31);
    assert_eq!(
        AckTimeout::from_duration(longest + Duration::from_nanos(1)),
        AckTimeout::INFINITE
    );
    assert_eq!(
        AckTimeout::from_duration(Duration::MAX),
        AckTimeout::INFINITE
    );
}

#[test]
fn ends_of_the_rnr_timer() {
    let code = |duration| RnrTimer::from_duration(duration).map(RnrTimer::raw);
    assert_eq!(code(Duration::ZERO), Ok(1));
    assert_eq!(code(Duration::from_micros(10)), Ok(1));
    assert_eq!(code(Duration::from_nanos(10_001)), Ok(2));
    assert_eq!(code(Duration::from_micros(491_520)), Ok(31));
    assert_eq!(code(Duration::from_nanos(491_520_001)), Ok(0));
    assert_eq!(code(Duration::from_micros(655_360)), Ok(0));
    let over = code(Duration::from_nanos(655_360_001)).unwrap_err();
    assert_eq!((over.requested, over.max), (655_361, 655_360));
    let ever = code(Duration::MAX).unwrap_err();
    assert_eq!((ever.requested, ever.max), (u64::MAX, 655_360));
}

#[test]
fn refused_where_it_is_set() {
    assert_eq!(
        RetryCount::try_from(8),
        Err(OutOfRange::new("retry count", 8, 7))
    );
    assert_eq!(
        RnrRetry::try_from(8).unwrap_err().to_string(),
        "RNR retry count 8 is out of range (at most 7)"
    );
    assert!(RnrRetry::try_from(7).unwrap().is_infinite());
    assert!(AckTimeout::try_from(32).is_err());
    assert!(RnrTimer::try_from(32).is_err());
    assert!(Psn::try_from(1 << 24).is_err());
    assert!(FlowLabel::try_from(1 << 20).is_err());
}

#[test]
fn values_print_with_their_units() {
    assert_eq!(AckTimeout::INFINITE.to_string(), "infinite");
    assert_eq!(AckTimeout::IBVERBS_CRATE.to_string(), "65.536µs");
    assert_eq!(RnrTimer::default().to_string(), "2.56ms");
    assert_eq!(RnrRetry::INFINITE.to_string(), "infinite");
    assert_eq!(Psn::from_raw(0x12).to_string(), "0x000012");
    assert_eq!(FlowLabel::from_raw(0x12).to_string(), "0x00012");
}

proptest! {
    #[test]
    fn the_smallest_ack_code_that_waits_long_enough(nanos in 0..10_000_000_000_000_u64) {
        let wanted = Duration::from_nanos(nanos);
        let found = AckTimeout::from_duration(wanted);
        prop_assert!(found.duration().is_none_or(|wait| wait >= wanted));
        let shorter_ones = if found == AckTimeout::INFINITE { 1..32 } else { 1..found.raw() };
        for code in shorter_ones {
            prop_assert!(AckTimeout::from_raw(code).duration().unwrap() < wanted);
        }
    }

    #[test]
    fn the_shortest_rnr_wait_that_is_long_enough(nanos in 0..700_000_000_u64) {
        let wanted = Duration::from_nanos(nanos);
        let best = (0..32).map(|code| RnrTimer::from_raw(code).duration()).filter(|wait| *wait >= wanted).min();
        prop_assert_eq!(RnrTimer::from_duration(wanted).ok().map(RnrTimer::duration), best);
    }

    #[test]
    fn narrow_fields(raw in any::<u32>(), byte in any::<u8>()) {
        prop_assert_eq!(Psn::from_raw(raw).raw(), raw & 0x00ff_ffff);
        prop_assert_eq!(Psn::new(raw).is_ok(), raw <= 0x00ff_ffff);
        prop_assert_eq!(FlowLabel::new(raw).is_ok(), raw <= 0x000f_ffff);
        prop_assert_eq!(AckTimeout::code(byte).map(AckTimeout::raw).ok(), (byte < 32).then_some(byte));
        prop_assert_eq!(RnrTimer::code(byte).map(RnrTimer::raw).ok(), (byte < 32).then_some(byte));
        prop_assert_eq!(RetryCount::new(byte).map(RetryCount::raw).ok(), (byte < 8).then_some(byte));
        prop_assert_eq!(RnrRetry::from_raw(byte).raw(), byte & 7);
    }

    #[test]
    fn packet_numbers_wrap(start in any::<u32>(), packets in any::<u32>()) {
        let first = Psn::from_raw(start);
        prop_assert_eq!(first.wrapping_add(packets).since(first), packets & 0x00ff_ffff);
    }
}
