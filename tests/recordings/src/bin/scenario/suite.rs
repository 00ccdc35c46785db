//! What rdma-core's test suite requests besides what the other scenarios do.

use std::fs::File;
use std::os::fd::AsFd as _;

use uverbs::attr::{Psn, QpAttr, QpCreateFlags, SrqModify};
use uverbs::completion::Timestamps;
use uverbs::link::Mtu;
use uverbs::memory::Reregister;
use uverbs::mlx5::{Entries, EntrySize, Results, SharedXrcDomain, Streams, VarKind};
use uverbs::time::{AckTimeout, RnrTimer};
use uverbs::{AccessFlags, AddressVector, CompletionQueue, ProtectionDomain, QpState, QpType};

use super::{PORT, Stage};

/// Access flags for regions. Not all kernels and devices support the last two, and two are refused:
/// remote write access without local write access.
const OF_REGIONS: [u32; 12] = [
    0x2, 0x3, 0x5, 0x7, 0x8, 0x9, 0xf, 0x11, 0x13, 0x41, 0x103, 0x10_0001,
];
/// Access flags for queue pairs.
const OF_QUEUE_PAIRS: [u32; 9] = [0x0, 0x1, 0x6, 0x7, 0x9, 0xa, 0xb, 0xf, 0x30e];
const KEY: u64 = 0xbad_c0de;

impl Stage {
    /// All of it; with `special`, also what only mlx5 has.
    pub(crate) fn suite(&self, special: bool) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        self.suite_of_queries(&pd);
        self.suite_of_regions(&pd)?;
        self.suite_of_completion_queues(special)?;
        let cq = self.context.create_cq(32)?;
        Self::suite_of_shared_queues(&pd, &cq)?;
        self.suite_of_queue_pairs(&pd, &cq)?;
        if special {
            self.suite_of_mlx5(&pd, &cq)?;
        }
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// Queries of ports and table entries that do not exist.
    fn suite_of_queries(&self, pd: &ProtectionDomain) {
        let _ = pd.create_ah(&AddressVector::local(PORT, 1));
        let _ = self.context.query_port(PORT + 1);
        let _ = self.context.gid(PORT, 7);
        let _ = self.context.completion_queue(32).vector(1 << 16).build();
        let _ = self.context.create_cq(1 << 23);
    }

    fn suite_of_regions(&self, pd: &ProtectionDomain) -> anyhow::Result<()> {
        for access in OF_REGIONS {
            let access = AccessFlags::from_bits_retain(access);
            // SAFETY: the memory is `main`'s, which outlives the region; nothing works on it.
            let made = unsafe { pd.register(self.memory, 4096, access) };
            if let Ok(mr) = made {
                mr.deregister()?;
            }
        }
        let local = AccessFlags::LOCAL_WRITE;
        // SAFETY: the same memory; nothing works on the region.
        let mut mr = unsafe { pd.register(self.memory, 4096, local) }?;
        let moved = Reregister {
            memory: Some((self.memory, 8192)),
            ..Reregister::default()
        };
        // SAFETY: `main`'s memory has these bytes, too; nothing works on the region.
        let _ = unsafe { mr.reregister(&moved) };
        for access in [0x1, 0x3, 0x9] {
            let access = Reregister {
                access: Some(AccessFlags::from_bits_retain(access)),
                ..Reregister::default()
            };
            // SAFETY: the memory stays the same; nothing works on the region.
            let _ = unsafe { mr.reregister(&access) };
        }
        mr.deregister()?;
        Ok(())
    }

    fn suite_of_completion_queues(&self, special: bool) -> anyhow::Result<()> {
        let builder = || self.context.completion_queue(64);
        builder().vector(1).build()?.destroy()?;
        let mut plain = builder().build()?;
        let _ = plain.resize(1 << 22);
        plain.destroy()?;
        if !special {
            return Ok(());
        }
        builder().timestamps(Timestamps::Raw).build()?.destroy()?;
        for (compressed, size) in [
            (None, EntrySize::Long),
            (Some(Results::Hash), EntrySize::Short),
            (Some(Results::Checksum), EntrySize::Short),
        ] {
            let entries = Entries { compressed, size };
            builder().entries_of_mlx5(entries).build()?.destroy()?;
        }
        // Not all devices support these.
        let padded = Entries {
            compressed: None,
            size: EntrySize::Padded,
        };
        let _ = builder().entries_of_mlx5(padded).build();
        Ok(())
    }

    fn suite_of_shared_queues(pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<()> {
        let mut srq = pd.create_srq(64, 1)?;
        let _ = srq.modify(&SrqModify::new().limit(1 << 20));
        for kind in [QpType::Rc, QpType::Ud] {
            let builder = pd
                .queue_pair(kind, cq, cq)
                .srq(&srq)
                .max_recv_wr(0)
                .max_recv_sge(0)
                .signal_all();
            let _prepared = builder.build()?;
        }
        srq.destroy()?;
        Ok(())
    }

    fn suite_of_queue_pairs(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
    ) -> anyhow::Result<()> {
        for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
            let builder = pd.queue_pair(kind, cq, cq).signal_all();
            builder.build()?.into_raw().destroy()?;
        }
        let flags = QpCreateFlags::BLOCK_MULTICAST_LOOPBACK;
        // Not all devices support them.
        let builder = pd.queue_pair(QpType::Ud, cq, cq);
        let _ = builder.signal_all().create_flags(flags).build();
        let mut qp = pd.queue_pair(QpType::Uc, cq, cq).build()?.into_raw();
        self.connect_to_itself(&mut qp)?;
        qp.destroy()?;
        for access in OF_QUEUE_PAIRS {
            let mut qp = pd.queue_pair(QpType::Rc, cq, cq).build()?.into_raw();
            let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
            let _ = qp.modify(&init.access(AccessFlags::from_bits_retain(access)));
            qp.destroy()?;
        }
        Ok(())
    }

    fn suite_of_mlx5(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<()> {
        let adapter = self.context.mlx5()?;
        let memory = adapter.alloc_device_memory(4096, 6)?;
        memory.query()?;
        for (length, access) in [(1024, 0xf), (8192, 0x1)] {
            let access = AccessFlags::from_bits_retain(access);
            if let Ok(mr) = pd.register_device_memory(&memory, 0, length, access) {
                mr.deregister()?;
            }
        }
        memory.free()?;
        // For functions that are not switches, ports report little, and none of the models emulates
        // devices.
        let _ = adapter.switch_port(u32::from(PORT));
        let _ = adapter.alloc_var(VarKind::default());

        // Only for Ethernet ports.
        for flags in [
            QpCreateFlags::empty(),
            QpCreateFlags::BLOCK_MULTICAST_LOOPBACK,
            QpCreateFlags::BLOCK_MULTICAST_LOOPBACK | QpCreateFlags::CVLAN_STRIPPING,
        ] {
            let builder = pd.queue_pair(QpType::RawPacket, cq, cq).create_flags(flags);
            let _ = builder.build();
            let _ = builder.signal_all().build();
        }
        self.suite_of_extended(pd, cq)?;
        self.suite_of_dynamic(pd, cq)
    }

    /// A domain represented by a file, and the receiving end of a connection up to its last state.
    fn suite_of_extended(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<()> {
        let file = File::open("/")?;
        let shared = SharedXrcDomain {
            file: file.as_fd(),
            create: true,
            exclusive: false,
        };
        let domain = self.context.mlx5()?.open_shared_xrc_domain(&shared)?;
        let builder = domain
            .target(pd, cq)
            .untyped()
            .max_send_wr(0)
            .max_send_sge(0)
            .max_inline_data(0)
            .max_recv_wr(0)
            .max_recv_sge(0);
        let mut target = builder.build()?.into_raw();
        let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
        target.modify(&init.access(AccessFlags::empty()))?;
        let ready = QpAttr::to(QpState::ReadyToReceive)
            .av(self.path()?)
            .path_mtu(Mtu::B1024)
            .dest_qpn(target.qp_num())
            .rq_psn(Psn::new(0)?);
        target.modify(
            &ready
                .max_dest_rd_atomic(1)
                .min_rnr_timer(RnrTimer::from_raw(12)),
        )?;
        let ready = QpAttr::to(QpState::ReadyToSend).sq_psn(Psn::new(0)?);
        target.modify(&ready.timeout(AckTimeout::code(14)?))?;
        target.destroy()?;
        drop(domain);
        let builder = pd
            .queue_pair(QpType::XrcInitiator, cq, cq)
            .signal_all()
            .max_recv_wr(0)
            .max_recv_sge(0);
        builder.build()?.into_raw().destroy()?;
        Ok(())
    }

    /// Both ends of dynamic connections, as created by the test suite.
    fn suite_of_dynamic(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<()> {
        let srq = pd.create_srq(64, 2)?;
        let builder = pd
            .dc_target(&srq, cq, KEY)
            .untyped()
            .signal_all()
            .max_send_wr(0)
            .max_send_sge(0)
            .max_inline_data(0)
            .max_recv_wr(0)
            .max_recv_sge(0);
        let mut target = builder.build()?.into_raw();
        let mut builder = pd
            .dc_initiator(cq)
            .untyped()
            .signal_all()
            .max_recv_wr(0)
            .max_recv_sge(0);
        let mut initiator = builder.build()?.into_raw();
        builder = builder.dci_streams(Streams {
            log_concurrent: 2,
            log_errored: 2,
        });
        // Not all devices support them.
        let _ = builder.build();

        let init = QpAttr::to(QpState::Init).pkey_index(0).port(PORT);
        let ready = QpAttr::to(QpState::ReadyToReceive).path_mtu(Mtu::B1024);
        target.modify(&init.access(AccessFlags::from_bits_retain(0xf)))?;
        target.modify(&ready.av(self.path()?).min_rnr_timer(RnrTimer::from_raw(12)))?;
        initiator.modify(&init)?;
        initiator.modify(&ready)?;
        initiator.destroy()?;
        target.destroy()?;
        srq.destroy()?;
        Ok(())
    }
}
