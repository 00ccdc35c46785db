//! Requests rates and scheduling elements, like `oracle/qos.c`. `post-qos DEVICE`

use anyhow::Context as _;
use uverbs::attr::{Psn, QpAttr};
use uverbs::link::{LinkLayer, Mtu};
use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::sched::{ElementAttr, Leaves};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, CompletionQueue, Context, Error, ProtectionDomain, QpState, QpType, QueuePair,
    QueuePairBuilder,
};

fn main() -> anyhow::Result<()> {
    let device = std::env::args().nth(1).context("post-qos DEVICE")?;
    let context = Context::open(&device)?;
    let is_ethernet = context.query_port(1)?.link_layer == LinkLayer::Ethernet;
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    let mut initialized = describe(&pd, &cq, QpType::Rc).build()?.into_raw();
    let connected = connection(describe(&pd, &cq, QpType::Rc), is_ethernet)?.build()?;
    let init = QpAttr::to(QpState::Init)
        .port(1)
        .pkey_index(0)
        .access(AccessFlags::empty());
    initialized.modify(&init)?;
    // Connected to itself.
    let itself = connected.endpoint();
    let mut connected = connected.handshake(itself)?;
    tree(&context, &mut initialized, &mut connected)?;
    entries(&context)?;
    if is_ethernet {
        rates(&context, &pd, &cq)?;
    }
    Ok(())
}

fn describe<'a>(
    pd: &'a ProtectionDomain,
    cq: &'a CompletionQueue,
    kind: QpType,
) -> QueuePairBuilder<'a> {
    pd.queue_pair(kind, cq, cq)
        .max_send_wr(16)
        .max_recv_wr(16)
        .max_send_sge(1)
        .max_recv_sge(1)
}

fn connection(
    builder: QueuePairBuilder<'_>,
    is_ethernet: bool,
) -> Result<QueuePairBuilder<'_>, Error> {
    let builder = builder
        .access(AccessFlags::empty())
        .psn(Psn::from_raw(0))
        .max_rd_atomic(1)
        .max_dest_rd_atomic(1)
        .min_rnr_timer(RnrTimer::code(12)?)
        .timeout(AckTimeout::code(14)?)
        .retry_count(RetryCount::new(7)?)
        .rnr_retry(RnrRetry::new(7)?)
        .path_mtu(Mtu::B1024);
    Ok(if is_ethernet {
        builder.gid_index(1)
    } else {
        builder
    })
}

fn tree(
    context: &Context,
    initialized: &mut QueuePair,
    connected: &mut QueuePair,
) -> anyhow::Result<()> {
    let scheduler = context.mlx5()?.scheduling()?;
    let root = scheduler.create_root()?;
    let node = root.create_node(&ElementAttr::new().share(2).max_mbps(20_000))?;
    let one = node.create_leaf(&ElementAttr::new().share(7))?;
    let two = root.create_leaf(&ElementAttr::new().max_mbps(4096))?;
    let plain = root.create_leaf(&ElementAttr::new())?;

    node.modify(&ElementAttr::new().share(5))?;
    one.modify(&ElementAttr::new().max_mbps(100))?;
    two.modify(&ElementAttr::new().share(9).max_mbps(0))?;

    let leaves = |requestor, responder| Leaves {
        requestor,
        responder,
    };
    initialized.attach_to(&scheduler, leaves(Some(&one), None))?;
    connected.attach_to(&scheduler, leaves(Some(&one), Some(&two)))?;
    connected.attach_to(&scheduler, leaves(Some(&two), None))?;
    connected.attach_to(&scheduler, Leaves::default())?;
    initialized.attach_to(&scheduler, Leaves::default())?;

    for leaf in [plain, two, one] {
        leaf.destroy()?;
    }
    for node in [node, root] {
        node.destroy()?;
    }
    Ok(())
}

fn entries(context: &Context) -> anyhow::Result<()> {
    let devx = context.mlx5()?.devx()?;
    let limit = RateLimit::kbps(100_000)
        .max_burst(20_000)
        .typical_packet(1024);
    let shared = devx.pace(&limit, false)?;
    let same = devx.pace(&limit, false)?;
    let alone = devx.pace(&limit, true)?;
    for entry in [shared, same, alone] {
        entry.free()?;
    }
    Ok(())
}

/// Rates of raw packets, which every kernel paces.
fn rates(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue) -> anyhow::Result<()> {
    let mut qp = describe(pd, cq, QpType::RawPacket).build()?.into_raw();
    qp.modify(&QpAttr::to(QpState::Init).port(1))?;
    qp.modify(&QpAttr::to(QpState::ReadyToReceive))?;
    qp.modify(&QpAttr::to(QpState::ReadyToSend))?;
    let rate = RateLimit::kbps(100_000);
    qp.modify_rate_limit(&rate)?;
    qp.modify_rate_limit(&rate.max_burst(20_000))?;
    qp.modify_rate_limit(&rate.typical_packet(1024))?;
    qp.modify_rate_limit(
        &RateLimit::kbps(200_000)
            .max_burst(20_000)
            .typical_packet(1500),
    )?;
    qp.modify_rate_limit(&RateLimit::UNLIMITED)?;

    let scheduler = context.mlx5()?.scheduling()?;
    let root = scheduler.create_root()?;
    let leaf = root.create_leaf(&ElementAttr::new())?;
    let requests = Leaves {
        requestor: Some(&leaf),
        responder: None,
    };
    qp.attach_to(&scheduler, requests)?;
    qp.attach_to(&scheduler, Leaves::default())?;
    leaf.destroy()?;
    root.destroy()?;
    Ok(())
}
