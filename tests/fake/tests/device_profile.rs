//! Devices recorded elsewhere: what a self-test recorded about one is read back, and the fake
//! kernel gives the same answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use fake_tests::{Bench, thinned};
use proptest::prelude::*;
use report::Report;
use serde_json::{Value, json};
use uverbs::recorder::Collector;
use uverbs::{Context, ErrorKind};
use uverbs_core::CommandPath;
use uverbs_core::types::DriverId;
use uverbs_fake::{DeviceProfile, Feature, Profile};

/// What the self-test recorded about an InfiniBand function of the software ConnectX under the
/// stock driver, without its checks.
const CONNECTX: &str = include_str!("golden/connectx.json");

/// The self-test's file for the fake's own device, as far as a profile needs it.
fn report_of(profile: Profile, path: CommandPath) -> (String, Context) {
    let collector = Arc::new(Collector::new());
    let bench = Bench::new(profile, path).recorded_by(Arc::clone(&collector) as Arc<_>);
    let context = bench.context().unwrap();
    context.query_port(1).unwrap();
    let opening: Vec<Value> = collector
        .take()
        .iter()
        .map(|record| serde_json::from_str(&record.to_json(false)).unwrap())
        .collect();
    let (major, minor) = profile.version();
    let report = json!({
        "tool": "uverbs selftest", "version": "0.1.0", "device": "rxe0", "port": 1,
        "facts": {"kernel": format!("{major}.{minor}.3-amd64"), "driver": "rxe", "abi_version": 2},
        "opening": opening, "checks": [], "complete": true, "seconds": 0.1,
    });
    (report.to_string(), context)
}

fn device_of(report: &str) -> DeviceProfile {
    let text = Report::parse(report).unwrap().device().unwrap();
    DeviceProfile::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_device_that_was_found_elsewhere_answers_the_same() {
    for profile in thinned(Profile::ALL.iter().copied(), 4) {
        let (report, first) = report_of(profile, CommandPath::Auto);
        let device = device_of(&report);
        assert_eq!(device.kernel, profile);
        let again = Bench::of_device(device, CommandPath::Auto);
        let context = again.context().unwrap();
        assert_eq!(context.name(), "rxe0");
        assert_eq!(context.device_attr(), first.device_attr());
        assert_eq!(context.query_port(1).unwrap(), first.query_port(1).unwrap());
        assert_eq!(context.completion_vectors(), first.completion_vectors());
        // Its queues are the fake's own.
        context.create_cq(8).unwrap();
        // A report of it is again the same.
        let text = Report::parse(&report).unwrap().device().unwrap();
        assert_eq!(DeviceProfile::parse(&text).unwrap(), device_of(&report));
    }
}

#[test]
fn legacy_commands_say_the_same_as_methods() {
    let (report, first) = report_of(Profile::v6_12(), CommandPath::Write);
    let context = Bench::of_device(device_of(&report), CommandPath::Write);
    let context = context.context().unwrap();
    assert_eq!(context.device_attr(), first.device_attr());
    assert_eq!(context.query_port(1).unwrap(), first.query_port(1).unwrap());
    assert!(context.query_port(2).is_err());
}

#[test]
fn features_are_those_that_were_seen() {
    // A distribution's kernel: an old version with newer methods, and a new one without them.
    let (report, _) = report_of(Profile::v6_12(), CommandPath::Auto);
    let old = report.replace("6.12.3-amd64", "4.18.0-553.el8");
    let device = device_of(&old);
    assert_eq!(device.kernel.version(), (4, 18));
    assert!(device.kernel.has(Feature::ContextMethods));
    assert!(device.kernel.has(Feature::InvokeWrite));
    assert!(!device.kernel.has(Feature::GidMethods));
    let (report, _) = report_of(Profile::v4_20(), CommandPath::Auto);
    let device = device_of(&report.replace("4.20.3-amd64", "6.1.0"));
    assert!(!device.kernel.has(Feature::ContextMethods));
    assert!(!device.kernel.has(Feature::InvokeWrite));
    assert!(device.kernel.has(Feature::QueueMethods));
}

#[test]
fn a_connectx_is_opened_as_it_was_found() {
    let facts: Value = serde_json::from_str(CONNECTX).unwrap();
    let facts = &facts["facts"];
    let device = device_of(CONNECTX);
    assert_eq!(device.driver, DriverId::Mlx5);
    let ports = device.ports.clone();
    let bench = Bench::of_device(device, CommandPath::Auto);
    let context = bench.context().unwrap();
    let attr = context.device_attr();
    assert_eq!(context.firmware_version(), facts["firmware"]);
    assert_eq!(attr.vendor_part_id, facts["vendor_part_id"]);
    assert_eq!(attr.caps.to_string(), facts["capabilities"]);
    assert_eq!(attr.atomic_cap.to_string(), facts["atomics"]);
    assert_eq!(attr.odp.general.to_string(), facts["on_demand_paging"]);
    assert_eq!(context.completion_vectors(), facts["completion_vectors"]);
    assert_eq!(attr.max_pkeys, 128);
    let port = context.query_port(1).unwrap();
    assert!(port.is_active());
    assert_eq!(port.gid_tbl_len, ports[&1].legacy_resp.gid_tbl_len);
    assert!(port.gid_tbl_len > 0);
    let mlx5 = context.mlx5().unwrap();
    assert!(mlx5.caps().max_compressed > 0);
    assert!(mlx5.devx().is_ok());
    // Domains and memory are handled by the core, queues by the driver.
    let pd = context.alloc_pd().unwrap();
    pd.buffers::<1>(4096).unwrap();
    let error = context.create_cq(8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn recorded_refusals_of_contexts_are_repeated() {
    let text = Report::parse(CONNECTX).unwrap().device().unwrap();
    let text = format!("context.refused ENOMEM\n{text}");
    let bench = Bench::of_device(DeviceProfile::parse(&text).unwrap(), CommandPath::Auto);
    // The second attempt is without firmware commands.
    let context = bench.context().unwrap();
    assert!(context.mlx5().unwrap().devx().is_err());
    let again = bench.context().unwrap();
    assert!(again.mlx5().unwrap().devx().is_err());
}

/// A change of a report, and what is said then.
type Change<'a> = (&'a dyn Fn(&mut Value), &'a str);

#[test]
fn a_report_that_cannot_be_a_device_says_why() {
    let said = |change: &dyn Fn(&mut Value)| {
        let mut report: Value = serde_json::from_str(CONNECTX).unwrap();
        change(&mut report);
        let report = Report::parse(&report.to_string()).unwrap();
        format!("{:#}", report.device().unwrap_err())
    };
    let changes: [Change<'_>; 8] = [
        (
            (&|it: &mut Value| it["opening"] = json!([])),
            "no answer to GET_CONTEXT",
        ),
        (&|it| it["facts"] = Value::Null, "no abi_version"),
        (&|it| it["facts"]["kernel"] = "new".into(), "no version"),
        (&|it| it["facts"]["driver"] = Value::Null, "no driver"),
        (
            &|it| it["facts"]["abi_version"] = "1".into(),
            "no abi_version",
        ),
        (&|it| it["device"] = "two\nlines".into(), "no name"),
        (
            &|it| {
                let all = it["opening"].as_array_mut().unwrap();
                all.retain(|command| command["method"] != "UVERBS_METHOD_QUERY_PORT");
            },
            "no answer to QUERY_PORT",
        ),
        (
            &|it| {
                let all = it["opening"].as_array_mut().unwrap();
                all.retain(|command| command["command"] != "IB_USER_VERBS_EX_CMD_QUERY_DEVICE");
            },
            "no answer to QUERY_DEVICE",
        ),
    ];
    for (change, why) in thinned(changes, 4) {
        let said = said(change);
        assert!(said.contains(why), "{said:?} instead of {why:?}");
    }
}

#[test]
fn a_text_that_is_no_device_says_where() {
    let text = Report::parse(CONNECTX).unwrap().device().unwrap();
    let lines = [
        ("colour blue", "nothing is called \"colour\""),
        ("name", "\"name\" has no value"),
        ("driver mlx5", "driver was said already"),
        ("device.colour 1", "has no field \"colour\""),
        ("port.2.lid x", "no number that fits"),
        ("port.2.lid 65536", "too large"),
        ("port.0.lid 1", "of no port"),
        ("port.one.lid 1", "of no port"),
        ("port.2.lid 0x010203", "has 2 bytes"),
        ("port.2.lid 0xzz", "hexadecimal"),
        ("has UVERBS_OBJECT_DEVICE", "no method"),
        ("lacks SOME THING", "no method"),
        ("context.refused OOPS", "no error"),
    ];
    for (line, why) in thinned(lines, 6) {
        let longer = format!("{text}{line}\n");
        let error = DeviceProfile::parse(&longer).unwrap_err().to_string();
        let number = format!("line {}: ", longer.lines().count());
        assert!(error.starts_with(&number), "{line}: {error}");
        assert!(error.contains(why), "{line}: {error}");
    }
    let words = [
        "name",
        "driver",
        "abi_version",
        "kernel",
        "context.num_comp_vectors",
        "device.",
    ];
    for word in thinned(words, 5) {
        let left = text.lines().filter(|line| !line.starts_with(word));
        let without = left.collect::<Vec<_>>().join("\n");
        let error = DeviceProfile::parse(&without).unwrap_err().to_string();
        assert_eq!(error, format!("there is no line for {word}"));
    }
    assert!(DeviceProfile::parse("").is_err());
}

/// Replaces a value in a document, addressed by a path of numbers.
fn change(value: &mut Value, path: &[u8], to: &Value) {
    let Some((step, rest)) = path.split_first() else {
        *value = to.clone();
        return;
    };
    let step = usize::from(*step);
    let inner = match value {
        Value::Array(all) if !all.is_empty() => {
            let len = all.len();
            all.get_mut(step % len)
        }
        Value::Object(all) if !all.is_empty() => {
            let len = all.len();
            all.values_mut().nth(step % len)
        }
        other => Some(other),
    };
    match inner {
        Some(inner) if !rest.is_empty() => change(inner, rest, to),
        Some(inner) => *inner = to.clone(),
        None => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a file contains: it is read, or refused.
    #[test]
    fn no_file_makes_it_panic(
        path in proptest::collection::vec(any::<u8>(), 1..7),
        number in any::<u64>(),
        word in "[ -~\n]{0,12}",
        kind in 0..5,
    ) {
        let mut report: Value = serde_json::from_str(CONNECTX).unwrap();
        let to = match kind {
            0 => Value::Null,
            1 => number.into(),
            2 => word.into(),
            3 => json!([]),
            _ => json!([{"name": word, "direction": "out", "value": number}]),
        };
        change(&mut report, &path, &to);
        if let Ok(report) = Report::parse(&report.to_string())
            && let Ok(text) = report.device()
            && let Ok(device) = DeviceProfile::parse(&text)
        {
            // A device may be unusual; opening it is an error then.
            let _ = Bench::of_device(device, CommandPath::Auto).context();
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "((name|driver|kernel|device\\.|port\\.1\\.|has|context\\.driver_data)[ -~]{0,20}\n){0,6}") {
        let _ = DeviceProfile::parse(&text);
    }
}
