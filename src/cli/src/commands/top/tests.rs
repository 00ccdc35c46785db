//! Samples, and what is made of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;

use super::rates::Frame;
use super::sample::Sample;
use super::screen::{self, Sort, View};

/// Two samples, put together by hand, of a machine with an mlx5 and an rxe device, two seconds
/// apart. Between them the sequence number of queue pair 17 wraps, a counter is reset, and queue
/// pair 19 is connected.
fn samples() -> (Sample, Sample) {
    serde_json::from_str(include_str!("samples.json")).unwrap()
}

fn frame() -> Frame {
    let (before, now) = samples();
    Frame::between(Some(&before), now)
}

fn approximately(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!(
        (found - expected).abs() < expected.abs() * 1e-6 + 1e-9,
        "{found}, not {expected}"
    );
}

#[test]
fn rates_are_growth_per_second() {
    let frame = frame();
    approximately(frame.interval, 2.0);
    let mlx5 = &frame.devices[0];
    assert_eq!(mlx5.sample.name, "mlx5_0");
    // 250,000,000 words of 4 bytes in 2 s.
    approximately(mlx5.port_rates[0].send_gbit_per_second, 4.0);
    approximately(mlx5.port_rates[0].send_packets_per_second, 500_000.0);
    approximately(mlx5.port_rates[0].errors_per_second, 3.0);
    let rxe = &frame.devices[1];
    assert_eq!(
        rxe.port_rates[0].send_gbit_per_second, None,
        "rxe does not count bytes"
    );
    approximately(rxe.port_rates[0].send_packets_per_second, 1000.0);
}

#[test]
fn sequence_numbers_wrap_counters_are_reset_and_new_connections_have_no_rate() {
    let frame = frame();
    let rxe = &frame.devices[1];
    let of = |id| rxe.queue_rates.iter().find(|rates| rates.id == id).unwrap();
    approximately(of(17).send_packets_per_second, 500.0);
    approximately(of(17).receive_packets_per_second, 498.0);
    assert_eq!(of(19).send_packets_per_second, None);
    assert!(
        !rxe.port_rates[0]
            .counters_per_second
            .contains_key("ack_deferred")
    );
}

#[test]
fn a_device_that_goes_or_comes_is_no_error() {
    let (before, now) = samples();
    let mut without = now.clone();
    without.devices.remove(0);
    let frame = Frame::between(Some(&before), without.clone());
    assert_eq!(frame.devices.len(), 1);
    let mut back = now;
    back.time += 1.0;
    let frame = Frame::between(Some(&without), back);
    assert_eq!(frame.devices[0].port_rates[0].send_packets_per_second, None);
    let empty = Frame::between(
        Some(&before),
        Sample {
            time: 9.0,
            source: super::sample::Source::Netlink,
            devices: Vec::new(),
        },
    );
    let text = screen::lines(&empty, View::default()).join("\n");
    assert!(text.contains("there are no RDMA devices now"), "{text}");
}

#[test]
fn the_screen_is_as_expected() {
    let text = screen::lines(&frame(), View::default()).join("\n") + "\n";
    assert_eq!(text, include_str!("screen.txt"));
}

#[test]
fn queues_are_sorted_and_regions_shown_on_request() {
    let first = |sort, regions| {
        let view = View {
            sort,
            regions,
            ..View::default()
        };
        let lines = screen::lines(&frame(), view);
        let heading = lines
            .iter()
            .position(|line| line.starts_with("DEVICE"))
            .unwrap();
        let line = lines[heading + 1].split_whitespace().map(str::to_owned);
        line.take(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(first(Sort::Rate, false), "mlx5_0 qp 312");
    assert_eq!(first(Sort::Id, false), "mlx5_0 qp 1");
    assert_eq!(first(Sort::Size, true), "mlx5_0 mr 5");
    assert_eq!(first(Sort::Size, false), "mlx5_0 cq 9");
}

#[test]
fn frames_are_valid_json() {
    crate::json::tests::valid("top", &frame()).unwrap();
}

/// What `uverbs top --json -n 3 --interval 2` printed in guests with Linux 6.12, while `uverbs
/// bench write -s 4K` ran on the device:
/// `cargo xtask vm --debian --binary uverbs -- sh`.
const RECORDED: [&str; 1] = [include_str!("recorded/rxe.jsonl")];

/// Rates that were computed again from numbers that were printed may differ in their last digits.
fn is_like(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_like(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| is_like(one, other)))
        }
        _ => one == other,
    }
}

#[test]
fn frames_of_real_kernels_follow_from_their_samples() {
    for text in RECORDED {
        let frames: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(frames.len(), 3);
        let samples: Vec<Sample> = frames
            .iter()
            .map(|frame| serde_json::from_value(frame.clone()).unwrap())
            .collect();
        for at in 1..frames.len() {
            let frame = Frame::between(Some(&samples[at - 1]), samples[at].clone());
            let mut computed = serde_json::to_value(&frame).unwrap();
            computed["version"] = frames[at]["version"].clone();
            assert!(
                is_like(&computed, &frames[at]),
                "{computed}\n{}",
                frames[at]
            );
            crate::json::tests::valid("top", &frame).unwrap();
        }
    }
}

#[test]
fn traffic_of_real_kernels_is_seen() {
    for text in RECORDED {
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let device = &last["devices"][0];
        let rate = |of: &Value| of["send_packets_per_second"].as_f64();
        // The queue pair of the client, whose process is known.
        let queues = device["queues"].as_array().unwrap();
        assert!(
            queues
                .iter()
                .any(|queue| queue["owner"] == "uverbs" && queue["type"] == "RC")
        );
        let rates = device["queue_rates"].as_array().unwrap();
        assert!(
            rates.iter().filter_map(rate).any(|rate| rate > 1.0),
            "{rates:?}"
        );
    }
}
