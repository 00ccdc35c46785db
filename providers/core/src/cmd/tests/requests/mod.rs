//! Every struct that is written to the kernel, and every answer, each field by a value of its own.

mod queue_pairs;
mod queues;
mod rest;

use std::fmt::Debug;

use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_dest;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Bench, Script};
use crate::error::Result;
use crate::file::{CommandPath, UverbsFile};
use crate::types::{AddressVector, FlowLabel, Gid, GlobalRoute, Rate};

/// Issues a command by `write(2)` that is answered with `reply`; returns its result and its struct.
#[track_caller]
fn issue<T, Q: FromBytes>(
    key: &'static str,
    reply: &(impl IntoBytes + Immutable),
    command: impl FnOnce(&UverbsFile) -> Result<T>,
) -> (T, Q) {
    let script = Script::new().with_zeros().replying(key, reply.as_bytes());
    let bench = Bench::on_path(script, CommandPath::Write);
    let result = command(&bench.file).unwrap();
    let line = bench.line();
    assert!(line.starts_with(&format!("write {key} ")), "{line}");
    (result, Q::read_from_bytes(&bench.request()).unwrap())
}

/// So that the struct of a command is known by what it is compared with.
#[track_caller]
fn same<T: PartialEq + Debug>(sent: &T, expected: &T) {
    assert_eq!(sent, expected);
}

/// Only zeros in answer.
const NOTHING: [u8; 0] = [];

fn path(number: u8) -> AddressVector {
    let route = GlobalRoute {
        dgid: Gid::from_bytes([number; 16]),
        flow_label: FlowLabel::new(u32::from(number) * 256).unwrap(),
        sgid_index: number + 1,
        hop_limit: number + 2,
        traffic_class: number + 3,
    };
    AddressVector {
        dlid: u16::from(number) * 257,
        sl: number % 16,
        src_path_bits: number + 5,
        static_rate: Rate::from_raw(7),
        port: number + 6,
        grh: Some(route),
    }
}

fn dest(number: u8) -> ib_uverbs_qp_dest {
    ib_uverbs_qp_dest {
        dgid: [number; 16],
        flow_label: u32::from(number) * 256,
        dlid: u16::from(number) * 257,
        reserved: 0,
        sgid_index: number + 1,
        hop_limit: number + 2,
        traffic_class: number + 3,
        sl: number % 16,
        src_path_bits: number + 5,
        static_rate: 7,
        is_global: 1,
        port_num: number + 6,
    }
}
