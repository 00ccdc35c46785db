//! Numbers as people write and read them.

use std::time::Duration;

use uverbs::link::Mtu;

/// Parses a number of bytes: `64`, `4K`, `4KiB`, `1M`, `2G`; the letters are powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a number of bytes, such as 64, 4K or 1M".to_owned())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        other => return Err(format!("unknown unit '{other}'; use K, M or G (1024s)")),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// As [`parse_size`], for messages: at most 2^31 bytes, the largest message.
pub(crate) fn parse_message_size(text: &str) -> Result<u32, String> {
    u32::try_from(parse_size(text)?)
        .ok()
        .filter(|size| *size <= 1 << 31)
        .ok_or_else(|| "a message has at most 2 GiB".to_owned())
}

/// Parses seconds, optionally with a fraction.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_| "expected a number of seconds, such as 5 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Parses a path MTU.
pub(crate) fn parse_mtu(text: &str) -> Result<Mtu, String> {
    text.parse()
        .ok()
        .and_then(Mtu::from_bytes)
        .ok_or_else(|| "expected 256, 512, 1024, 2048 or 4096".to_owned())
}

/// Bytes with a unit where that is exact: `4 KiB`; never `65,536`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (size, unit) in UNITS {
        if count >= size && count.is_multiple_of(size) {
            return format!("{} {unit}", count / size);
        }
    }
    if count == 1 {
        "1 byte".to_owned()
    } else {
        format!("{count} bytes")
    }
}

/// A count as `f64`, for ratios that are shown with few digits.
#[expect(clippy::cast_precision_loss, reason = "shown with a few digits only")]
pub(crate) fn ratio(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_1024s() {
        assert_eq!(parse_size("64"), Ok(64));
        assert_eq!(parse_size("4K"), Ok(4096));
        assert_eq!(parse_size("4kib"), Ok(4096));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("3G"), Ok(3 << 30));
        for bad in [
            "",
            "K",
            "-1",
            "4X",
            "1.5K",
            "99999999999999999999",
            "17179869184G",
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_end_at_two_gibibytes() {
        assert_eq!(parse_message_size("2G"), Ok(1 << 31));
        assert!(parse_message_size("2147483649").is_err());
    }

    #[test]
    fn seconds_have_fractions_and_an_end() {
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_seconds("2s"), Ok(Duration::from_secs(2)));
        for bad in ["", "-1", "nan", "1e300", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_get_a_unit_only_when_it_is_exact() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(4097), "4097 bytes");
        assert_eq!(bytes(1 << 20), "1 MiB");
    }
}
