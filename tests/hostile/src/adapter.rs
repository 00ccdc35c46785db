//! The mlx5 provider on a hostile kernel and on a hostile device.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use fake_tests::Bench;
use uverbs::attr::DriverId;
use uverbs::discover::DriverMatch;
use uverbs::link::Mtu;
use uverbs::mlx5::{Entries, Results};
use uverbs::{CompletionQueue, Context, OpenOptions, ProtectionDomain, QpType, owned};
use uverbs_core::sys::Kernel;
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_MLX5;

use crate::liar::{Liar, descriptor};
use crate::mlx5::{Adapter, ENTRY, Ring};
use crate::tape::Tape;

/// A kernel with an mlx5 device that carries out every command and completes nothing.
pub fn mlx5_kernel() -> Arc<dyn Kernel> {
    Arc::new(Adapter::default())
}

pub(crate) fn open(kernel: Arc<dyn Kernel>) -> Option<Context> {
    open_by(OpenOptions::new(), kernel)
}

fn open_by(options: OpenOptions, kernel: Arc<dyn Kernel>) -> Option<Context> {
    open_mlx5(options.kernel(kernel)).ok()
}

/// Opens an mlx5 device on the kernel that `options` name.
///
/// # Errors
/// Those of opening it.
pub fn open_mlx5(options: OpenOptions) -> uverbs::Result<Context> {
    let mut info = Bench::newest().fake.device_info();
    info.driver = DriverMatch::Kernel(DriverId::from_raw(RDMA_DRIVER_MLX5));
    info.abi_version = Some(1);
    let fd =
        descriptor().map_err(|errno| uverbs::Error::os(uverbs::error::Op::OpenDevice, errno))?;
    options.over(info, fd)
}

/// Opens an mlx5 device on a kernel whose every answer is made up, and creates and destroys objects
/// of it.
pub fn mlx5_context(bytes: &[u8]) {
    let tape = Arc::new(Tape::new(bytes));
    let liar = Liar::new(&tape);
    let Some(context) = open(Arc::new(liar.clone())) else {
        return;
    };
    let _ = format!("{:?} {}", context.device_attr(), context.firmware_version());
    if let Ok(adapter) = context.mlx5() {
        let _ = format!("{:?}", adapter.caps());
    }
    for _ in 0..16 {
        if tape.is_empty() {
            break;
        }
        let Ok(pd) = context.alloc_pd() else { continue };
        let Ok(mut cq) = context.create_cq(1 + u32::from(tape.byte())) else {
            continue;
        };
        let srq = pd.create_srq(1 + u32::from(tape.byte()), 1 + u32::from(tape.byte() % 8));
        let kind = tape.one_of(&[QpType::Rc, QpType::Uc, QpType::Ud]);
        let mut builder = pd
            .queue_pair(kind, &cq, &cq)
            .max_send_wr(tape.byte().into());
        if let Ok(srq) = &srq {
            builder = builder.srq(srq);
        }
        if let Ok(prepared) = builder.build() {
            let endpoint = prepared.endpoint();
            let _ = prepared.handshake(endpoint).map(|mut qp| qp.query());
        }
        let _ = cq.poll();
        let _ = cq.resize(tape.byte().into());
    }
    liar.settle();
}

/// Posts, polls and resizes while the device writes valid entries, invalid ones, and arbitrary
/// bytes anywhere.
///
/// # Panics
/// If a request ends twice, or one ends that was never posted, or a buffer is not returned.
pub fn mlx5_ring(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let adapter = Adapter::default();
    let Some(context) = open(Arc::new(adapter.clone())) else {
        return;
    };
    // Peeked at, not consumed, so that old inputs keep their meaning.
    let compressed = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let Ok((pd, mut cq, mut qp)) = queues(&context, compressed) else {
        return;
    };
    let mut posted = BTreeSet::new();
    let mut produced = 0_usize;
    for next in 0..256_u64 {
        if tape.is_empty() {
            break;
        }
        match tape.byte() % 8 {
            0 | 1 => {
                let Ok([buffer]) = pd.buffers::<1>(16) else {
                    continue;
                };
                // After a doorbell that failed, the queue keeps requests that the device may know
                // of.
                let done = match tape.flag() {
                    true => qp.recv(buffer, next).is_ok(),
                    false => match qp.send(buffer, tape.pick(17), next) {
                        Ok(()) => true,
                        Err(refused) => refused.work.is_none(),
                    },
                };
                if done {
                    posted.insert(next);
                }
            }
            2 | 3 => {
                if let Ok(Some(completion)) = cq.poll()
                    && let Ok(done) = qp.complete(completion)
                {
                    assert!(posted.remove(&done.user_data()), "{done:?} ended twice");
                    assert!(done.len() <= 16, "{done:?}");
                }
            }
            4 | 5 => complete(&adapter, &tape, &mut produced),
            6 => {
                let rings = adapter.rings();
                if !rings.is_empty() {
                    let ring = rings[tape.pick(rings.len())];
                    let offset = usize::from(tape.half()) * 8;
                    adapter.write(&ring, offset, tape.long());
                }
            }
            _ => {
                if tape.byte() % 8 == 1 {
                    let _ = cq.resize(u32::from(tape.byte()));
                }
            }
        }
    }
    let memory = qp.destroy().map(|memory| memory.len());
    assert_eq!(
        memory.ok(),
        Some(posted.len()),
        "every buffer comes back once"
    );
}

pub(crate) fn queues(
    context: &Context,
    compressed: bool,
) -> Result<(ProtectionDomain, CompletionQueue, owned::QueuePair), Box<dyn Error>> {
    let pd = context.alloc_pd()?;
    let entries = Entries {
        compressed: compressed.then_some(Results::Checksum),
        ..Entries::default()
    };
    let cq = context
        .completion_queue(15)
        .entries_of_mlx5(entries)
        .build()?;
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .max_send_wr(8)
        .max_recv_wr(8)
        // Neither port nor device reports its limits.
        .path_mtu(Mtu::B1024)
        .max_rd_atomic(0)
        .build()?;
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint)?);
    Ok((pd, cq, qp))
}

/// Writes an entry where the device would write its next one, usually a possible one.
fn complete(adapter: &Adapter, tape: &Tape, produced: &mut usize) {
    let rings = adapter.rings();
    let rings: Vec<Ring> = rings
        .into_iter()
        .filter(|ring| ring.of_completions)
        .collect();
    let Some(ring) = rings.last() else { return };
    let entries = ring.len() / ENTRY;
    let at = *produced % entries * ENTRY;
    for word in 1..4 {
        adapter.write(ring, at + word * 8, u64::from(tape.byte()).to_be());
    }
    let index = u64::from(tape.byte() % 4);
    adapter.write(
        ring,
        at + 32,
        (index << 32 | u64::from(tape.byte())).to_be(),
    );
    adapter.write(ring, at + 40, u64::from(tape.byte()).to_be());
    adapter.write(ring, at + 48, u64::from(tape.half()).to_be());
    let kind = tape.byte();
    let counter = u64::from(tape.byte() % 16);
    // Some represent several completions: the array is what the second slot already holds, or what
    // comes there next.
    let format = if kind & 0xf0 == 0x30 { 3 << 2 } else { 0 };
    let kind = u64::from(kind % 16);
    let owner = (*produced / entries % 2) as u64 ^ u64::from(tape.byte() == 9);
    let tail = 0x77_u64 << 32 | counter << 16 | kind << 4 | format | owner;
    adapter.write(ring, at + 56, tail.to_be());
    *produced += 1;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::path::PathBuf;

    use uverbs::address::GlobalRoute;
    use uverbs::error::Errno;
    use uverbs::kernel::CommandPath;
    use uverbs::mlx5::{Doorbells, Streams};
    use uverbs::{AddressVector, ErrorKind, Gid, PostError, SendRequest, discover};
    use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;

    use super::*;

    /// Removed on drop.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Otherwise nothing of the rings would be fuzzed.
    #[test]
    fn some_tape_completes_a_request() {
        let adapter = Adapter::default();
        let context = open(Arc::new(adapter.clone())).unwrap();
        let (pd, mut cq, mut qp) = queues(&context, false).unwrap();
        let [buffer] = pd.buffers::<1>(16).unwrap();
        qp.send(buffer, 16, 7).unwrap();
        assert!(cq.poll().unwrap().is_none());
        let ring = adapter.rings();
        assert!(ring.iter().any(|ring| ring.of_completions));
        // Some tape makes it a completion.
        let ended = (0..=255_u8).any(|byte| {
            let tape = Tape::new(&[byte; 64]);
            let mut produced = 0;
            complete(&adapter, &tape, &mut produced);
            let Ok(Some(completion)) = cq.poll() else {
                return false;
            };
            qp.complete(completion)
                .is_ok_and(|done| done.user_data() == 7)
        });
        assert!(ended, "no entry completes the request");
    }

    /// The firmware may have no room for a context with commands, and the driver may report that by
    /// any errno.
    #[test]
    fn contexts_are_opened_without_firmware_commands_too() {
        let open = |adapter| {
            let mut info = Bench::newest().fake.device_info();
            info.driver = DriverMatch::Kernel(DriverId::Mlx5);
            info.abi_version = Some(1);
            let options = OpenOptions::new().kernel(Arc::new(adapter));
            options.over(info, descriptor().unwrap())
        };
        let refusals = [
            Errno::NOMEM,
            Errno::AGAIN,
            Errno::IO,
            Errno::NOSPC,
            Errno::INVAL,
            Errno::PERM,
        ];
        for errno in refusals {
            let context = open(Adapter::refusing(errno, None)).unwrap();
            let error = context.mlx5().unwrap().devx().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{errno}: {error}");
            context.create_cq(4).unwrap();
        }
        // The error is then that with which the plain context is refused.
        let error = open(Adapter::refusing(Errno::NOMEM, Some(Errno::MFILE))).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::MFILE), "{error}");
        let error = open(Adapter::refusing(Errno::INVAL, Some(Errno::PERM))).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    }

    /// Kernels before 5.10 have no command for GIDs; sysfs has their types.
    #[test]
    fn addresses_of_ethernet_ports_need_no_command_for_gids() {
        let mut port = ib_uverbs_query_port_resp_ex::default();
        port.legacy_resp.link_layer = 2;
        let folder = std::env::temp_dir().join(format!("uverbs-gids-{}", std::process::id()));
        let _removed = Folder(folder.clone());
        let mut options = discover::Options::default();
        options.sysfs_root.clone_from(&folder);
        let open = || {
            let options = OpenOptions::new().discover(options.clone());
            open_by(options, Arc::new(Adapter::with_ports(port))).unwrap()
        };
        let context = open();
        let ports = folder.join(format!("class/infiniband/{}/ports/1", context.name()));
        for (file, text) in [
            ("link_layer", "Ethernet\n"),
            ("gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n"),
            ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"),
            ("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            ("gid_attrs/types/0", "IB/RoCE v1\n"),
            ("gid_attrs/types/1", "RoCE v2\n"),
        ] {
            let path = ports.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let peer = context.gid(1, 1).unwrap().unwrap().gid;
        let pd = context.alloc_pd().unwrap();
        let create = |index| pd.create_ah(&AddressVector::global(1, GlobalRoute::new(peer, index)));
        create(0).unwrap();
        create(1).unwrap();
        for index in [2, 3] {
            let error = create(index).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    }

    /// What a virtualised InfiniBand subnet reports about its ports.
    #[test]
    fn ports_may_need_a_global_route() {
        for (flags, local) in [(0, Ok(())), (1, Err(ErrorKind::InvalidInput))] {
            let mut port = ib_uverbs_query_port_resp_ex::default();
            port.legacy_resp.link_layer = 1;
            port.legacy_resp.flags = flags;
            let adapter = Adapter::with_ports(port);
            let context = open(Arc::new(adapter)).unwrap();
            let pd = context.alloc_pd().unwrap();
            for _ in 0..2 {
                let done = pd.create_ah(&AddressVector::local(1, 7));
                assert_eq!(done.map(drop).map_err(|error| error.kind()), local);
            }
            let route = GlobalRoute::new(Gid::from_bytes([7; 16]), 0);
            pd.create_ah(&AddressVector::global(1, route)).unwrap();
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "posts requests, which name no memory")]
    fn initiators_take_requests_of_their_streams_alone() {
        let context = open(Arc::new(Adapter::default())).unwrap();
        let pd = context.alloc_pd().unwrap();
        let way = pd.create_ah(&AddressVector::local(1, 7)).unwrap();
        for (log, count) in [(None, 1), (Some(0), 1), (Some(2), 4), (Some(4), 16)] {
            let cq = context.create_cq(64).unwrap();
            // Neither port nor device reports its limits.
            let mut builder = pd.dc_initiator(&cq).max_send_wr(32).max_inline_data(16);
            builder = builder.path_mtu(Mtu::B1024).max_rd_atomic(0);
            if let Some(log_concurrent) = log {
                builder = builder.dci_streams(Streams {
                    log_concurrent,
                    log_errored: 0,
                });
            }
            let mut qp = builder.build().unwrap().activate().unwrap();
            let mut batch = qp.send_batch();
            for stream in 0..20 {
                let to = way.to_dc_target(9, 1).in_stream(stream);
                let request = SendRequest::send_inline(&[]);
                // SAFETY: inline data is copied; no memory is named.
                let done = unsafe { batch.push_dc(&request, &to) };
                let requested = u32::from(stream);
                let expected = if requested < count {
                    Ok(())
                } else {
                    Err(PostError::NoSuchStream {
                        requested,
                        streams: count,
                    })
                };
                assert_eq!(done, expected);
            }
            batch.submit().unwrap();
        }
    }

    /// The driver data has 16 bits for it.
    #[test]
    fn completion_queues_learn_of_pages_with_large_numbers() {
        for (number, by_words, by_attribute) in [
            (0x77, Some(0x77), None),
            (0xffff, Some(0xffff), None),
            (0x1_0000, None, Some(0x1_0000)),
            (0x12_3456, None, Some(0x12_3456)),
        ] {
            let adapter = Adapter::with_page(number);
            let context = open(Arc::new(adapter.clone())).unwrap();
            let _cq = context.create_cq(4).unwrap();
            assert_eq!(adapter.armed(), [[by_words, by_attribute]], "{number:#x}");
        }
        // Legacy commands have no attributes; a method has, whatever path was requested.
        for path in [
            CommandPath::Ioctl,
            CommandPath::InvokeWrite,
            CommandPath::Write,
        ] {
            let adapter = Adapter::with_page(1 << 20);
            let options = OpenOptions::new().command_path(path);
            let context = open_by(options, Arc::new(adapter.clone())).unwrap();
            let _cq = context.create_cq(4).unwrap();
            assert_eq!(adapter.armed(), [[None, Some(1 << 20)]], "{path:?}");
        }
    }

    /// As on kernels before 5.7: more queue pairs than there are doorbells.
    #[test]
    fn the_kernel_chooses_doorbells() {
        let adapter = Adapter::default();
        let options = OpenOptions::new().doorbells_of_mlx5(Doorbells::Fixed);
        let context = open_by(options, Arc::new(adapter)).unwrap();
        let mut pairs = Vec::new();
        for _ in 0..20 {
            let (pd, cq, mut qp) = queues(&context, false).unwrap();
            let [buffer] = pd.buffers::<1>(16).unwrap();
            qp.send(buffer, 16, 7).unwrap();
            pairs.push((pd, cq, qp));
        }
    }

    /// Where completions carry the device's numbers, which are reused at once: a completion that is
    /// pending for a destroyed queue pair does not belong to the next one with its number.
    #[test]
    fn a_reused_device_number_names_the_new_queue_pair() {
        let adapter = Adapter::by_device();
        let context = open(Arc::new(adapter.clone())).unwrap();
        let (pd, mut cq, mut first) = queues(&context, false).unwrap();
        let ring = *adapter
            .rings()
            .iter()
            .find(|ring| ring.of_completions)
            .unwrap();
        let write = |position: usize| {
            adapter.write(&ring, position * ENTRY + 32, 0);
            adapter.write(&ring, position * ENTRY + 56, (0x77_u64 << 32).to_be());
        };
        let [old, new] = pd.buffers::<2>(16).unwrap();
        first.send(old, 16, 1).unwrap();
        write(0);
        assert_eq!(first.destroy().unwrap().len(), 1);
        let prepared = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .path_mtu(Mtu::B1024)
            .max_rd_atomic(0)
            .build()
            .unwrap();
        let endpoint = prepared.endpoint();
        let mut second = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
        second.send(new, 16, 2).unwrap();
        assert!(cq.poll().unwrap().is_none(), "the first one's");
        write(1);
        let completion = cq.poll().unwrap().unwrap();
        assert_eq!(second.complete(completion).unwrap().user_data(), 2);
        assert!(cq.poll().unwrap().is_none());
    }

    /// Two requests whose completions are reported as one.
    #[test]
    fn compressed_completions_are_polled_one_by_one() {
        let adapter = Adapter::default();
        let context = open(Arc::new(adapter.clone())).unwrap();
        let (pd, mut cq, mut qp) = queues(&context, true).unwrap();
        for (context, buffer) in (1..).zip(pd.buffers::<2>(16).unwrap()) {
            qp.send(buffer, 16, context).unwrap();
        }
        let ring = *adapter
            .rings()
            .iter()
            .find(|ring| ring.of_completions)
            .unwrap();
        for counter in 0..2_u16 {
            let mini = u64::from(counter) << 48 | 16;
            adapter.write(&ring, ENTRY + usize::from(counter) * 8, mini.to_be());
        }
        adapter.write(&ring, 40, 2_u64.to_be());
        adapter.write(&ring, 56, (0x77_u64 << 32 | 3 << 2).to_be());
        for context in 1..=2 {
            let completion = cq.poll().unwrap().unwrap();
            assert_eq!(qp.complete(completion).unwrap().user_data(), context);
        }
        assert!(cq.poll().unwrap().is_none());
    }
}
