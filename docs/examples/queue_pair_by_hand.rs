//! Takes two queue pairs through their states one step at a time, and queries the kernel after
//! each. The error of a step that is not possible says what is missing.
//!
//! `queue_pair_by_hand [DEVICE]`

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr};
use uverbs::link::Mtu;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Context, QpState, QueuePair, QueuePairEndpoint,
};

const PORT: u8 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "rxe0".to_owned());
    let context = Context::open(&device)?;
    let mut a = Side::new(&context)?;
    let mut b = Side::new(&context)?;

    let init = QpAttr::to(QpState::Init)
        .pkey_index(0)
        .port(PORT)
        .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE);
    a.step(&init)?;
    b.step(&init)?;

    // The step to RTR needs a path; without one it is refused, and the error says why.
    match a
        .qp
        .modify(&QpAttr::to(QpState::ReadyToReceive).dest_qpn(b.qp.qp_num()))
    {
        Ok(()) => return Err("half of a path was enough".into()),
        Err(error) => println!("refused: {error}"),
    }

    let (endpoint_a, endpoint_b) = (a.qp.endpoint(), b.qp.endpoint());
    a.ready_to_receive(&endpoint_b)?;
    b.ready_to_receive(&endpoint_a)?;
    a.ready_to_send()?;
    b.ready_to_send()?;

    // A single attribute can be changed while the queue pair is in use.
    a.qp.modify(&QpAttr::new().min_rnr_timer(RnrTimer::from_duration(Duration::from_millis(1))?))?;
    let info = a.qp.query()?;
    println!(
        "RNR timer {:?}, peer {}",
        info.min_rnr_timer.duration(),
        info.dest_qpn
    );

    a.step(&QpAttr::to(QpState::Error))?;
    a.step(&QpAttr::to(QpState::Reset))?;
    Ok(())
}

struct Side {
    qp: QueuePair<Rc>,
    mtu: Mtu,
    sgid_index: u8,
    // Kept because completions need somewhere to go; nothing is posted here.
    _cq: CompletionQueue,
}

impl Side {
    fn new(context: &Context) -> Result<Self, Box<dyn Error>> {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(16)?;
        let qp = pd
            .queue_pair(Rc, &cq, &cq)
            .port(PORT)
            .psn(Psn::new(0x00_1234)?)
            .build()?
            .into_raw();
        let gid = qp.endpoint().gid;
        let table = context.gid_table()?;
        let entry = table
            .iter()
            .find(|entry| Some(entry.gid) == gid)
            .ok_or("no such GID")?;
        Ok(Self {
            qp,
            mtu: context.query_port(PORT)?.active_mtu,
            sgid_index: entry.index.try_into()?,
            _cq: cq,
        })
    }

    fn ready_to_receive(&mut self, peer: &QueuePairEndpoint) -> Result<(), Box<dyn Error>> {
        let gid = peer.gid.ok_or("the peer has no GID")?;
        let path = AddressVector::global(PORT, GlobalRoute::new(gid, self.sgid_index));
        self.step(
            &QpAttr::to(QpState::ReadyToReceive)
                .av(path)
                .path_mtu(self.mtu)
                .dest_qpn(peer.qp_num)
                .rq_psn(peer.psn)
                .max_dest_rd_atomic(1)
                .min_rnr_timer(RnrTimer::default()),
        )
    }

    fn ready_to_send(&mut self) -> Result<(), Box<dyn Error>> {
        let psn = self.qp.endpoint().psn;
        self.step(
            &QpAttr::to(QpState::ReadyToSend)
                .sq_psn(psn)
                .timeout(AckTimeout::from_duration(Duration::from_millis(67)))
                .retry_count(RetryCount::default())
                .rnr_retry(RnrRetry::INFINITE)
                .max_rd_atomic(1),
        )
    }

    /// One step, and what the kernel reports afterwards.
    fn step(&mut self, attr: &QpAttr) -> Result<(), Box<dyn Error>> {
        let from = self.qp.state();
        self.qp.modify(attr)?;
        let info = self.qp.query()?;
        println!("queue pair {}: {from} to {}", self.qp.qp_num(), info.state);
        if Some(info.state) != attr.state {
            return Err(format!("the kernel says {}", info.state).into());
        }
        Ok(())
    }
}
