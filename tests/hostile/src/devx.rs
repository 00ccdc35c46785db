//! Firmware commands, on a kernel that makes up the firmware's replies.
//!
//! # Safety
//!
//! There is no device: what a command sets up uses no memory at all.
#![allow(unsafe_code, reason = "gives firmware commands to nobody")]

use uverbs_core::Result;
use uverbs_core::hw::Pages;
use uverbs_core::types::AccessFlags;
use uverbs_mlx5::devx::{Devx, DevxObject};
use uverbs_mlx5::pacing::RateLimit;
use uverbs_mlx5::prm::Mailbox;
use uverbs_mlx5::sched::Scheduler;

use crate::reply::Run;
use crate::tree;

pub(crate) fn create(devx: &Devx, command: &Mailbox, reply_len: usize) -> Result<DevxObject> {
    // SAFETY: there is no device that could use anything.
    unsafe { devx.create(command, reply_len, []) }
}

/// Sends commands, and creates and destroys objects, pages, registered memory and schedules, as the
/// bytes say.
///
/// # Panics
/// If the kernel returned nothing and a result was reported.
pub fn reply_devx(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    let devx = Devx::new(&run.file);
    let mut objects: Vec<DevxObject> = Vec::new();
    run.commands(|run, which| match which % 4 {
        0 => ask(run, &devx),
        1 => {
            let command = mailbox(run);
            let made = create(&devx, &command, usize::from(run.tape.byte()));
            objects.extend(run.examine(made));
        }
        2 => use_one(run, &mut objects),
        _ => others(run, &devx),
    });
    run.liar.settle();
}

fn mailbox(run: &Run) -> Mailbox {
    let tape = &run.tape;
    let mut command = Mailbox::command(tape.half(), tape.half(), usize::from(tape.byte()));
    let bytes = command.as_mut_bytes();
    if let Some(rest) = bytes.get_mut(8..) {
        tape.fill(rest);
    }
    command
}

fn ask(run: &Run, devx: &Devx) {
    let tape = &run.tape;
    match tape.byte() % 6 {
        0 => {
            let command = mailbox(run);
            // SAFETY: as in `create`.
            let reply = unsafe { devx.command(&command, usize::from(tape.byte())) };
            if let Some(reply) = run.examine(reply) {
                let _ = (reply.status(), reply.syndrome(), reply.opcode());
            }
        }
        1 => drop(run.examine(devx.capabilities(tape.half()))),
        2 => {
            let general = run.examine(devx.general_caps());
            if let Some(general) = general {
                run.examine(devx.qos_caps(&general));
            }
        }
        3 => drop(run.examine(devx.event_queue(tape.word()))),
        4 => drop(run.examine(devx.uar_page(tape.word()))),
        _ => {
            let limit = RateLimit::kbps(tape.word()).max_burst(tape.word());
            if let Some(entry) = run.examine(devx.pace(&limit, tape.flag())) {
                let _ = entry.index();
                let _ = entry.free();
            }
        }
    }
}

fn use_one(run: &Run, objects: &mut Vec<DevxObject>) {
    if objects.is_empty() {
        return;
    }
    let at = run.tape.pick(objects.len());
    let command = mailbox(run);
    let len = usize::from(run.tape.byte());
    match run.tape.byte() % 3 {
        0 => drop(run.examine(objects[at].query(&command, len))),
        1 => {
            // SAFETY: as in `create`.
            let reply = unsafe { objects[at].modify(&command, len) };
            run.examine(reply);
        }
        _ => {
            if let Err(refused) = objects.swap_remove(at).destroy() {
                let _ = refused.to_string();
                objects.extend(refused.handle.map(|object| *object));
            }
        }
    }
}

fn others(run: &Run, devx: &Devx) {
    let tape = &run.tape;
    match tape.byte() % 3 {
        0 => {
            if let Some(uar) = run.examine(devx.uar(tape.flag())) {
                let (offset, len) = (usize::from(tape.half()), usize::from(tape.byte()));
                if let Some(register) = run.examine(uar.register(offset, len))
                    && len >= 8
                {
                    register.store(tape.long());
                }
            }
        }
        1 => {
            let Ok(pages) = Pages::new(4096) else { return };
            let pages = std::sync::Arc::new(pages);
            if let Some(umem) = run.examine(devx.register_pages(&pages, AccessFlags::LOCAL_WRITE)) {
                let _ = umem.deregister();
            }
        }
        _ => {
            let Some(scheduler) = run.examine(Scheduler::new(devx.clone())) else {
                return;
            };
            let mut applied = uverbs_mlx5::sched::Applied::new(scheduler);
            for _ in 0..=tape.pick(3) {
                if let Err(error) = applied.apply(&tree::tree(tape)) {
                    let _ = error.to_string();
                }
            }
            let _ = applied.clear();
        }
    }
}
