//! Ports of bonds, and source ports.

use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
};

use super::*;
use crate::prm::{CAP_REPLY_LEN, Mailbox, field};
use crate::qp::LagPort;

/// The script answers queries of capabilities and of the bond alike: the fields lie apart.
fn firmware(bench: &Bench, change: impl FnOnce(&mut Mailbox)) {
    let mut reply = Mailbox::new(CAP_REPLY_LEN);
    change(&mut reply);
    bench
        .kernel
        .answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, reply.as_bytes());
}

/// Two ports, of which the second one's packets leave by the first.
fn bonded(reply: &mut Mailbox) {
    reply.set(field(0x5c, 3, 0), 2);
    reply.set(field(0x38, 13, 13), 1);
    reply.set(field(0x38, 14, 14), 1);
    reply.set(field(0x08, 2, 0), 1);
    reply.set(field(0x0c, 3, 0), 1);
    reply.set(field(0x0c, 11, 8), 1);
}

/// What the firmware was told of a queue pair.
fn told(bench: &Bench) -> Vec<u8> {
    let inputs = bench
        .kernel
        .take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    inputs.into_iter().rfind(|bytes| bytes.len() > 16).unwrap()
}

fn is_unsupported<T: std::fmt::Debug>(done: Result<T>) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_connection_moves_to_another_port_of_its_bond() {
    let bench = Bench::new();
    let mut qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Uc))
        .unwrap();
    ready(&mut qp);
    firmware(&bench, |_| ());
    is_unsupported(qp.lag_port());
    is_unsupported(qp.set_lag_port(1));
    firmware(&bench, bonded);
    // The script's queue pair is configured for no port.
    is_unsupported(qp.lag_port());
    let mut reply = Mailbox::new(0x110);
    reply.set(field(0x18, 27, 24), 2);
    bench
        .kernel
        .answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, reply.as_bytes());
    let expected = LagPort {
        configured: 2,
        active: 1,
    };
    assert_eq!(qp.lag_port().unwrap(), expected);
    // 17 and 18 would be 1 and 2 in the device's field.
    for port in [0, 3, 17, 18, u8::MAX] {
        let error = qp.set_lag_port(port).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{port}: {error}");
    }
    told_nothing(&bench);
    qp.set_lag_port(1).unwrap();
    let told = told(&bench);
    let mut expected = vec![0; 0x1d0];
    expected[..2].copy_from_slice(&[5, 5]);
    expected[10..12].copy_from_slice(&[1, 0x23]);
    expected[0x12] = 0x80;
    expected[0x18] = 1;
    assert_eq!(told, expected);
}

fn told_nothing(bench: &Bench) {
    let inputs = bench
        .kernel
        .take_inputs(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    assert!(inputs.iter().all(|bytes| bytes.len() != 0x1d0));
}

#[test]
fn a_connection_gets_another_source_port() {
    let bench = Bench::new();
    let mut qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Uc))
        .unwrap();
    firmware(&bench, bonded);
    is_unsupported(qp.set_udp_source_port(0xc123));
    ready(&mut qp);
    firmware(&bench, |_| ());
    is_unsupported(qp.set_udp_source_port(0xc123));
    told_nothing(&bench);
    firmware(&bench, bonded);
    qp.set_udp_source_port(0xc123).unwrap();
    let told = told(&bench);
    let mut expected = vec![0; 0x1d0];
    expected[..2].copy_from_slice(&[5, 5]);
    expected[10..12].copy_from_slice(&[1, 0x23]);
    expected[0x52..0x54].copy_from_slice(&[0xc1, 0x23]);
    expected[0x10f] = 4;
    assert_eq!(told, expected);
    // Any number is a port of UDP.
    for port in [0, u16::MAX] {
        qp.set_udp_source_port(port).unwrap();
        assert_eq!(self::told(&bench)[0x52..0x54], port.to_be_bytes());
    }
}

#[test]
fn datagrams_have_no_source_port_of_their_own() {
    let bench = Bench::new();
    let mut qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Ud))
        .unwrap();
    firmware(&bench, bonded);
    is_unsupported(qp.set_udp_source_port(1));
}

#[test]
fn a_stream_of_an_initiator_is_reset() {
    let bench = Bench::with(|replies| {
        replies.caps.dci_streams_caps.max_log_num_concurent = 3;
        replies.caps.dci_streams_caps.max_log_num_errored = 1;
    });
    let streams = Streams {
        log_concurrent: 2,
        log_errored: 1,
    };
    let extra = QpExtra::dc_initiator().with_streams(streams);
    let mut qp = bench.create(&extra, &bench.init(QpType::Driver)).unwrap();
    is_unsupported(qp.reset_stream(1));
    ready(&mut qp);
    firmware(&bench, |_| ());
    is_unsupported(qp.reset_stream(1));
    firmware(&bench, |reply| reply.set(field(0x34, 29, 29), 1));
    let error = qp.reset_stream(4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    told_nothing(&bench);
    qp.reset_stream(3).unwrap();
    let told = told(&bench);
    let mut expected = vec![0; 0x1d0];
    expected[..2].copy_from_slice(&[5, 5]);
    expected[8] = 0x80;
    expected[10..12].copy_from_slice(&[1, 0x23]);
    expected[0x10f] = 1;
    expected[0x113] = 3;
    assert_eq!(told, expected);
    let mut plain = bench
        .create(&QpExtra::default(), &bench.init(QpType::Uc))
        .unwrap();
    ready(&mut plain);
    let error = plain.reset_stream(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let one = QpExtra::dc_initiator();
    let mut one = bench.create(&one, &bench.init(QpType::Driver)).unwrap();
    ready(&mut one);
    is_unsupported(one.reset_stream(0));
}
