//! Firmware commands, and objects created by them.

use std::sync::Arc;
use std::time::Duration;

use mlx5_tests::Model;
use uverbs::error::Errno;
use uverbs::mlx5::devx::{Devx, DevxObject, DevxUar, EventType, Parent, Umem};
use uverbs::mlx5::prm::{Field, Mailbox, Wide, bit, field, opcode, word};
use uverbs::mlx5::{FirmwareQueue as _, Pages};
use uverbs::{AccessFlags, ErrorKind, QpType};
use verbs_tests::{Pair, kernel, kernel_may_say, open};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
const OBJECT_TYPE: Field = field(0x04, 15, 0);
const OBJECT_ID: Field = word(0x08);

fn devx() -> Devx {
    open().mlx5().unwrap().devx().unwrap()
}

/// A completion queue of 64 entries: its memory, and its doorbells.
struct Queue {
    object: DevxObject,
    pages: Arc<Pages>,
    umem: Umem,
    uar: DevxUar,
}

impl Queue {
    fn new(devx: &Devx) -> Self {
        let pages = Arc::new(Pages::for_device(8192).unwrap());
        let umem = devx
            .register_pages(&pages, AccessFlags::LOCAL_WRITE)
            .unwrap();
        let uar = devx.uar(false).unwrap();
        let command = Self::command(&umem, &uar, devx.event_queue(0).unwrap());
        let parents = [umem.parent()].into_iter().chain(uar.parent());
        Self {
            object: create(devx, &command, parents.collect()).unwrap(),
            pages,
            umem,
            uar,
        }
    }

    fn command(umem: &Umem, uar: &DevxUar, event_queue: u32) -> Mailbox {
        let mut command = Mailbox::command(opcode::CREATE_CQ, 0, 0x110);
        command.set(bit(0x10, 25), 1);
        command.set(word(0x14), umem.id());
        command.set(field(0x1c, 28, 24), 6);
        command.set(field(0x1c, 23, 0), uar.id());
        command.set(field(0x24, 7, 0), event_queue);
        command.set_wide(Wide(0x48), 4096);
        command.set(word(0x58), umem.id());
        command.set(bit(0x5c, 31), 1);
        command
    }

    fn query(&self) -> Mailbox {
        let mut query = Mailbox::command(opcode::QUERY_CQ, 0, 16);
        query.set(OBJECT_ID, self.object.id());
        query
    }
}

fn create(devx: &Devx, command: &Mailbox, parents: Vec<Parent>) -> uverbs::Result<DevxObject> {
    super::unguarded::create(devx, command, parents)
}

#[test]
fn capabilities_are_reported_typed_and_raw() {
    let devx = devx();
    let general = devx.general_caps().unwrap();
    assert!(general.qos && general.qpc_extension && general.log_max_uctx > 0);
    let qos = devx.qos_caps(&general).unwrap();
    assert!(qos.nic_bw_share && qos.nic_rate_limit && qos.max_share > 0);
    let raw = devx.capabilities(0).unwrap();
    assert_eq!(
        raw.get(field(0x10 + 0x8c, 28, 24)),
        general.log_max_uctx.into()
    );
}

#[test]
fn status_and_syndrome_of_a_refusal_reach_the_user() {
    let devx = devx();
    let mut command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 144);
    command.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    command.set(field(0x18, 31, 24), 9);
    let error = create(&devx, &command, Vec::new()).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL));
    let text = error.to_string();
    assert!(
        text.starts_with(
            "devx_obj_create: EINVAL (opcode 0xa00, firmware_status BAD_PARAM, syndrome 0x"
        ),
        "{text}"
    );
    // An error of the kernel itself has no firmware status.
    let error = create(&devx, &Mailbox::command(0x100, 0, 16), Vec::new()).unwrap_err();
    assert!(!error.to_string().contains("firmware"), "{error}");
    assert!(error.known_hint().is_some());
}

#[test]
fn a_status_becomes_the_errno_it_stands_for() {
    let (mut model, devx) = (Model::open(), devx());
    let mut command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 144);
    command.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    command.set(field(0x18, 31, 24), 3);
    for (status, errno, name) in [
        ("6", Errno::BUSY, "RESOURCE_BUSY"),
        ("8", Errno::NOMEM, "EXCEED_LIM"),
        ("f", Errno::AGAIN, "NO_RESOURCES"),
        ("50", Errno::IO, "BAD_INPUT_LEN"),
    ] {
        model.make(&format!("fail 0 a00 1 0 {status}"));
        let error = create(&devx, &command, Vec::new()).unwrap_err();
        assert_eq!(error.errno(), Some(errno), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn queues_of_verbs_are_queried_and_changed() {
    const PERIOD: Field = field(0x20, 27, 16);
    const COUNT: Field = field(0x20, 15, 0);
    const QUERY_RMP: u16 = 0x90f;
    const RMP_STATE: Field = field(0x20, 23, 20);
    let pair = Pair::new(QpType::Rc);
    let adapter = pair.a.context.mlx5().unwrap();
    let mut query = Mailbox::command(opcode::QUERY_QP, 0, 16);
    query.set(OBJECT_ID, pair.a.qp.qp_num());
    let reply = adapter.query_queue(&pair.a.qp, &query, 0x110).unwrap();
    // Ready to send, and connected to the other one.
    assert_eq!(reply.get(field(0x18, 31, 28)), 3, "{reply:?}");

    // The number has to be that of the queue.
    let error = adapter.query_queue(&pair.a.cq, &query, 0x110).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    query.set(OBJECT_ID, pair.a.qp.qp_num() + 1);
    let error = adapter.query_queue(&pair.a.qp, &query, 0x110).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    // In another context its handle is that of another object.
    let elsewhere = open().mlx5().unwrap();
    let error = elsewhere
        .query_queue(&pair.a.qp, &query, 0x110)
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::InvalidInput, None)
    );

    let srq = pair.a.pd.create_srq(8, 1).unwrap();
    let mut query = Mailbox::command(QUERY_RMP, 0, 16);
    query.set(OBJECT_ID, srq.firmware_number().unwrap());
    let reply = adapter.query_queue(&srq, &query, 0x110).unwrap();
    assert_eq!(reply.get(RMP_STATE), 1, "ready: {reply:?}");

    let cq = &pair.a.cq;
    let number = cq.firmware_number().unwrap();
    let known = || {
        let mut query = Mailbox::command(opcode::QUERY_CQ, 0, 16);
        query.set(OBJECT_ID, number);
        let reply = adapter.query_queue(cq, &query, 0x110).unwrap();
        (reply.get(PERIOD), reply.get(COUNT))
    };
    assert_eq!(known(), (0, 0));
    let mut change = Mailbox::command(opcode::MODIFY_CQ, 0, 0x110);
    change.set(OBJECT_ID, number);
    // The period, and the count.
    change.set(word(0x0c), 0b11);
    change.set(PERIOD, 20);
    change.set(COUNT, 5);
    super::unguarded::moderate(&adapter, cq, &change).unwrap();
    assert_eq!(known(), (20, 5));
}

#[test]
fn objects_are_created_queried_and_destroyed_after_their_users() {
    let devx = devx();
    let queue = Queue::new(&devx);
    let reply = queue.object.query(&queue.query(), 0x110).unwrap();
    assert_eq!(reply.get(field(0x1c, 28, 24)), 6, "{reply:?}");
    // Its memory cannot go while it exists.
    let refused = queue.umem.deregister().unwrap_err();
    let (umem, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy);
    // A command about another object does not belong to it.
    let mut other = Mailbox::command(opcode::QUERY_CQ, 0, 16);
    other.set(OBJECT_ID, queue.object.id() + 1);
    let error = queue.object.query(&other, 0x110).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL));
    // They may be dropped in any order.
    drop(umem);
    drop(queue.uar);
    drop(queue.pages);
    queue.object.destroy().unwrap();
}

#[test]
fn a_destroy_that_fails_gives_the_object_back() {
    let (mut model, context) = (Model::open(), open());
    let queue = Queue::new(&context.mlx5().unwrap().devx().unwrap());
    model.make("fail 0 401 1 0 6");
    let refused = queue.object.destroy().unwrap_err();
    let (object, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.errno(), Some(Errno::BUSY), "{error}");
    object.destroy().unwrap();
    assert_eq!(context.leaked(), 0);
}

#[test]
fn replies_come_later_through_a_descriptor() {
    let devx = devx();
    let (one, other) = (Queue::new(&devx), Queue::new(&devx));
    let replies = devx.query_replies().unwrap();
    one.object
        .query_async(&replies, &one.query(), 0x110, 1)
        .unwrap();
    other
        .object
        .query_async(&replies, &other.query(), 64, 2)
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert!(replies.wait(PATIENCE).unwrap());
        let reply = replies.next().unwrap();
        let length = reply.reply.as_bytes().len();
        seen.push((reply.id, length));
        let reply = reply.into_result().unwrap();
        assert_eq!(reply.get(field(0x1c, 28, 24)), 6, "{reply:?}");
    }
    seen.sort_unstable();
    assert_eq!(seen, [(1, 0x110), (2, 64)]);
    replies.set_nonblocking().unwrap();
    assert_eq!(replies.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn general_objects_are_queried_later_too_but_not_by_6_1() {
    let devx = devx();
    let mut command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 144);
    command.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    command.set(field(0x18, 31, 24), 3);
    let object = create(&devx, &command, Vec::new()).unwrap();
    let mut query = Mailbox::command(opcode::QUERY_GENERAL_OBJECT, 0, 16);
    query.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    query.set(OBJECT_ID, object.id());
    object.query(&query, 0x110).unwrap();
    let replies = devx.query_replies().unwrap();
    let query = object.query_async(&replies, &query, 0x110, 1);
    if kernel() < (6, 2) {
        assert_eq!(query.unwrap_err().errno(), Some(Errno::INVAL));
    } else {
        query.unwrap();
        assert_eq!(replies.next().unwrap().id, 1);
    }
}

#[test]
fn events_come_to_those_who_subscribed() {
    kernel_may_say("CQ error on CQN");
    let (mut model, devx) = (Model::open(), devx());
    let queue = Queue::new(&devx);
    let channel = devx.event_channel(false).unwrap();
    channel
        .subscribe(Some(&queue.object), &[EventType::CompletionQueueError], 7)
        .unwrap();
    channel
        .subscribe(None, &[EventType::PortChange], 8)
        .unwrap();
    let error = channel
        .subscribe(None, &[EventType::from_raw(0x77)], 9)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(error.errno(), None, "{error}");

    model.make(&format!("event 0 cq-error {:x}", queue.object.id()));
    assert!(channel.wait(PATIENCE).unwrap());
    let event = channel.next().unwrap();
    let entry = event.entry.unwrap();
    assert_eq!(
        (event.user_data, entry.kind()),
        (7, EventType::CompletionQueueError)
    );
    assert_eq!(entry.object_number(), queue.object.id());

    model.make("event 0 client-reregister 0");
    assert!(channel.wait(PATIENCE).unwrap());
    let event = channel.next().unwrap();
    let entry = event.entry.unwrap();
    assert_eq!((event.user_data, entry.kind()), (8, EventType::PortChange));
    channel.set_nonblocking().unwrap();
    assert_eq!(channel.next().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_channel_without_data_reports_each_user_data_once() {
    kernel_may_say("CQ error on CQN");
    // The queue may be gone before the kernel has received all three.
    kernel_may_say("Async event for bogus CQ");
    let (mut model, devx) = (Model::open(), devx());
    let queue = Queue::new(&devx);
    let channel = devx.event_channel(true).unwrap();
    channel
        .subscribe(Some(&queue.object), &[EventType::CompletionQueueError], 7)
        .unwrap();
    for _ in 0..3 {
        model.make(&format!("event 0 cq-error {:x}", queue.object.id()));
    }
    assert!(channel.wait(PATIENCE).unwrap());
    let event = channel.next().unwrap();
    assert_eq!((event.user_data, event.entry), (7, None));
}

#[test]
fn an_event_descriptor_can_be_signalled_instead() {
    kernel_may_say("CQ error on CQN");
    let (mut model, devx) = (Model::open(), devx());
    let queue = Queue::new(&devx);
    let channel = devx.event_channel(false).unwrap();
    let signal = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    channel
        .subscribe_eventfd(
            Some(&queue.object),
            &[EventType::CompletionQueueError],
            std::os::fd::AsFd::as_fd(&signal),
        )
        .unwrap();
    model.make(&format!("event 0 cq-error {:x}", queue.object.id()));
    let mut count = [0_u8; 8];
    rustix::io::read(&signal, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn queues_find_their_event_queue_and_nothing_beyond() {
    let devx = devx();
    let vectors = open().completion_vectors();
    for vector in 0..vectors {
        assert_ne!(devx.event_queue(vector).unwrap(), 0);
    }
    assert!(devx.event_queue(vectors + 1000).is_err());
}

#[test]
fn memory_that_is_not_there_is_not_registered() {
    let error = super::unguarded::register(&devx(), 0x1000, 4096).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::FAULT), "{error}");
}
