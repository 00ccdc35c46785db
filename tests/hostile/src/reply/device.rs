//! Commands about the device, its context, and what belongs to no other object.

use uverbs_core::cmd::{
    comp_channel, comp_cntr, context, counters, device, dmabuf, event, flow_action, gid,
};
use uverbs_uapi::ib_user_ioctl_verbs::{
    ib_uverbs_flow_action_esp, ib_uverbs_flow_action_esp_keymat_aes_gcm,
};

use super::Run;

/// Opens a context and queries the device, as the bytes say.
///
/// # Panics
/// If more is returned than there was room for, or the kernel returned nothing and a result was
/// reported.
pub fn reply_device(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    run.commands(|run, which| match which % 4 {
        0 => about_context(run),
        1 => about_ports(run),
        2 => about_counters(run),
        _ => about_actions(run),
    });
}

fn about_context(run: &Run) {
    let (tape, file) = (&run.tape, &run.file);
    match tape.byte() % 8 {
        0 | 1 => {
            let fds = [run.fd(), run.fd()];
            let some = tape.flag();
            let request = context::GetContext {
                ucap_fds: if some { &fds } else { &[] },
            };
            run.examine(run.with_uhw(|uhw| context::get(file, &request, uhw)));
        }
        2 => drop(run.examine(run.with_uhw(|uhw| context::query(file, uhw)))),
        3 => drop(run.examine(run.with_uhw(|uhw| device::query(file, uhw)))),
        4 => drop(run.examine(comp_channel::create(file))),
        5 => drop(run.examine(event::alloc_async(file))),
        6 => {
            run.examine(event::read_async(file, run.fd()));
            run.examine(event::read_completion(file, run.fd()));
        }
        _ => {
            let offset = tape.long();
            run.examine(run.with_uhw(|uhw| dmabuf::export(file, offset, uhw)));
        }
    }
}

fn about_ports(run: &Run) {
    let (tape, file) = (&run.tape, &run.file);
    match tape.byte() % 5 {
        0 => drop(run.examine(device::query_port(file, tape.word() & 0x1ff))),
        1 => drop(run.examine(device::query_port_speed(file, tape.word()))),
        2 => {
            let room = usize::from(tape.byte());
            let object = tape.half();
            let handles = run.examine(device::info_handles(file, object, room));
            assert!(handles.is_none_or(|handles| handles.len() <= room.max(1)));
        }
        3 => {
            let room = usize::from(tape.byte());
            let table = run.examine(gid::query_table(file, room));
            assert!(table.is_none_or(|table| table.len() <= room.max(1)));
        }
        _ => drop(run.examine(gid::query_entry(
            file,
            tape.byte().into(),
            tape.byte().into(),
        ))),
    }
}

fn about_counters(run: &Run) {
    use comp_cntr::{Change, Entry, Operations};
    let (tape, file) = (&run.tape, &run.file);
    let handle = tape.byte().into();
    let entry = tape.one_of(&[Entry::Completions, Entry::Errors]);
    match tape.byte() % 9 {
        0 => drop(run.examine(comp_cntr::query_caps(file))),
        1 => drop(run.examine(run.with_uhw(|uhw| comp_cntr::create(file, uhw)))),
        2 => {
            let change = tape.one_of(&[Change::Set, Change::Increment]);
            let value = tape.long();
            run.examine(comp_cntr::modify(file, handle, entry, change, value));
        }
        3 => drop(run.examine(comp_cntr::read(file, handle, entry))),
        4 => {
            let operations = Operations::from_bits_retain(tape.word() & 0x7f);
            run.examine(comp_cntr::attach(file, 1, handle, operations));
        }
        5 => drop(run.examine(comp_cntr::KIND.destroy(file, handle))),
        6 => drop(run.examine(run.with_uhw(|uhw| counters::create(file, uhw)))),
        7 => {
            let mut values = vec![0; tape.pick(20)];
            let cached = tape.flag();
            run.examine(run.with_uhw(|uhw| counters::read(file, handle, &mut values, cached, uhw)));
        }
        _ => drop(run.examine(counters::KIND.destroy(file, handle))),
    }
}

fn about_actions(run: &Run) {
    use flow_action::{Esp, Replay};
    let (tape, file) = (&run.tape, &run.file);
    let esp = Esp {
        attrs: ib_uverbs_flow_action_esp {
            spi: tape.word(),
            flags: tape.byte().into(),
            ..ib_uverbs_flow_action_esp::default()
        },
        esn: tape.maybe(crate::Tape::word),
        keymat: tape.maybe(|tape| ib_uverbs_flow_action_esp_keymat_aes_gcm {
            iv: tape.long(),
            ..ib_uverbs_flow_action_esp_keymat_aes_gcm::default()
        }),
        replay: tape.maybe(|tape| match tape.byte() {
            0 => Replay::None,
            size => Replay::Bitmap(size.into()),
        }),
    };
    match tape.byte() % 3 {
        0 => drop(run.examine(run.with_uhw(|uhw| flow_action::create_esp(file, &esp, uhw)))),
        1 => drop(run.examine(run.with_uhw(|uhw| flow_action::modify_esp(file, 1, &esp, uhw)))),
        _ => drop(run.examine(flow_action::KIND.destroy(file, 1))),
    }
}
