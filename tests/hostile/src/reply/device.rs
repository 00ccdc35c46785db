//! Commands about the device, its context, and what belongs to no other object.

use uverbs_core::cmd::{
    comp_channel, comp_cntr, context, counters, device, dmabuf, event, flow_action, gid,
};
use uverbs_uapi::ib_user_ioctl_verbs::{
    ib_uverbs_flow_action_esp, ib_uverbs_flow_action_esp_keymat_aes_gcm,
};

use super::Run;

/// Opens a context and asks about the device, as the bytes say.
///
/// # Panics
/// When more comes back than there was room for, or nothing for something.
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
    let (tape, channel) = (&run.tape, &run.channel);
    match tape.byte() % 8 {
        0 | 1 => {
            let fds = [run.fd(), run.fd()];
            let some = tape.flag();
            let request = context::GetContext {
                ucap_fds: if some { &fds } else { &[] },
            };
            run.told(run.with_uhw(|uhw| context::get(channel, &request, uhw)));
        }
        2 => drop(run.told(run.with_uhw(|uhw| context::query(channel, uhw)))),
        3 => drop(run.told(run.with_uhw(|uhw| device::query(channel, uhw)))),
        4 => drop(run.told(comp_channel::create(channel))),
        5 => drop(run.told(event::alloc_async(channel))),
        6 => {
            run.told(event::read_async(channel, run.fd()));
            run.told(event::read_completion(channel, run.fd()));
        }
        _ => {
            let offset = tape.long();
            run.told(run.with_uhw(|uhw| dmabuf::export(channel, offset, uhw)));
        }
    }
}

fn about_ports(run: &Run) {
    let (tape, channel) = (&run.tape, &run.channel);
    match tape.byte() % 5 {
        0 => drop(run.told(device::query_port(channel, tape.word() & 0x1ff))),
        1 => drop(run.told(device::query_port_speed(channel, tape.word()))),
        2 => {
            let room = usize::from(tape.byte());
            let object = tape.half();
            let handles = run.told(device::info_handles(channel, object, room));
            assert!(handles.is_none_or(|handles| handles.len() <= room.max(1)));
        }
        3 => {
            let room = usize::from(tape.byte());
            let table = run.told(gid::query_table(channel, room));
            assert!(table.is_none_or(|table| table.len() <= room.max(1)));
        }
        _ => drop(run.told(gid::query_entry(
            channel,
            tape.byte().into(),
            tape.byte().into(),
        ))),
    }
}

fn about_counters(run: &Run) {
    use comp_cntr::{Change, Entry, Operations};
    let (tape, channel) = (&run.tape, &run.channel);
    let handle = tape.byte().into();
    let entry = tape.one_of(&[Entry::Completions, Entry::Errors]);
    match tape.byte() % 9 {
        0 => drop(run.told(comp_cntr::query_caps(channel))),
        1 => drop(run.told(run.with_uhw(|uhw| comp_cntr::create(channel, uhw)))),
        2 => {
            let change = tape.one_of(&[Change::Set, Change::Increment]);
            let value = tape.long();
            run.told(comp_cntr::modify(channel, handle, entry, change, value));
        }
        3 => drop(run.told(comp_cntr::read(channel, handle, entry))),
        4 => {
            let operations = Operations::from_bits_retain(tape.word() & 0x7f);
            run.told(comp_cntr::attach(channel, 1, handle, operations));
        }
        5 => drop(run.told(comp_cntr::KIND.destroy(channel, handle))),
        6 => drop(run.told(run.with_uhw(|uhw| counters::create(channel, uhw)))),
        7 => {
            let mut values = vec![0; tape.pick(20)];
            let cached = tape.flag();
            run.told(run.with_uhw(|uhw| counters::read(channel, handle, &mut values, cached, uhw)));
        }
        _ => drop(run.told(counters::KIND.destroy(channel, handle))),
    }
}

fn about_actions(run: &Run) {
    use flow_action::{Esp, Replay};
    let (tape, channel) = (&run.tape, &run.channel);
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
        0 => drop(run.told(run.with_uhw(|uhw| flow_action::create_esp(channel, &esp, uhw)))),
        1 => drop(run.told(run.with_uhw(|uhw| flow_action::modify_esp(channel, 1, &esp, uhw)))),
        _ => drop(run.told(flow_action::KIND.destroy(channel, 1))),
    }
}
