//! Samples, and what is made of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
