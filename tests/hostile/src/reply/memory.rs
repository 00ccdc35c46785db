//! Protection domain and memory commands.

use uverbs_core::cmd::{dm, dmah, mr, mw, pd};
use uverbs_core::types::{AccessFlags, MrAdvice, MrAdviceFlags, MwType, ReregFlags};
use uverbs_uapi::ib_user_verbs::ib_uverbs_sge;

use super::Run;

/// Allocates, registers, changes and releases as the bytes say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_memory(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(|run, which| match which % 3 {
        0 => register(run),
        1 => about_regions(run),
        _ => about_others(run),
    });
}

/// Access flags; some with unnamed bits, of which one is refused and the others are not.
pub(super) fn access(run: &Run) -> AccessFlags {
    AccessFlags::from_bits_retain(run.tape.word() & 0x3ff8_03ff)
}

fn register(run: &Run) {
    let (tape, file) = (&run.tape, &run.file);
    let (start, length, iova) = (tape.long(), tape.long(), tape.long());
    let access = access(run);
    let handle = tape.byte().into();
    match tape.byte() % 4 {
        0 => {
            let request = mr::Register {
                pd: handle,
                start,
                length,
                iova,
                access,
            };
            run.examine(run.with_uhw(|uhw| mr::register(file, &request, uhw)));
        }
        1 => {
            let request = mr::RegisterEx {
                pd: handle,
                source: match tape.flag() {
                    true => mr::Source::Address(start),
                    false => mr::Source::Fd {
                        fd: run.fd(),
                        offset: start,
                    },
                },
                length,
                iova,
                access,
                dma_handle: tape.maybe(crate::Tape::word),
            };
            run.examine(run.with_uhw(|uhw| mr::register_ex(file, &request, uhw)));
        }
        2 => {
            let request = mr::RegisterDmabuf {
                pd: handle,
                fd: run.fd(),
                offset: start,
                length,
                iova,
                access,
            };
            run.examine(run.with_uhw(|uhw| mr::register_dmabuf(file, &request, uhw)));
        }
        _ => {
            let request = mr::RegisterDm {
                pd: handle,
                dm: 3,
                offset: start,
                length,
                access,
            };
            run.examine(mr::register_dm(
                file,
                &request,
                &uverbs_core::sys::Uhw::NONE,
            ));
        }
    }
}

fn about_regions(run: &Run) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match tape.byte() % 4 {
        0 => {
            let request = mr::Reregister {
                mr: handle,
                flags: ReregFlags::from_bits_truncate(tape.byte().into()),
                start: tape.long(),
                length: tape.long(),
                iova: tape.long(),
                pd: 1,
                access: access(run),
            };
            run.examine(run.with_uhw(|uhw| mr::reregister(file, &request, uhw)));
        }
        1 => drop(run.examine(mr::query(file, handle))),
        2 => {
            let ranges = vec![ib_uverbs_sge::default(); tape.pick(5)];
            let request = mr::Advise {
                pd: handle,
                advice: MrAdvice::from_raw((tape.byte() % 4).into()),
                flags: MrAdviceFlags::from_bits_truncate(tape.byte().into()),
                ranges: &ranges,
            };
            run.examine(run.with_uhw(|uhw| mr::advise(file, &request, uhw)));
        }
        _ => drop(run.examine(mr::KIND.destroy(file, handle))),
    }
}

fn about_others(run: &Run) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match tape.byte() % 8 {
        0 => drop(run.examine(run.with_uhw(|uhw| pd::alloc(file, uhw)))),
        1 => drop(run.examine(pd::KIND.destroy(file, handle))),
        2 => {
            let kind = MwType::from_raw(tape.byte() % 4);
            run.examine(run.with_uhw(|uhw| mw::alloc(file, handle, kind, uhw)));
        }
        3 => drop(run.examine(mw::KIND.destroy(file, handle))),
        4 => {
            let (length, alignment) = (tape.long(), tape.word());
            run.examine(run.with_uhw(|uhw| dm::alloc(file, length, alignment, uhw)));
        }
        5 => drop(run.examine(dm::KIND.destroy(file, handle))),
        6 => {
            let request = dmah::Alloc {
                cpu: tape.maybe(crate::Tape::word),
                memory: tape.maybe(|tape| {
                    tape.one_of(&[dmah::MemoryType::Volatile, dmah::MemoryType::Persistent])
                }),
                hint: tape.maybe(crate::Tape::byte),
            };
            run.examine(run.with_uhw(|uhw| dmah::alloc(file, &request, uhw)));
        }
        _ => drop(run.examine(dmah::KIND.destroy(file, handle))),
    }
}
