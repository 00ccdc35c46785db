//! Commands about XRC domains and the objects in them.

use uverbs_core::cmd::{qp, srq, xrcd};

use super::Run;
use super::pair;
use super::receive::create_srq;

/// Opens and closes domains, and creates queues in them, as the bytes say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_xrc(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(one);
}

fn one(run: &Run, which: u8) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match which % 5 {
        0 => {
            let request = xrcd::Open {
                file: tape.maybe(|_| run.fd()),
                create: tape.flag(),
                exclusive: tape.flag(),
            };
            run.examine(run.with_uhw(|uhw| xrcd::open(file, &request, uhw)));
        }
        1 => drop(run.examine(xrcd::KIND.destroy(file, handle))),
        2 => {
            let request = qp::Open {
                xrcd: handle,
                qp_num: tape.word(),
                qp_type: pair::kind(run),
                user_handle: tape.long(),
            };
            run.examine(run.with_uhw(|uhw| qp::open(file, &request, uhw)));
        }
        3 => pair::create(run),
        _ => create_srq(
            run,
            srq::Kind::Xrc {
                xrcd: handle,
                cq: tape.byte().into(),
            },
        ),
    }
}
