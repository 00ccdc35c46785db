//! Completion queue commands.

use uverbs_core::cmd::cq;
use uverbs_core::types::CqCreateFlags;

use super::Run;

/// Creates, resizes, polls and destroys completion queues as the bytes say.
///
/// # Panics
/// If more completions are returned than were requested, or the kernel returned nothing and a
/// result was reported.
pub fn reply_cq(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(one);
}

fn one(run: &Run, which: u8) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match which % 6 {
        0 => {
            let request = cq::Create {
                vector: tape.byte().into(),
                comp_channel: tape.maybe(|_| run.fd()),
                flags: CqCreateFlags::from_bits_truncate(tape.byte().into()),
                event_fd: tape.maybe(|_| run.fd()),
                buffer: tape.maybe(|tape| match tape.flag() {
                    true => cq::Buffer::Address {
                        address: tape.long(),
                        length: tape.long(),
                    },
                    false => cq::Buffer::Fd {
                        fd: run.fd(),
                        offset: tape.long(),
                        length: tape.long(),
                    },
                }),
                ..cq::Create::new(tape.word(), tape.long())
            };
            run.examine(run.with_uhw(|uhw| cq::create(file, &request, uhw)));
        }
        1 => {
            let entries = tape.word();
            run.examine(run.with_uhw(|uhw| cq::resize(file, handle, entries, uhw)));
        }
        2 => drop(run.examine(cq::modify(file, handle, tape.half(), tape.half()))),
        3 => {
            let _ = cq::request_notify(file, handle, tape.flag());
        }
        4 => {
            let max = usize::from(tape.byte());
            let polled = run.examine(cq::poll(file, handle, max));
            assert!(polled.is_none_or(|polled| polled.len() <= max));
        }
        _ => drop(run.examine(cq::KIND.destroy(file, handle))),
    }
}
