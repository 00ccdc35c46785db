//! Objects that commands create.

use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT,
};

use super::*;

/// A queue pair with the number 0x12345.
fn object(kernel: &Scripted, file: &Arc<UverbsFile>) -> DevxObject {
    let command = Mailbox::command(opcode::CREATE_QP, 0, 32);
    kernel.answer(
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
        &reply(0, 0, 0x0101_2345),
    );
    Devx::new(file).create_harmless(&command, 16, []).unwrap()
}

#[test]
fn a_number_has_as_many_bits_as_its_kind_of_object() {
    let (kernel, file) = Scripted::new();
    let mut answer = reply(0, 0, 0xff01_2345);
    answer.extend([0x89, 0xab, 0xcd, 0xef]);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &answer);
    for (by, id) in [
        (opcode::CREATE_GENERAL_OBJECT, 0xff01_2345),
        (opcode::CREATE_SCHEDULING_ELEMENT, 0x89ab_cdef),
        (opcode::CREATE_PSV, 0x00ab_cdef),
        (opcode::CREATE_QP, 0x0001_2345),
        (opcode::ALLOC_PD, 0x0001_2345),
    ] {
        let command = Mailbox::command(by, 0, 16);
        let made = Devx::new(&file).create_harmless(&command, 20, []).unwrap();
        assert_eq!(made.id(), id, "{by:#x}");
        assert_eq!(made.reply().as_bytes(), answer);
    }
}

#[test]
fn commands_of_an_object_name_its_handle() {
    let (kernel, file) = Scripted::new();
    let made = object(&kernel, &file);
    assert_eq!((made.id(), made.handle()), (0x1_2345, 1));
    let command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    let change = Mailbox::command(opcode::RTS2RTS_QP, 0, 16);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, &reply(0, 0, 7));
    let asked = made.query(&command, 16).unwrap();
    assert_eq!(asked.as_bytes(), reply(0, 0, 7));
    let mut kept = Mailbox::new(16);
    made.query_into(&command, &mut kept).unwrap();
    assert_eq!(kept.as_bytes(), reply(0, 0, 7));
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, &reply(0, 0, 8));
    let changed = made.modify_harmless(&change, 16).unwrap();
    assert_eq!(changed.as_bytes(), reply(0, 0, 8));
    let created = Mailbox::command(opcode::CREATE_QP, 0, 32);
    let inputs = sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    let expected = [&created, &command, &command, &change];
    assert_eq!(inputs, expected.map(|command| command.as_bytes().to_vec()));
    drop(made);
    let calls = kernel.take_calls();
    let starts: Vec<&str> = calls
        .iter()
        .map(|call| &call[..call.find(" +1").unwrap_or(call.len())])
        .collect();
    assert_eq!(
        starts,
        [
            "+1/+0 +0:new",
            "+1/+3 +0:obj=1",
            "+1/+3 +0:obj=1",
            "+1/+2 +0:obj=1",
            "+1/+1 +0:obj=1",
        ]
    );
}

#[test]
fn what_the_firmware_refuses_of_an_object_is_an_error_with_a_reply() {
    let (kernel, file) = Scripted::new();
    let made = object(&kernel, &file);
    let command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, &reply(5, 0x51, 0));
    let mut kept = Mailbox::new(16);
    let error = made.query_into(&command, &mut kept).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    assert_eq!(error.op(), Op::DevxQuery);
    assert_eq!(kept.status(), Status::BadResource);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, &reply(8, 0x52, 0));
    let error = made.modify_harmless(&command, 16).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
    assert_eq!(error.op(), Op::DevxModify);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &reply(0xf, 0x53, 0));
    let error = Devx::new(&file)
        .create_harmless(&command, 16, [])
        .unwrap_err();
    assert_eq!(error.errno(), Some(Errno::AGAIN), "{error}");
    assert!(error.to_string().contains("syndrome 0x53"), "{error}");
}

#[test]
fn an_object_is_destroyed_after_what_was_created_on_it() {
    let (kernel, file) = Scripted::new();
    let parent = object(&kernel, &file);
    let command = Mailbox::command(opcode::CREATE_QP, 0, 16);
    let Parent(of) = parent.parent();
    let child = Devx::new(&file)
        .create_harmless(&command, 16, [of])
        .unwrap();
    kernel.take_calls();
    let refused = parent.destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
    let id = format!("id {}", 0x1_2345);
    assert!(refused.error.to_string().contains(&id), "{refused}");
    assert_eq!(kernel.take_calls(), [""; 0]);
    child.destroy().unwrap();
    refused.handle.unwrap().destroy().unwrap();
    assert_eq!(kernel.take_calls(), ["+1/+1 +0:obj=2", "+1/+1 +0:obj=1"]);
}
