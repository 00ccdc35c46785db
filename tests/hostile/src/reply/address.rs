//! Address handle, multicast and flow commands.

use uverbs_core::cmd::{ah, flow, mcast};
use uverbs_core::types::{AddressVector, FlowLabel, Gid, GlobalRoute, Rate};

use super::Run;

pub(super) fn vector(run: &Run) -> AddressVector {
    let tape = &run.tape;
    AddressVector {
        dlid: tape.half(),
        sl: tape.byte() % 17,
        src_path_bits: tape.byte() & 0x7f,
        static_rate: Rate::from_raw(tape.byte() % 27),
        port: tape.byte(),
        grh: tape.maybe(|tape| {
            let mut gid = [0; 16];
            tape.fill(&mut gid);
            GlobalRoute {
                flow_label: FlowLabel::from_raw(tape.word()),
                traffic_class: tape.byte(),
                ..GlobalRoute::new(Gid::from_bytes(gid), tape.byte())
            }
        }),
    }
}

/// Creates and destroys address handles and flows, joins and leaves groups, as the bytes say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_address(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(one);
}

fn one(run: &Run, which: u8) {
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    match which % 5 {
        0 => {
            let vector = vector(run);
            let cookie = tape.long();
            run.examine(run.with_uhw(|uhw| ah::create(file, handle, &vector, cookie, uhw)));
        }
        1 => drop(run.examine(ah::KIND.destroy(file, handle))),
        2 => {
            let mut gid = [0; 16];
            tape.fill(&mut gid);
            let gid = Gid::from_bytes(gid);
            run.examine(mcast::attach(file, handle, &gid, tape.half()));
            run.examine(mcast::detach(file, handle, &gid, tape.half()));
        }
        3 => {
            let specs = tape.take(usize::from(tape.byte()));
            let request = flow::Create {
                qp: handle,
                kind: tape.one_of(&[
                    flow::Kind::Normal,
                    flow::Kind::AllDefault,
                    flow::Kind::MulticastDefault,
                    flow::Kind::Sniffer,
                ]),
                priority: tape.half(),
                port: tape.byte(),
                flags: flow::Flags::from_bits_truncate(tape.word()),
                specs: &specs,
            };
            run.examine(run.with_uhw(|uhw| flow::create(file, &request, uhw)));
        }
        _ => drop(run.examine(flow::KIND.destroy(file, handle))),
    }
}
