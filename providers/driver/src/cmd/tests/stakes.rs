//! What becomes of the memory of objects, however the commands end that they begin and end with.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Bench, Script};
use crate::channel::Channel;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::object::{Object, ObjectKind};

/// Memory, and whether it is still there.
fn memory() -> (Arc<()>, impl Fn() -> bool) {
    let memory = Arc::new(());
    let weak = Arc::downgrade(&memory);
    (memory, move || weak.strong_count() > 0)
}

fn channel(script: Script) -> (Arc<Script>, Arc<Channel>) {
    let Bench { script, channel } = Bench::new(script);
    (script, Arc::new(channel))
}

fn region(
    channel: &Arc<Channel>,
    memory: Arc<()>,
    command: impl FnOnce() -> Result<u32>,
) -> Result<Object> {
    let kind = ObjectKind::MemoryRegion;
    Object::create(channel, kind, [], memory, command, |handle| *handle).map(|(object, _)| object)
}

fn asked(script: &Script) -> usize {
    std::mem::take(&mut *script.lines.lock().unwrap()).len()
}

#[test]
fn memory_of_a_creation_of_unknown_outcome_is_given_up() {
    let op = Op::RegisterMemory;
    let unknown = [
        Error::bad_reply(op, "nothing"),
        Error::os(op, Errno::TIMEDOUT),
        Error::os(op, Errno::NOTRECOVERABLE),
    ];
    for error in unknown {
        let (_, channel) = channel(Script::new());
        let (memory, is_there) = memory();
        assert!(error.outcome_is_unknown(), "{error}");
        region(&channel, memory, || Err(error)).unwrap_err();
        assert_eq!((is_there(), channel.leaked()), (true, 1));
    }
    for errno in [Errno::NOMEM, Errno::IO, Errno::INTR, Errno::NOLINK] {
        let (_, channel) = channel(Script::new());
        let (memory, is_there) = memory();
        region(&channel, memory, || Err(Error::os(op, errno))).unwrap_err();
        assert_eq!((is_there(), channel.leaked()), (false, 0), "{errno}");
    }
}

#[test]
fn memory_of_a_creation_that_unwinds_is_given_up() {
    let (script, channel) = channel(Script::new());
    let (memory, is_there) = memory();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        region(&channel, memory, || std::panic::panic_any("on purpose"))
    }));
    assert!(unwound.is_err());
    assert_eq!((is_there(), channel.leaked()), (true, 1));
    assert_eq!(asked(&script), 0);
}

#[test]
fn memory_of_an_object_goes_with_a_confirmed_destroy_alone() {
    let (_, channel) = channel(Script::new());
    let (memory, is_there) = memory();
    let object = region(&channel, memory, || Ok(5)).unwrap();
    let (more, more_is_there) = self::memory();
    object.keep(more);
    object.destroy().unwrap();
    assert_eq!(
        (is_there(), more_is_there(), channel.leaked()),
        (false, false, 0)
    );

    let (_, channel) = self::channel(Script::new().refusing("ioctl 7/1", Errno::BUSY));
    let (memory, is_there) = self::memory();
    drop(region(&channel, memory, || Ok(5)).unwrap());
    assert_eq!((is_there(), channel.leaked()), (true, 1));
}

#[test]
fn a_refused_destroy_of_a_shared_object_gives_it_back_whole() {
    let (_, channel) = channel(Script::new().refusing("ioctl 7/1", Errno::BUSY));
    let (memory, is_there) = memory();
    let object = Arc::new(region(&channel, memory, || Ok(5)).unwrap());
    let (object, error) = Object::try_destroy_shared(object).unwrap_err();
    assert_eq!((error.kind(), channel.leaked()), (ErrorKind::Busy, 0));
    assert!(is_there());
    drop(object);
    assert_eq!((is_there(), channel.leaked()), (true, 1));
}

/// Its handle may be another object's by then.
#[test]
fn an_object_whose_destroy_may_be_done_is_not_destroyed_again() {
    let (script, channel) = channel(Script::new().refusing("ioctl 7/1", Errno::NOTRECOVERABLE));
    let (memory, is_there) = memory();
    let object = Arc::new(region(&channel, memory, || Ok(5)).unwrap());
    let (object, error) = Object::try_destroy_shared(object).unwrap_err();
    assert_eq!((error.kind(), channel.leaked()), (ErrorKind::Panicked, 1));
    assert_eq!(asked(&script), 1);
    let (object, error) = Object::try_destroy_shared(object).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    let (more, more_is_there) = self::memory();
    object.keep(more);
    drop(object);
    assert_eq!(asked(&script), 0);
    assert_eq!(
        (is_there(), more_is_there(), channel.leaked()),
        (true, true, 1)
    );
}

#[test]
fn a_region_that_moves_keeps_both_until_it_is_known_where_it_is() {
    let outcomes = [
        (None, (false, true)),
        (Some(Errno::INVAL), (true, false)),
        (Some(Errno::NOTRECOVERABLE), (true, true)),
    ];
    for (errno, expected) in outcomes {
        let (_, channel) = channel(Script::new());
        let (former, former_is_there) = memory();
        let (latter, latter_is_there) = memory();
        let mut object = region(&channel, former, || Ok(5)).unwrap();
        let moved = object.exchange(None, Some(latter), |_| {
            assert!(former_is_there() && latter_is_there());
            errno.map_or(Ok(()), |errno| Err(Error::os(Op::ReregisterMemory, errno)))
        });
        assert_eq!(moved.is_ok(), errno.is_none());
        assert_eq!((former_is_there(), latter_is_there()), expected);
        object.destroy().unwrap();
        assert!(!former_is_there() && !latter_is_there());
    }
}
