//! Asynchronous queries.

use std::io::{ErrorKind as IoErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;

fn object(file: &Arc<UverbsFile>) -> DevxObject {
    let command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 16);
    Devx::new(file).create_harmless(&command, 16, []).unwrap()
}

#[test]
fn a_query_says_how_long_its_reply_may_be_and_has_a_number() {
    let (kernel, file) = Scripted::new();
    let (made, replies) = (object(&file), Devx::new(&file).query_replies().unwrap());
    assert_eq!(kernel.take_calls()[1..], ["+4/+0 +0:new fd"]);
    let command = Mailbox::command(opcode::QUERY_GENERAL_OBJECT, 0, 16);
    let id = native(&0x0102_0304_0506_0708_u64.to_ne_bytes());
    for (length, least) in [(0, 16), (15, 16), (16, 16), (40, 40)] {
        made.query_async(&replies, &command, length, 0x0102_0304_0506_0708)
            .unwrap();
        assert_eq!(
            kernel.take_calls(),
            [format!(
                "+1/+4 +0:obj=1 +1:in={} +2:fd +3:in={id} +4:const={least:#x}",
                native(command.as_bytes())
            )]
        );
    }
}

#[test]
fn a_reply_is_read_whole_with_the_number_of_its_query() {
    let (kernel, file) = Scripted::new();
    let (made, replies) = (object(&file), Devx::new(&file).query_replies().unwrap());
    let command = Mailbox::command(opcode::QUERY_GENERAL_OBJECT, 0, 16);
    made.query_async(&replies, &command, 40, 9).unwrap();
    // A shorter one does not make the buffer smaller.
    made.query_async(&replies, &command, 16, 9).unwrap();
    let mut answer = 9_u64.to_ne_bytes().to_vec();
    answer.extend(reply(0, 0, 0x33));
    answer.extend([0xee; 24]);
    kernel.answer_read(Ok(&answer));
    let read = replies.next().unwrap();
    assert_eq!((read.id, read.reply.as_bytes()), (9, &answer[8..]));
    assert_eq!(read.into_result().unwrap().as_bytes(), &answer[8..]);
    answer.push(0);
    kernel.answer_read(Ok(&answer));
    let error = replies.next().unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::BadReply,
        "there was no room for it"
    );
    kernel.answer_read(Ok(&answer[..7]));
    let error = replies.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    assert!(error.to_string().contains("bytes 7"), "{error}");
    let error = replies.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
}

#[test]
fn a_reply_of_a_query_that_failed_is_an_error() {
    let (kernel, file) = Scripted::new();
    let replies = Devx::new(&file).query_replies().unwrap();
    let mut answer = 5_u64.to_ne_bytes().to_vec();
    answer.extend(reply(5, 0x1234, 0));
    kernel.answer_read(Ok(&answer));
    let error = replies.next().unwrap().into_result().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL));
    assert_eq!(error.op(), Op::DevxReply);
    for fact in ["firmware_status BAD_RESOURCE", "syndrome 0x1234"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
}

#[test]
fn a_channel_waits_on_the_descriptor_that_the_kernel_gave() {
    let (kernel, file) = Scripted::new();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut same = ours.try_clone().unwrap();
    let raw = ours.as_raw_fd();
    kernel.hand_out(ours);
    let replies = Devx::new(&file).query_replies().unwrap();
    assert_eq!(replies.as_fd().as_raw_fd(), raw);
    assert!(!replies.wait(Some(Duration::ZERO)).unwrap());
    theirs.write_all(&[1]).unwrap();
    assert!(replies.wait(Some(Duration::ZERO)).unwrap());
    same.read_exact(&mut [0]).unwrap();
    replies.set_nonblocking().unwrap();
    let error = same.read_exact(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::WouldBlock);
}

#[test]
fn a_kernel_that_gives_no_descriptor_answers_badly() {
    let (kernel, file) = Scripted::new();
    kernel.without_handles();
    for error in [
        Devx::new(&file).query_replies().map(drop).unwrap_err(),
        Devx::new(&file).event_channel(true).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    }
}
