//! Firmware commands, their objects, and UAR pages.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;

use anyhow::bail;
use rustix::event::{EventfdFlags, eventfd};
use uverbs::AccessFlags;
use uverbs::mlx5::devx::{EventType, UmemInit, UmemMemory};
use uverbs::mlx5::prm::{Mailbox, bit, field, opcode, word};

use super::Stage;

/// The control socket of the software ConnectX.
const MODEL: &str = "/dev/virtio-ports/testbed.connectx";
const MODIFY_CQ: u16 = 0x403;
/// The capability group of Ethernet ports.
const ETHERNET: u16 = 1;
const USER_DATA: u64 = 0x77;

impl Stage {
    /// Capabilities, a completion queue created by commands, asynchronous replies, events.
    pub(crate) fn firmware(&self) -> anyhow::Result<()> {
        let devx = self.context.mlx5()?.devx()?;
        let descriptor = eventfd(0, EventfdFlags::empty())?;
        devx.capabilities(ETHERNET)?;
        let event_queue = devx.event_queue(0)?;
        let init = UmemInit {
            memory: UmemMemory::Process {
                address: self.memory.addr() as u64,
                length: 8192,
            },
            access: AccessFlags::LOCAL_WRITE,
            // Any.
            page_sizes: Some(!0xfff),
        };
        // SAFETY: see the program's paragraph.
        let umem = unsafe { devx.register(&init, ()) }?;
        let uar = devx.uar(false)?;

        // 64 entries, followed by the record.
        let mut create = Mailbox::command(opcode::CREATE_CQ, 0, 0x110);
        create.set(bit(0x10, 25), 1);
        create.set(word(0x14), umem.id());
        create.set(field(0x1c, 28, 24), 6);
        create.set(field(0x1c, 23, 0), uar.id());
        create.set(field(0x24, 7, 0), event_queue);
        create.set(word(0x4c), 4096);
        create.set(word(0x58), umem.id());
        create.set(bit(0x5c, 31), 1);
        let parents = [umem.parent()].into_iter().chain(uar.parent());
        // SAFETY: see the program's paragraph.
        let cq = unsafe { devx.create(&create, 16, parents) }?;

        let mut query = Mailbox::command(opcode::QUERY_CQ, 0, 16);
        query.set(field(0x08, 23, 0), cq.id());
        cq.query(&query, 0x110)?;
        // Moderation.
        let mut modify = Mailbox::command(MODIFY_CQ, 0, 0x110);
        modify.set(field(0x08, 23, 0), cq.id());
        modify.set(word(0x0c), 3);
        modify.set(word(0x20), 5 << 16 | 4);
        // SAFETY: see the program's paragraph.
        unsafe { cq.modify(&modify, 16) }?;

        let replies = devx.query_replies()?;
        cq.query_async(&replies, &query, 64, USER_DATA)?;
        replies.next()?.into_result()?;
        drop(replies);

        let (channel, silent) = (devx.event_channel(false)?, devx.event_channel(true)?);
        let (port, error) = (EventType::PortChange, EventType::CompletionQueueError);
        channel.subscribe(Some(&cq), &[error], USER_DATA)?;
        channel.subscribe(None, &[port], USER_DATA + 1)?;
        silent.subscribe(None, &[port], USER_DATA + 2)?;
        silent.subscribe_eventfd(Some(&cq), &[error], descriptor.as_fd())?;
        change_of_the_port()?;
        channel.next()?;
        silent.next()?;
        drop(silent);
        drop(channel);

        cq.destroy()?;
        drop(uar);
        umem.deregister()?;
        Ok(())
    }

    /// UAR pages, with and without write combining.
    pub(crate) fn pages(&self) -> anyhow::Result<()> {
        let devx = self.context.mlx5()?.devx()?;
        let plain = devx.uar(false)?;
        drop(devx.uar(true));
        drop(plain);
        Ok(())
    }
}

/// Makes the model report on the first function's port that its clients should register again.
fn change_of_the_port() -> anyhow::Result<()> {
    let mut model = OpenOptions::new().read(true).write(true).open(MODEL)?;
    model.write_all(b"event 0 client-reregister 0\n")?;
    let mut said = String::new();
    BufReader::new(model).read_line(&mut said)?;
    if said.trim() != "ok" {
        bail!("the model says {said}");
    }
    Ok(())
}
