//! A whole life on a kernel whose answers are modified.

use std::sync::Arc;

use uverbs_core::CommandPath;
use uverbs_fake::{Effect, Profile, When};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_METHOD_CQ_CREATE, UVERBS_METHOD_CQ_DESTROY, UVERBS_METHOD_GET_CONTEXT,
    UVERBS_METHOD_QP_CREATE, UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_PORT,
    UVERBS_METHOD_SRQ_CREATE, UVERBS_OBJECT_CQ, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_QP,
    UVERBS_OBJECT_SRQ,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_CREATE_CQ, IB_USER_VERBS_CMD_CREATE_QP,
    IB_USER_VERBS_CMD_CREATE_SRQ, IB_USER_VERBS_CMD_FLAG_EXTENDED, IB_USER_VERBS_CMD_REG_MR,
    IB_USER_VERBS_CMD_RESIZE_CQ, IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
};

use super::Input;
use crate::{Bench, PATHS, live};

/// Commands whose replies are modified. Excluded are those that reply with a descriptor's number,
/// which must be valid, or a file that belongs to somebody else would be closed.
const COMMANDS: [When; 14] = [
    When::Method(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE),
    When::Method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE),
    When::Method(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE),
    When::Method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT),
    When::Method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY),
    When::Method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT),
    When::Method(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY),
    When::Command(IB_USER_VERBS_CMD_ALLOC_PD),
    When::Command(IB_USER_VERBS_CMD_REG_MR),
    When::Command(IB_USER_VERBS_CMD_RESIZE_CQ),
    When::Command(IB_USER_VERBS_CMD_CREATE_CQ),
    When::Command(IB_USER_VERBS_CMD_CREATE_QP),
    When::Command(IB_USER_VERBS_CMD_CREATE_SRQ),
    When::Command(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE),
];

/// Runs a life on a kernel that answers as the bytes say: first which kernel and which encoding,
/// then modifications.
pub fn ioctl_reply(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let profile = if input.byte().is_multiple_of(2) {
        Profile::v7_2()
    } else {
        Profile::v6_1()
    };
    let path = PATHS
        .get(usize::from(input.byte()) % PATHS.len())
        .copied()
        .unwrap_or(CommandPath::Auto);
    let bench = Bench::new(profile, path);
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let (when, effect) = change(&mut input);
        bench.inject(when, effect);
    }
    // An error is as acceptable as success.
    let _ = live(&bench);
}

fn change(input: &mut Input<'_>) -> (When, Effect) {
    let kind = input.byte();
    let pick = usize::from(input.byte());
    let when = COMMANDS
        .get(pick % COMMANDS.len())
        .copied()
        .unwrap_or(When::Always);
    match kind % 7 {
        0 => (when, Effect::Truncate(input.small() % 256)),
        1 => (when, Effect::Unmarked),
        2 => (when, Effect::Handle(input.word())),
        3 => (When::Map, Effect::ShortMap(input.small())),
        4 => (When::Map, Effect::Poke(input.small() & 0x1fc, input.word())),
        5 => (When::Read, Effect::ShortRead(usize::from(input.byte()))),
        _ => {
            let at = input.small();
            let new = input.take(8).to_vec();
            let rewrite = move |_: u16, bytes: &mut [u8]| {
                let at = at % bytes.len().max(1);
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&new)
                    .for_each(|(byte, new)| *byte = *new);
            };
            (when, Effect::Rewrite(Arc::new(rewrite)))
        }
    }
}
