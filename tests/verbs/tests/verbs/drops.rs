//! Objects may be dropped in any order: each kernel object is destroyed once, and none is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use uverbs::address::GlobalRoute;
use uverbs::memory::MwType;
use uverbs::recorder::{Body, Collector, Record};
use uverbs::{AddressVector, ErrorKind, Notify, QpType};
use verbs_tests::{Driver, Registered, device_name, driver, options, raw};

/// How many objects of each kind were created, and how many destroyed.
#[derive(Debug, Default, Eq, PartialEq)]
struct Balance(BTreeMap<&'static str, i32>);

/// The object that a command creates or destroys. Failures count as neither, and are kept.
fn change(record: &Record) -> Option<(&'static str, i32)> {
    const COMMANDS: [(&str, &str, &str); 7] = [
        (
            "PD",
            "IB_USER_VERBS_CMD_ALLOC_PD",
            "IB_USER_VERBS_CMD_DEALLOC_PD",
        ),
        (
            "MR",
            "IB_USER_VERBS_CMD_REG_MR",
            "IB_USER_VERBS_CMD_DEREG_MR",
        ),
        (
            "MW",
            "IB_USER_VERBS_CMD_ALLOC_MW",
            "IB_USER_VERBS_CMD_DEALLOC_MW",
        ),
        (
            "CQ",
            "IB_USER_VERBS_CMD_CREATE_CQ",
            "IB_USER_VERBS_CMD_DESTROY_CQ",
        ),
        (
            "QP",
            "IB_USER_VERBS_CMD_CREATE_QP",
            "IB_USER_VERBS_CMD_DESTROY_QP",
        ),
        (
            "SRQ",
            "IB_USER_VERBS_CMD_CREATE_SRQ",
            "IB_USER_VERBS_CMD_DESTROY_SRQ",
        ),
        (
            "AH",
            "IB_USER_VERBS_CMD_CREATE_AH",
            "IB_USER_VERBS_CMD_DESTROY_AH",
        ),
    ];
    match &record.body {
        Body::Command { command, .. } => {
            let name = command.full()?;
            COMMANDS
                .iter()
                .find_map(|(kind, make, destroy)| match name {
                    _ if name == *make => Some((*kind, 1)),
                    _ if name == *destroy => Some((*kind, -1)),
                    _ => None,
                })
        }
        Body::Method { method, .. } => {
            let name = method.full()?;
            COMMANDS.iter().find_map(|(kind, ..)| {
                let rest = name.strip_prefix("UVERBS_METHOD_")?.strip_prefix(kind)?;
                match rest {
                    "_CREATE" => Some((*kind, 1)),
                    "_DESTROY" => Some((*kind, -1)),
                    _ => None,
                }
            })
        }
        _ => None,
    }
}

/// Sums up the commands.
fn balance(records: &[Record]) -> Balance {
    let mut balance = Balance::default();
    for record in records {
        let Some((kind, by)) = change(record) else {
            continue;
        };
        // A method that the kernel does not have is tried once before the legacy command.
        if record.errno.is_some() {
            assert_eq!(by, 1, "a destroy failed: {record}");
            continue;
        }
        *balance.0.entry(kind).or_default() += by;
    }
    balance
}

/// All permutations of `items` things, by swapping two at a time (Heap's algorithm).
fn orders(items: usize, mut each: impl FnMut(&[usize])) {
    let mut order: Vec<_> = (0..items).collect();
    let mut counters = vec![0; items];
    each(&order);
    let mut at = 0;
    while at < items {
        if counters[at] < at {
            order.swap(if at % 2 == 0 { 0 } else { counters[at] }, at);
            each(&order);
            counters[at] += 1;
            at = 0;
        } else {
            counters[at] = 0;
            at += 1;
        }
    }
}

/// Context, domain, channel, completion queue, shared queue, region and queue pair, dropped in
/// every order that begins with `first`, or in some of them: drivers need some time to create all
/// of these.
fn in_every_order_after(first: usize) {
    let collector = Arc::new(Collector::new());
    let every = match driver() {
        Driver::Rxe => 9,
        Driver::Mlx5 => 24,
    };
    let mut tried = 0;
    orders(6, |rest| {
        tried += 1;
        if tried % every != 0 {
            return;
        }
        let mut order = vec![first];
        order.extend(rest.iter().map(|item| item + usize::from(*item >= first)));
        let context = options()
            .record(collector.clone())
            .open(&device_name())
            .unwrap();
        let pd = context.alloc_pd().unwrap();
        let channel = context.create_completion_channel().unwrap();
        let mut cq = context
            .completion_queue(8)
            .channel(&channel)
            .build()
            .unwrap();
        cq.request_notification(Notify::Any).unwrap();
        let mut srq = pd.create_srq(4, 1).unwrap();
        let memory = pd.buffers::<1>(64).unwrap();
        raw::recv_shared(&mut srq, 1, &[]).unwrap();
        let qp = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .srq(&srq)
            .build()
            .unwrap();
        let mut all: [Option<Box<dyn std::any::Any>>; 7] = [
            Some(Box::new(context)),
            Some(Box::new(pd)),
            Some(Box::new(channel)),
            Some(Box::new(cq)),
            Some(Box::new(srq)),
            Some(Box::new(memory)),
            Some(Box::new(qp)),
        ];
        for item in &order {
            drop(all[*item].take());
        }
        let left = balance(&collector.take());
        assert_eq!(left.0.len(), 5, "{left:?}");
        assert!(
            left.0.values().all(|count| *count == 0),
            "{order:?}: {left:?}"
        );
    });
    assert_eq!(tried, 720);
}

#[test]
fn the_context_first() {
    in_every_order_after(0);
}

#[test]
fn the_domain_first() {
    in_every_order_after(1);
}

#[test]
fn the_channel_first() {
    in_every_order_after(2);
}

#[test]
fn the_completion_queue_first() {
    in_every_order_after(3);
}

#[test]
fn the_shared_queue_first() {
    in_every_order_after(4);
}

#[test]
fn the_region_first() {
    in_every_order_after(5);
}

#[test]
fn the_queue_pair_first() {
    in_every_order_after(6);
}

#[test]
fn roce_address_window_region_and_group_in_every_order() {
    let collector = Arc::new(Collector::new());
    let context = options()
        .record(collector.clone())
        .open(&device_name())
        .unwrap();
    orders(5, |order| {
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(8).unwrap();
        let prepared = pd.queue_pair(QpType::Ud, &cq, &cq).build().unwrap();
        let mut qp = prepared.activate().unwrap();
        let entry = verbs_tests::gid_entry(&context, &qp);
        let route = GlobalRoute::new(entry.gid, entry.index as u8);
        let address = pd.create_ah(&AddressVector::global(1, route)).unwrap();
        let group = std::net::Ipv4Addr::new(239, 5, 5, 5).into();
        qp.attach_multicast(&group, 0).unwrap();
        let window = match pd.alloc_mw(MwType::Type2) {
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            window => Some(window.unwrap()),
        };
        let objects = if window.is_some() { 6 } else { 5 };
        let region = Registered::remote_all(&pd, 64);
        drop(cq);
        let mut all: [Option<Box<dyn std::any::Any>>; 5] = [
            Some(Box::new(pd)),
            Some(Box::new(qp)),
            Some(Box::new(address)),
            Some(Box::new(window)),
            Some(Box::new(region)),
        ];
        for item in order {
            drop(all[*item].take());
        }
        let left = balance(&collector.take());
        assert_eq!(left.0.len(), objects, "{left:?}");
        assert!(
            left.0.values().all(|count| *count == 0),
            "{order:?}: {left:?}"
        );
    });
    assert_eq!(context.leaked(), 0);
}

#[test]
fn a_domain_in_use_says_so_and_lives_on() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().unwrap();
    let memory = Registered::remote_all(&pd, 64);
    let clone = pd.clone();
    assert_eq!(clone.dealloc().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(pd.dealloc().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(memory.all(), [0; 64]);
    memory.deregister().unwrap();
    let pd = context.alloc_pd().unwrap();
    pd.dealloc().unwrap();
    assert_eq!(context.leaked(), 0);
}
