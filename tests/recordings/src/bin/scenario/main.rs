//! `scenario DEVICE NAME`: the scenarios of `oracle/*.c` with this library, to be recorded and
//! compared.
//!
//! # Safety
//!
//! Regions, requests and firmware commands name the memory of `main`, of which no reference is
//! formed before they are gone.
#![allow(
    unsafe_code,
    reason = "registers memory, and posts requests and commands that name it"
)]

mod events;
mod firmware;
mod objects;
mod queue_pairs;
mod raw_packets;
mod shaping;
mod suite;

use anyhow::{Context as _, bail};
use uverbs::address::GlobalRoute;
use uverbs::attr::SrqModify;
use uverbs::link::LinkLayer;
use uverbs::memory::{MwType, Reregister};
use uverbs::{AccessFlags, AddressVector, Context, Notify, QpType};

/// The port that everything uses.
const PORT: u8 = 1;

/// Pages to register.
#[repr(align(4096))]
struct Pages([u8; 16384]);

/// What every scenario uses.
struct Stage {
    context: Context,
    memory: *mut u8,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, name] = arguments.as_slice() else {
        bail!("scenario DEVICE NAME");
    };
    let mut pages = Box::new(Pages([0; 16384]));
    let stage = Stage {
        context: Context::open(device)?,
        memory: pages.0.as_mut_ptr(),
    };
    let played = match name.as_str() {
        "queries" => stage.queries(),
        "regions" => stage.regions(),
        "windows" => stage.windows(),
        "completion-queues" => stage.completion_queues(),
        "rc" => stage.states(QpType::Rc),
        "uc" => stage.states(QpType::Uc),
        "ud" => stage.states(QpType::Ud),
        "shared-queues" => stage.shared_queues(device.starts_with("rxe")),
        "addresses" => stage.addresses(),
        "multicast" => stage.multicast(),
        "events" => stage.events(),
        "firmware" => stage.firmware(),
        "pages" => stage.pages(),
        "scheduling" => stage.scheduling(),
        "pacing-entries" => stage.pacing_entries(),
        "pacing" => stage.pacing(),
        "raw-packets" => stage.raw_packets(),
        "raw-scheduling" => stage.raw_scheduling(),
        "work-queues" => stage.work_queues(),
        "extended" => stage.extended(),
        "device-memory" => stage.device_memory(),
        "dynamic" => stage.dynamic(),
        "establishment" => stage.establishment(),
        "test-suite" => stage.suite(device.starts_with("mlx5")),
        _ => bail!("no such scenario"),
    };
    played.with_context(|| name.clone())
}

impl Stage {
    fn queries(&self) -> anyhow::Result<()> {
        // Opening has queried the device's attributes.
        let _ = self.context.device_attr();
        self.context.query_port(PORT)?;
        self.context.gid_table()?;
        self.context.gid(PORT, 0)?.context("a first GID")?;
        Ok(())
    }

    fn regions(&self) -> anyhow::Result<()> {
        let (pd, other) = (self.context.alloc_pd()?, self.context.alloc_pd()?);
        let local = AccessFlags::LOCAL_WRITE;
        let remote =
            AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
        // SAFETY: see the file's paragraph.
        let mut mr = unsafe { pd.register(self.memory, 4096, local) }?;
        let second = self.memory.wrapping_add(4096);
        // SAFETY: as above.
        let open = unsafe { pd.register(second, 5000, local | remote) }?;
        // SAFETY: as above.
        let moved = unsafe { pd.register_at(self.memory, 8192, 0x1000_0000, local) }?;
        // SAFETY: as above.
        let relaxed = unsafe { pd.register(self.memory, 4096, AccessFlags::RELAXED_ORDERING) }?;
        relaxed.deregister()?;
        moved.deregister()?;
        let access = Reregister {
            access: Some(local | AccessFlags::REMOTE_READ),
            ..Reregister::default()
        };
        // Not all kernels and devices can; how they refuse is compared.
        // SAFETY: as above.
        let _ = unsafe { mr.reregister(&access) };
        let domain = Reregister {
            pd: Some(&other),
            ..Reregister::default()
        };
        // SAFETY: as above.
        let _ = unsafe { mr.reregister(&domain) };
        open.deregister()?;
        mr.deregister()?;
        other.dealloc()?;
        pd.dealloc()?;
        Ok(())
    }

    fn windows(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let (one, two) = (pd.alloc_mw(MwType::Type1)?, pd.alloc_mw(MwType::Type2)?);
        one.dealloc()?;
        two.dealloc()?;
        pd.dealloc()?;
        Ok(())
    }

    fn completion_queues(&self) -> anyhow::Result<()> {
        let channel = self.context.create_completion_channel()?;
        let mut plain = self.context.create_cq(100)?;
        let mut waking = self.context.completion_queue(1).channel(&channel).build()?;
        waking.request_notification(Notify::Any)?;
        waking.request_notification(Notify::SolicitedOnly)?;
        plain.resize(200)?;
        waking.destroy()?;
        plain.destroy()?;
        Ok(())
    }

    fn shared_queues(&self, can_grow: bool) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let cq = self.context.create_cq(32)?;
        let mut srq = pd.create_srq(64, 2)?;
        srq.modify(&SrqModify::new().limit(4))?;
        srq.query()?;
        if can_grow {
            srq.modify(&SrqModify::new().max_wr(120))?;
            srq.query()?;
        }
        queue_pairs::create(&pd, &cq, Some(&srq), QpType::Rc)?.destroy()?;
        srq.destroy()?;
        cq.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    fn addresses(&self) -> anyhow::Result<()> {
        let pd = self.context.alloc_pd()?;
        let mut path = self.path()?;
        path.sl = 3;
        if let Some(grh) = &mut path.grh {
            grh.traffic_class = 8;
        }
        pd.create_ah(&path)?.destroy()?;
        pd.dealloc()?;
        Ok(())
    }

    /// The path to this port itself.
    fn path(&self) -> anyhow::Result<AddressVector> {
        let port = self.context.query_port(PORT)?;
        if port.link_layer != LinkLayer::Ethernet {
            return Ok(AddressVector::local(PORT, port.lid));
        }
        let table = self.context.gid_table()?;
        let entry = table
            .iter()
            .rfind(|entry| entry.port == u32::from(PORT))
            .context("a GID")?;
        let route = GlobalRoute::new(entry.gid, entry.index.try_into()?);
        Ok(AddressVector::global(PORT, route))
    }
}
