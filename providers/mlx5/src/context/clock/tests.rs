#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use uverbs_core::Errno;
use uverbs_core::hw::Pages;
use uverbs_uapi::mlx5_abi::MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;

use super::*;
use crate::tests::scripted::Scripted;

/// 1 GHz with 41 bits, with the parameters that the kernel would choose.
const INFO: ClockInfo = ClockInfo {
    nanoseconds: 1_790_000_000_000_000_000,
    last_cycles: 0x1ff_ffff_fff0,
    fraction: 0,
    multiplier: 1 << 22,
    shift: 22,
    mask: (1 << 41) - 1,
    overflow_period: 1 << 39,
};

#[test]
fn counts_wrap_in_their_bits() {
    assert_eq!(INFO.to_nanoseconds(INFO.last_cycles), INFO.nanoseconds);
    assert_eq!(INFO.to_nanoseconds(5), INFO.nanoseconds + 21);
    assert_eq!(
        INFO.to_nanoseconds(INFO.last_cycles - 7),
        INFO.nanoseconds - 7
    );
    // Bits above the mask have no meaning.
    assert_eq!(INFO.to_nanoseconds(5 | 7 << 41), INFO.nanoseconds + 21);
}

#[test]
fn a_fraction_counts_and_nothing_overflows() {
    let info = ClockInfo {
        fraction: (1 << 22) - 1,
        multiplier: u32::MAX,
        shift: 22,
        mask: u64::MAX,
        last_cycles: 0,
        nanoseconds: 0,
        overflow_period: 0,
    };
    assert_eq!(info.to_nanoseconds(0), 0);
    assert_eq!(info.to_nanoseconds(1), 1024);
    // The product does not fit in 64 bits.
    assert_eq!(info.to_nanoseconds(1 << 40), u64::from(u32::MAX) << 18);
    // Nonsensical parameters from the kernel must not cause a panic.
    let nonsense = ClockInfo { shift: 200, ..info };
    let _ = nonsense.to_nanoseconds(u64::MAX / 2);
    assert_eq!(ClockInfo::default().to_nanoseconds(77), 0);
}

#[test]
fn a_device_that_keeps_the_time_of_day_writes_seconds_and_nanoseconds() {
    assert_eq!(of_day((3 << 32) + 999_999_999), 3_999_999_999);
    let _ = of_day(u64::MAX);
}

proptest! {
    #[test]
    fn to_nanoseconds_agrees_with_the_kernel(
        count in any::<u64>(), last in any::<u64>(), mult in 1_u32..1 << 24, fraction in 0_u64..1 << 20,
    ) {
        let info = ClockInfo {
            nanoseconds: 1 << 60,
            last_cycles: last,
            fraction,
            multiplier: mult,
            shift: 20,
            mask: (1 << 40) - 1,
            overflow_period: 0,
        };
        // `timecounter_cyc2time`, whose 64 bits suffice for these values.
        let after = count.wrapping_sub(last) & info.mask;
        let expected = if after > info.mask / 2 {
            let before = last.wrapping_sub(count) & info.mask;
            info.nanoseconds - ((before * u64::from(mult) - fraction) >> 20)
        } else {
            info.nanoseconds + ((after * u64::from(mult) + fraction) >> 20)
        };
        prop_assert_eq!(info.to_nanoseconds(count), expected);
    }
}

/// A page as the kernel writes it, with all fields derived from one number.
fn write(pages: &Pages, turn: u32) {
    let sign = turn * 2;
    pages.store_u32(SIGN, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
    fence(Ordering::SeqCst);
    for place in [NANOSECONDS, CYCLES, FRACTION, MASK, OVERFLOW_PERIOD] {
        pages.store(place, u64::from(turn), Ordering::Relaxed);
    }
    pages.store_u32(MULTIPLIER, turn);
    pages.store_u32(MULTIPLIER + 4, turn);
    fence(Ordering::SeqCst);
    pages.store_u32(SIGN, sign + 2);
}

#[test]
fn a_page_is_read_whole_or_not_at_all() {
    let pages = Pages::new(4096).unwrap();
    pages.store_u32(SIGN, MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
    let word = |at| pages.load(at, Ordering::Relaxed);
    assert_eq!(ClockInfo::read(word), None);
    write(&pages, 1);
    let turns = if cfg!(miri) { 50 } else { 20_000 };
    std::thread::scope(|scope| {
        scope.spawn(|| (2..turns).for_each(|turn| write(&pages, turn)));
        let mut seen = 0;
        while seen < turns - 1 {
            let Some(info) = ClockInfo::read(word) else {
                continue;
            };
            let fields = [
                info.last_cycles,
                info.fraction,
                info.mask,
                info.overflow_period,
                info.multiplier.into(),
                info.shift.into(),
            ];
            assert_eq!(fields, [info.nanoseconds; 6]);
            assert!(info.nanoseconds >= seen.into());
            seen = u32::try_from(info.nanoseconds).unwrap();
        }
    });
}

/// A context whose device has a counter at `offset` of its page, and these versions of the
/// conversion.
fn with_clock(offset: Option<u64>, versions: u8) -> (Arc<Scripted>, Context) {
    Scripted::context_with(|replies| {
        let (opened, device) = (&mut replies.opened, &mut replies.device);
        if let Some(offset) = offset {
            opened.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
            opened.hca_core_clock_offset = offset;
        }
        opened.clock_info_versions = versions;
        device.hca_core_clock = 156_250;
    })
}

/// How the pages of the counter and of the conversion are mapped.
fn maps() -> [String; 2] {
    [
        (MLX5_IB_MMAP_CORE_CLOCK, 0),
        (MLX5_IB_MMAP_CLOCK_INFO, MLX5_IB_CLOCK_INFO_V1),
    ]
    .map(|(command, index)| format!("map {:#x} {}", mmap::offset(command, index), page_size()))
}

/// Two words of four bytes as they lie in memory.
fn word(first: u32, second: u32) -> u64 {
    let bytes = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes(bytes.as_flattened().try_into().unwrap())
}

#[test]
fn pages_are_mapped_once_and_read_in_place() {
    let (kernel, context) = with_clock(Some(3 * page_size() as u64 + 56), 1);
    let count = 0x0102_0304_0506_0708_u64;
    let words = [word(4, 0), 11, 12, 13, word(14, 15), 16, 17, count.to_be()];
    kernel.fill_pages(&words);
    let clock = context.clock().unwrap();
    assert_eq!(kernel.take_calls(), maps());
    assert_eq!(clock.count().unwrap(), count);
    assert_eq!(clock.frequency_khz(), 156_250);
    let info = ClockInfo {
        nanoseconds: 11,
        last_cycles: 12,
        fraction: 13,
        multiplier: 14,
        shift: 15,
        mask: 16,
        overflow_period: 17,
    };
    assert_eq!(clock.info().unwrap(), info);
    kernel.fill_pages(&[]);
    let again = context.clock().unwrap();
    assert_eq!(again.info().unwrap(), info);
    assert_eq!(again.count().unwrap(), count);
    assert_eq!(kernel.take_calls(), [""; 0], "they are mapped already");
}

#[test]
fn what_a_device_or_kernel_lacks_is_not_mapped() {
    let [counter, conversion] = maps();
    let (kernel, context) = with_clock(Some(0), 0b10);
    let clock = context.clock().unwrap();
    assert_eq!(kernel.take_calls(), [counter]);
    clock.count().unwrap();
    let error = clock.info().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.known_hint().unwrap().contains("does not convert"));

    let (kernel, context) = with_clock(None, 0b11);
    let clock = context.clock().unwrap();
    assert_eq!(kernel.take_calls(), [conversion]);
    clock.info().unwrap();
    let error = clock.count().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.known_hint(), Some("no register"));

    let (kernel, context) = with_clock(None, 0b10);
    let error = context.clock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.op(), Op::MapClock);
    assert_eq!(kernel.take_calls(), [""; 0]);
}

#[test]
fn a_page_that_the_kernel_does_not_map_is_one_that_is_not_there() {
    let [counter, conversion] = maps();
    let (kernel, context) = with_clock(Some(0), 1);
    kernel.refuse(&counter, Errno::OPNOTSUPP);
    let clock = context.clock().unwrap();
    assert_eq!(clock.count().unwrap_err().kind(), ErrorKind::Unsupported);
    clock.info().unwrap();
    kernel.accept();
    kernel.refuse(&counter, Errno::NOMEM);
    let error = context.clock().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
    kernel.accept();
    context.clock().unwrap().count().unwrap();

    let (kernel, context) = with_clock(Some(0), 1);
    kernel.refuse(&conversion, Errno::OPNOTSUPP);
    let clock = context.clock().unwrap();
    assert_eq!(clock.info().unwrap_err().kind(), ErrorKind::Unsupported);
    clock.count().unwrap();

    let (kernel, context) = with_clock(Some(0), 1);
    kernel.refuse("map", Errno::OPNOTSUPP);
    let error = context.clock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_register_that_is_not_in_its_page_is_a_bad_reply() {
    for offset in [page_size() - 4, page_size() - 7, 2] {
        let (_, context) = with_clock(Some(offset as u64), 0);
        let error = context.clock().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{offset}: {error}");
    }
    let (_, context) = with_clock(Some(page_size() as u64 - 8), 0);
    assert_eq!(context.clock().unwrap().count().unwrap(), 0);
}

#[test]
fn a_page_that_is_always_being_written_is_busy() {
    let (kernel, context) = with_clock(None, 1);
    kernel.fill_pages(&[word(5, 0)]);
    let error = context.clock().unwrap().info().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(error.op(), Op::ReadClock);
}

#[test]
fn a_page_that_was_written_meanwhile_is_not_used() {
    let signs = std::cell::Cell::new(0);
    let changing = |at| {
        signs.set(signs.get() + 2);
        Some(if at == SIGN { word(signs.get(), 0) } else { 1 })
    };
    assert_eq!(ClockInfo::read(changing), None);
    let short = |at| (at < OVERFLOW_PERIOD).then_some(0);
    assert_eq!(
        ClockInfo::read(short),
        None,
        "the page ends before its fields"
    );
}
