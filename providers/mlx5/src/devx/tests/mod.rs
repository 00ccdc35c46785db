//! Firmware commands, on a kernel that answers by a script.
#![allow(clippy::unwrap_used, reason = "tests")]

mod crypto;
mod events;
mod memory;
mod objects;
mod queries;

use uverbs_core::{Errno, ErrorKind};
use zerocopy::IntoBytes as _;

use super::*;
use crate::prm::{Status, field, opcode};
use crate::tests::native;
use crate::tests::scripted::Scripted;

/// A firmware's reply of 16 bytes.
fn reply(status: u8, syndrome: u32, id: u32) -> Vec<u8> {
    let words = [u32::from(status) << 24, syndrome, id, 0];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// The commands that were sent since the last time. For a call without one, what the driver was
/// given is empty, and has the same id.
fn sent(kernel: &Scripted, id: u16) -> Vec<Vec<u8>> {
    let inputs = kernel.take_inputs(id).into_iter();
    inputs.filter(|bytes| !bytes.is_empty()).collect()
}

#[test]
fn numbers_are_those_that_the_kernel_writes() {
    type Query = fn(&Devx, u32) -> Result<u32>;
    let queries: [(Query, u16, &str, &str); 2] = [
        (
            Devx::event_queue,
            MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN,
            "+0/+2",
            "vector 3",
        ),
        (
            Devx::uar_page,
            MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX,
            "+0/+1",
            "index 3",
        ),
    ];
    for (query, answer, method, fact) in queries {
        let (kernel, file) = Scripted::new();
        kernel.answer(answer, &0x1234_u32.to_ne_bytes());
        assert_eq!(query(&Devx::new(&file), 3).unwrap(), 0x1234);
        let asked = format!("{method} +0:in={} +1:out4", native(&3_u32.to_ne_bytes()));
        assert_eq!(kernel.take_calls(), [asked]);
        kernel.refuse("", Errno::INVAL);
        let error = query(&Devx::new(&file), 3).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL));
        assert!(error.to_string().contains(fact), "{error}");
    }
}

#[test]
fn queries_of_capabilities_name_their_group() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    let mut answer = vec![0; CAP_REPLY_LEN];
    answer[CAP_REPLY_LEN - 1] = 0x5a;
    kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &answer);
    assert_eq!(devx.capabilities(0xc).unwrap().as_bytes(), answer);
    assert_eq!(
        sent(&kernel, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN),
        [query_hca_cap(0xc).as_bytes()]
    );
    let calls = kernel.take_calls();
    assert_eq!(calls.len(), 1);
    assert!(calls[0].starts_with("+0/+0 "), "{calls:?}");
    assert!(
        calls[0].ends_with(&format!(":out{CAP_REPLY_LEN}")),
        "{calls:?}"
    );
}

#[test]
fn capabilities_are_those_of_the_reply() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    let mut answer = Mailbox::new(CAP_REPLY_LEN);
    for byte in answer.as_mut_bytes().iter_mut().skip(16) {
        *byte = 0xff;
    }
    kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, answer.as_bytes());
    let general = devx.general_caps().unwrap();
    assert_eq!(general, GeneralCaps::parse(&answer));
    assert!(general.qos);
    let qos = devx.qos_caps(&general).unwrap();
    assert_eq!(qos, QosCaps::parse(&answer));
    assert_ne!(qos, QosCaps::default());
    assert_eq!(
        sent(&kernel, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN),
        [GeneralCaps::query().as_bytes(), QosCaps::query().as_bytes()]
    );
    kernel.take_calls();
    let without = GeneralCaps {
        qos: false,
        ..general
    };
    assert_eq!(devx.qos_caps(&without).unwrap(), QosCaps::default());
    assert_eq!(kernel.take_calls(), [""; 0], "it has none to ask for");
}

#[test]
fn what_the_firmware_refuses_has_its_status_and_syndrome() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    let command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &reply(6, 0x00ab_cdef, 0));
    let mut kept = Mailbox::new(16);
    let error = devx.query_into(&command, &mut kept).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::BUSY));
    assert_eq!(error.op(), Op::DevxCommand);
    let text = error.to_string();
    for fact in [
        "opcode 0x50b",
        "firmware_status RESOURCE_BUSY",
        "syndrome 0xabcdef",
    ] {
        assert!(text.contains(fact), "{text}");
    }
    assert_eq!(
        (kept.status(), kept.syndrome()),
        (Status::Busy, 0x00ab_cdef)
    );
}

#[test]
fn what_the_kernel_refuses_says_why_that_may_be() {
    let command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    for (errno, hint) in [
        (Errno::INVAL, Some("only some opcodes")),
        (Errno::PROTONOSUPPORT, Some("no user contexts (DEVX)")),
        (Errno::NOMEM, None),
        (Errno::TIMEDOUT, None),
    ] {
        let (kernel, file) = Scripted::new();
        kernel.refuse("", errno);
        let error = Devx::new(&file).query(&command, 16).unwrap_err();
        assert_eq!(error.errno(), Some(errno), "{error}");
        let known = error.known_hint().unwrap_or_default();
        match hint {
            Some(hint) => assert!(known.contains(hint), "{error}"),
            None => assert!(!known.contains("DEVX"), "{error}"),
        }
        // Of a command whose outcome is unknown, nothing is added.
        let named = error.to_string().contains("opcode 0x50b");
        assert_eq!(named, !error.outcome_is_unknown(), "{error}");
    }
}

#[test]
fn a_reply_is_at_least_as_long_as_its_header() {
    let (kernel, file) = Scripted::new();
    let command = Mailbox::command(opcode::QUERY_QP, 3, 16);
    kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &reply(0, 0, 0x77));
    let answer = Devx::new(&file).query(&command, 0).unwrap();
    assert_eq!(answer.as_bytes().len(), 16);
    assert_eq!(answer.get(field(8, 31, 0)), 0x77);
}
