//! Commands about shared receive queues, receive work queues and tables of those.

use uverbs_core::cmd::{ind_table, srq, wq};
use uverbs_core::types::SrqModify;

use super::Run;

/// Creates, modifies and destroys them as the bytes say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_receive(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(one);
}

pub(super) fn create_srq(run: &Run, kind: srq::Kind) {
    let tape = &run.tape;
    let request = srq::Create {
        pd: tape.byte().into(),
        kind,
        max_wr: tape.word(),
        max_sge: tape.word(),
        limit: tape.word(),
        user_handle: tape.long(),
        event_fd: tape.maybe(|_| run.fd()),
    };
    run.examine(run.with_uhw(|uhw| srq::create(&run.file, &request, uhw)));
}

fn one(run: &Run, which: u8) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    let number = |tape: &crate::Tape| u32::from(tape.byte());
    match which % 9 {
        0 => {
            let kind = match tape.byte() % 3 {
                0 => srq::Kind::TagMatching {
                    cq: number(tape),
                    max_num_tags: tape.word(),
                },
                _ => srq::Kind::Basic,
            };
            create_srq(run, kind);
        }
        1 => {
            let change = SrqModify {
                max_wr: tape.maybe(crate::Tape::word),
                limit: tape.maybe(crate::Tape::word),
            };
            run.examine(run.with_uhw(|uhw| srq::modify(file, handle, &change, uhw)));
        }
        2 => drop(run.examine(srq::query(file, handle))),
        3 => drop(run.examine(srq::KIND.destroy(file, handle))),
        4 => {
            let request = wq::Create {
                pd: handle,
                cq: number(tape),
                max_wr: tape.word(),
                max_sge: tape.word(),
                flags: wq::Flags::from_bits_truncate(tape.byte().into()),
                user_handle: tape.long(),
                event_fd: tape.maybe(|_| run.fd()),
            };
            run.examine(run.with_uhw(|uhw| wq::create(file, &request, uhw)));
        }
        5 => {
            const STATES: [wq::State; 3] = [wq::State::Reset, wq::State::Ready, wq::State::Error];
            let flags = |tape: &crate::Tape| wq::Flags::from_bits_truncate(tape.byte().into());
            let request = wq::Modify {
                state: tape.maybe(|tape| tape.one_of(&STATES)),
                current: tape.maybe(|tape| tape.one_of(&STATES)),
                flags: tape.maybe(|tape| (flags(tape), flags(tape))),
            };
            run.examine(run.with_uhw(|uhw| wq::modify(file, handle, &request, uhw)));
        }
        6 => drop(run.examine(wq::KIND.destroy(file, handle))),
        7 => {
            let queues = vec![handle; tape.pick(70)];
            run.examine(run.with_uhw(|uhw| ind_table::create(file, &queues, uhw)));
        }
        _ => drop(run.examine(ind_table::KIND.destroy(file, handle))),
    }
}
