//! Sets of descriptors that are no sockets.

use super::*;

const ADD: c_int = libc::EPOLL_CTL_ADD;
const NONE: epoll_event = epoll_event { events: 0, u64: 0 };

fn reads(data: u64) -> epoll_event {
    epoll_event {
        events: EVENTS,
        u64: data,
    }
}

fn told(events: &[epoll_event], count: c_int) -> Vec<(u32, u64)> {
    let count = usize::try_from(count).unwrap();
    let told = events[..count].iter();
    told.map(|event| (event.events, event.u64)).collect()
}

#[test]
fn members_are_told_as_long_as_they_are_ready() {
    let set = create().unwrap();
    let bells = [(); 2].map(|()| Bell::new(Op::CmGetEvent).unwrap());
    let [one, other] = bells.each_ref().map(sleep::fd_of);
    let only_reads = |data| epoll_event {
        events: libc::EPOLLIN as u32,
        u64: data,
    };
    change(set, ADD, one, Ok(&only_reads(7))).unwrap();
    change(set, ADD, other, Ok(&only_reads(8))).unwrap();
    let mut events = [NONE; 4];
    assert_eq!(wait(set, &mut events, 0), Ok(0));
    assert_eq!(wait(set, &mut events, 20), Ok(0));
    bells[1].ring();
    for _ in 0..2 {
        let count = wait(set, &mut events, -1).unwrap();
        assert_eq!(told(&events, count), [(1, 8)]);
    }
    bells[0].ring();
    assert_eq!(wait(set, &mut events[..1], -1), Ok(1));
    assert_eq!(wait(set, &mut events, -1), Ok(2));
    let writes = epoll_event {
        events: libc::EPOLLOUT as u32,
        u64: 9,
    };
    change(set, libc::EPOLL_CTL_MOD, one, Ok(&writes)).unwrap();
    change(set, libc::EPOLL_CTL_DEL, other, Err(Code::INVALID)).unwrap();
    let count = wait(set, &mut events, -1).unwrap();
    assert_eq!(told(&events, count), [(4, 9)]);
    assert_eq!(close(set), Err(Code::BUSY));
    change(set, libc::EPOLL_CTL_DEL, one, Err(Code::INVALID)).unwrap();
    assert_eq!((close(set), close(set)), (Ok(()), Err(NO_SET)));
}

#[test]
fn threads_that_wait_hear_of_changes() {
    let set = create().unwrap();
    let bell = Bell::new(Op::CmGetEvent).unwrap();
    bell.ring();
    std::thread::scope(|scope| {
        let waits = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut events = [NONE];
                let count = wait(set, &mut events, -1).unwrap();
                told(&events, count)
            })
        });
        std::thread::sleep(Duration::from_millis(50));
        let event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 3,
        };
        change(set, ADD, sleep::fd_of(&bell), Ok(&event)).unwrap();
        for one in waits {
            assert_eq!(one.join().unwrap(), [(1, 3)]);
        }
        bell.silence();
        let waits = scope.spawn(|| wait(set, &mut [NONE], -1));
        std::thread::sleep(Duration::from_millis(50));
        let fd = sleep::fd_of(&bell);
        change(set, libc::EPOLL_CTL_DEL, fd, Err(Code::INVALID)).unwrap();
        close(set).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(0));
    });
}

#[test]
fn wrong_arguments_are_refused() {
    let set = create().unwrap();
    let bell = Bell::new(Op::CmGetEvent).unwrap();
    let fd = sleep::fd_of(&bell);
    let event = reads(0);
    assert_eq!(change(set, ADD, -1, Ok(&event)), Err(NO_SET));
    assert_eq!(change(set, ADD, set, Ok(&event)), Err(Code::INVALID));
    assert_eq!(change(fd, ADD, set, Ok(&event)), Err(Code::INVALID));
    assert_eq!(change(set, 9, fd, Ok(&event)), Err(Code::INVALID));
    assert_eq!(change(set, ADD, fd, Err(Code::INVALID)), Err(Code::INVALID));
    for how in [libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL] {
        assert_eq!(change(set, how, fd, Ok(&event)), Err(Code::NO_ENTRY));
    }
    assert_eq!(change(set, ADD, fd, Ok(&event)), Ok(()));
    let again = Err(Code::new(libc::EEXIST));
    assert_eq!(change(set, ADD, fd, Ok(&event)), again);
    assert_eq!(wait(set, &mut [], 0), Err(Code::INVALID));
    assert_eq!(wait(fd, &mut [NONE], 0), Err(Code::INVALID));
}
