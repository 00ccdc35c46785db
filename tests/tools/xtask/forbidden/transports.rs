//! Sets, connects and posts what a transport does not have.
#![forbid(unsafe_code)]

use uverbs::owned::{self, Buffer, Work};
use uverbs::rate::Rate;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::transport::{RawPacket, Rc, Transport, Uc, Ud, XrcInitiator, XrcTarget};
use uverbs::{
    AccessFlags, AddressHandle, CompletionQueue, Gid, Operation, PreparedQueuePair,
    ProtectionDomain, QpType, QueuePair, QueuePairEndpoint, Remote, SharedReceiveQueue,
};

fn settings(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue) {
    let datagrams = || pd.queue_pair(Ud, cq, cq).qkey(7).srq(srq);
    drop(datagrams().retry_count(RetryCount::default())); //~ E0277
    drop(datagrams().rnr_retry(RnrRetry::default())); //~ E0277
    drop(datagrams().timeout(AckTimeout::default())); //~ E0277
    drop(datagrams().min_rnr_timer(RnrTimer::default())); //~ E0277
    drop(datagrams().max_rd_atomic(1)); //~ E0277
    drop(datagrams().max_dest_rd_atomic(1)); //~ E0277
    drop(datagrams().access(AccessFlags::REMOTE_READ)); //~ E0277
    drop(datagrams().allow_remote_rw()); //~ E0277
    let unreliable = || pd.queue_pair(Uc, cq, cq).static_rate(Rate::default());
    drop(unreliable().timeout(AckTimeout::default())); //~ E0277
    drop(unreliable().srq(srq)); //~ E0277
    drop(unreliable().qkey(7)); //~ E0277
    let frames = || pd.queue_pair(RawPacket, cq, cq).max_tso_header(64);
    drop(frames().gid_index(0)); //~ E0277
    drop(frames().srq(srq)); //~ E0277
    drop(frames().static_rate(Rate::default())); //~ E0277
    let sender = || pd.queue_pair(XrcInitiator, cq, cq).max_send_wr(4);
    drop(sender().max_recv_wr(4)); //~ E0277
    drop(sender().srq(srq)); //~ E0277
    drop(sender().min_rnr_timer(RnrTimer::default())); //~ E0277
    drop(pd.queue_pair(Rc, cq, cq).qkey(7)); //~ E0277
    drop(pd.queue_pair(Rc, cq, cq).max_tso_header(64)); //~ E0277
}

fn not_of_a_domain_alone(pd: &ProtectionDomain, cq: &CompletionQueue) {
    drop(pd.queue_pair(XrcTarget, cq, cq)); //~ E0277
    drop(pd.queue_pair("RC", cq, cq)); //~ E0277
}

fn activation(
    connection: PreparedQueuePair<Rc>,
    datagrams: PreparedQueuePair<Ud>,
    peer: QueuePairEndpoint,
) {
    drop(connection.activate()); //~ E0277
    drop(datagrams.handshake(peer)); //~ E0277
}

fn again(connection: &mut QueuePair<Uc>, datagrams: &mut QueuePair<Ud>, peer: QueuePairEndpoint) {
    drop(connection.reactivate()); //~ E0277
    drop(datagrams.reconnect(peer)); //~ E0277
    drop(connection.attach_multicast(&Gid::default(), 0)); //~ E0277
}

fn datagrams(qp: &mut owned::QueuePair<Ud>, to: &AddressHandle, peer: Remote, buffer: Buffer) {
    drop(qp.post(Work::send().to(to, 1, 7)));
    drop(qp.post(Work::send())); //~ E0277
    drop(qp.send(buffer, 8, 1)); //~ E0277
    drop(qp.send_inline(b"hello", 1)); //~ E0277
    drop(qp.post(Work::write(peer))); //~ E0277
    drop(qp.post_inline(Work::write(peer), &[b"x"])); //~ E0277
    drop(qp.batch().push(Work::read(peer))); //~ E0277
    drop(Work::write(peer).to(to, 1, 7)); //~ E0599
}

fn unreliable(qp: &mut owned::QueuePair<Uc>, to: &AddressHandle, peer: Remote) {
    drop(qp.post(Work::write_imm(peer, 7)));
    drop(qp.post(Work::read(peer))); //~ E0277
    drop(qp.post(Work::fetch_add(peer, 1))); //~ E0277
    drop(qp.post(Work::compare_swap(peer, 1, 2))); //~ E0277
    drop(qp.post(Work::send().to(to, 1, 7))); //~ E0277
    drop(qp.attach_multicast(&Gid::default(), 0)); //~ E0277
}

fn frames(qp: &mut owned::QueuePair<RawPacket>, buffer: Buffer, peer: Remote) {
    drop(qp.send(buffer, 60, 1));
    drop(qp.post(Work::send_imm(7))); //~ E0277
    drop(qp.post(Work::write(peer))); //~ E0277
}

fn to_a_shared_queue(qp: &mut owned::QueuePair<XrcInitiator>, buffer: Buffer) {
    drop(qp.post(Work::send())); //~ E0277
    drop(qp.recv(buffer, 1)); //~ E0277
}

fn only_receives(qp: &mut QueuePair<XrcTarget>, owned: &mut owned::QueuePair<XrcTarget>) {
    drop(qp.send_batch()); //~ E0277
    drop(qp.recv_batch()); //~ E0277
    drop(owned.batch()); //~ E0277
}

/// A transport of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mine;

#[rustfmt::skip]
impl Transport for Mine { fn qp_type(self) -> QpType { QpType::Rc } } //~ E0277

/// One transport under another's name.
fn another_name(qp: QueuePair<Ud>, any: QueuePair) {
    let _: QueuePair<Rc> = qp; //~ E0308
    let _: Result<QueuePair<Rc>, QueuePair> = any.typed(Ud); //~ E0308
}

fn checked_at_run_time(qp: &mut owned::QueuePair<Ud>, any: &mut owned::QueuePair, peer: Remote) {
    drop(qp.post(Work::new(Operation::Read(peer))));
    drop(any.post(Work::read(peer)));
}

fn main() {
    let _ = (settings, not_of_a_domain_alone, activation, again, datagrams, unreliable, frames);
    let _ = (to_a_shared_queue, only_receives, another_name, checked_at_run_time);
}
