use super::*;

fn sizes() -> Sizes {
    Sizes {
        sends: 16,
        receives: 16,
        inline: 0,
        staging: 8192,
        ring: 8192,
        maps: 0,
    }
}

fn buffer(length: u32) -> Entry {
    Entry {
        address: 0x1000,
        key: 7,
        length,
    }
}

/// Of a connection whose peer has `credits` receives and a first buffer of 4096 bytes.
fn open(credits: u16) -> Flow {
    let mut flow = Flow::new();
    flow.begin(sizes());
    flow.open(&Hello {
        credits,
        maps: 0,
        targets: buffer(2),
        buffer: buffer(4096),
        order: super::super::wire::Order::default(),
    });
    flow.phase = Phase::Open;
    flow.is_readable = true;
    flow.is_writable = true;
    flow
}

#[test]
fn messages_end_with_the_peers_buffer() {
    let mut flow = open(16);
    let first = flow.depart(3000).unwrap();
    assert_eq!((first.address, first.key, first.length), (0x1000, 7, 3000));
    let second = flow.depart(3000).unwrap();
    assert_eq!((second.address, second.length), (0x1000 + 3000, 1096));
    assert!(!flow.can_send());
    assert_eq!(flow.wants_target(), Some(1));
    flow.set_target(buffer(100));
    assert_eq!(flow.depart(3000).unwrap().length, 100);
    assert_eq!(flow.wants_target(), Some(0));
}

#[test]
fn no_more_is_sent_than_the_peer_takes() {
    let mut flow = open(2);
    assert!(flow.depart(1).is_some());
    assert!(flow.depart(1).is_some());
    assert!(flow.depart(1).is_none());
    assert!(flow.arrive(Message::Credits(0x1_0003)));
    assert!(flow.depart(1).is_some());
    assert!(flow.depart(1).is_none());
}

#[test]
fn no_more_is_sent_than_there_is_room_for() {
    let mut flow = open(1000);
    flow.set_target(buffer(u32::MAX));
    let mut count = 0;
    while flow.depart(1).is_some() {
        count += 1;
    }
    // The others are for messages without data.
    assert_eq!(count, 12);
    flow.sent(Message::Data(1), 0);
    assert_eq!(flow.depart(u32::MAX).unwrap().length, 8192 - 11);
    flow.sent(Message::Data(1), 0);
    assert!(flow.depart(1).is_none(), "the staging ring is full");
    assert!(!flow.is_idle());
    for _ in 0..10 {
        flow.sent(Message::Data(1), 0);
    }
    flow.sent(Message::Data(8192 - 11), 0);
    assert!(flow.is_idle());
    assert_eq!(flow.depart(u32::MAX).unwrap().length, 8192);
}

#[test]
fn a_peer_that_writes_more_than_it_was_given_is_found_out() {
    let mut flow = open(16);
    assert!(!flow.arrive(Message::Data(4097)));
    assert!(flow.arrive(Message::Data(4096)));
    assert!(!flow.arrive(Message::Data(1)));
    assert_eq!(flow.unread(), 4096);
    // It sends more messages than there are receives for.
    let mut flow = open(16);
    for _ in 0..16 {
        assert!(flow.arrive(Message::Data(1)));
    }
    assert!(!flow.arrive(Message::Data(1)));
    assert!(!open(16).arrive(Message::Data((1 << 29) - 1)));
}

#[test]
fn read_halves_are_given_again() {
    let mut flow = open(16);
    // The second half is the peer's as soon as it is connected.
    assert_eq!(flow.update(), Some((Message::Credits(16), Some(1))));
    assert_eq!(flow.update(), None);
    assert!(flow.arrive(Message::Data(4096)));
    assert!(flow.arrive(Message::Data(4096)));
    flow.consume(4000);
    assert_eq!(flow.update(), None);
    flow.consume(96);
    assert_eq!(flow.update(), Some((Message::Credits(17), Some(0))));
    flow.consume(4096);
    assert_eq!(flow.update(), Some((Message::Credits(18), Some(1))));
    assert_eq!(flow.unread(), 0);
}

#[test]
fn credits_are_given_at_half() {
    let mut flow = open(16);
    flow.update();
    for _ in 0..8 {
        assert_eq!(flow.update(), None);
        assert!(flow.arrive(Message::Data(1)));
        flow.consume(1);
    }
    assert_eq!(flow.update(), Some((Message::Credits(24), None)));
    // Without requests for them, they wait.
    flow.control();
    flow.control();
    assert!(!flow.control());
    for _ in 0..8 {
        assert!(flow.arrive(Message::Data(0)));
    }
    assert_eq!(flow.update(), None);
    flow.sent(Message::Credits(24), 0);
    assert_eq!(flow.update(), Some((Message::Credits(32), None)));
}

#[test]
fn each_direction_ends_by_itself() {
    let mut flow = open(16);
    assert!(flow.arrive(Message::Control(Control::Shutdown)));
    assert_eq!((flow.phase, flow.is_readable), (Phase::Open, false));
    let mut flow = open(16);
    flow.is_writable = false;
    assert!(flow.arrive(Message::Control(Control::Shutdown)));
    assert_eq!(flow.phase, Phase::Closed);
    let mut flow = open(16);
    assert!(flow.arrive(Message::Data(5)));
    assert!(flow.arrive(Message::Control(Control::Disconnect)));
    assert_eq!((flow.phase, flow.unread()), (Phase::Closed, 5));
    assert!(!flow.is_writable);
    flow.end(Phase::Broken);
    assert_eq!(flow.phase, Phase::Closed);
}

/// A peer that says anything at any time, and completions in any order.
#[test]
fn counts_stay_in_their_ranges_whatever_a_peer_says() {
    let mut random = 1_u64;
    let mut next = |limit: u32| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((random >> 33) as u32) % limit
    };
    for _ in 0..200 {
        let mut flow = open(u16::try_from(next(0x1_0000)).unwrap());
        let mut posted = VecDeque::new();
        for _ in 0..500 {
            match next(6) {
                0 => drop(flow.arrive(Message::from_raw(next(u32::MAX)))),
                1 => drop(flow.arrive(Message::Data(next(5000)))),
                2 => {
                    let unread = flow.unread();
                    flow.consume(next(unread + 1));
                }
                3 => {
                    if flow.wants_target().is_some() {
                        flow.set_target(buffer(next(u32::MAX)));
                    }
                    if let Some(departure) = flow.depart(next(100_000) + 1) {
                        assert!(departure.length <= sizes().staging);
                        posted.push_back(Message::Data(departure.length));
                    }
                }
                4 => {
                    if let Some((message, _)) = flow.update() {
                        posted.push_back(message);
                    }
                }
                _ => {
                    if let Some(message) = posted.pop_front() {
                        flow.sent(message, 0);
                    }
                }
            }
            assert!(flow.unread() <= sizes().ring);
            assert!(flow.staging <= sizes().staging);
            assert!(flow.requests + flow.controls <= sizes().sends);
            assert!(flow.promised + flow.unread() + flow.free <= sizes().ring);
        }
    }
}
