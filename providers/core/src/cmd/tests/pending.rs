//! What happens to the memory of objects, for every outcome of the commands that create and destroy
//! them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Bench, Script};
use crate::cmd::{mr, pd, qp};
use crate::contract::{attach_multicast, detach_multicast};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{EventCounts, Gid};

/// Memory, and whether it is still alive.
fn memory() -> (Arc<()>, impl Fn() -> bool) {
    let memory = Arc::new(());
    let weak = Arc::downgrade(&memory);
    (memory, move || weak.strong_count() > 0)
}

fn file(script: Script) -> (Arc<Script>, Arc<UverbsFile>) {
    let Bench { script, file } = Bench::new(script);
    (script, Arc::new(file))
}

fn region(
    file: &Arc<UverbsFile>,
    memory: Arc<()>,
    command: impl FnOnce() -> Result<u32>,
) -> Result<Object> {
    let kind = &mr::KIND;
    Object::create(file, kind, [], memory, command, |handle| *handle).map(|(object, _)| object)
}

fn lines(script: &Script) -> Vec<String> {
    std::mem::take(&mut *script.lines.lock().unwrap())
}

fn commands(script: &Script) -> usize {
    lines(script).len()
}

fn try_shared(object: &mut Arc<Object>) -> Result<EventCounts> {
    Object::sole(object).and_then(Object::try_destroy)
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
        let (_, file) = file(Script::new());
        let (memory, is_there) = memory();
        assert!(error.outcome_is_unknown(), "{error}");
        region(&file, memory, || Err(error)).unwrap_err();
        assert_eq!((is_there(), file.leaked()), (true, 1));
    }
    for errno in [Errno::NOMEM, Errno::IO, Errno::INTR, Errno::NOLINK] {
        let (_, file) = file(Script::new());
        let (memory, is_there) = memory();
        region(&file, memory, || Err(Error::os(op, errno))).unwrap_err();
        assert_eq!((is_there(), file.leaked()), (false, 0), "{errno}");
    }
}

#[test]
fn memory_of_a_creation_that_unwinds_is_given_up() {
    let (script, file) = file(Script::new());
    let (memory, is_there) = memory();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        region(&file, memory, || std::panic::panic_any("on purpose"))
    }));
    assert!(unwound.is_err());
    assert_eq!((is_there(), file.leaked()), (true, 1));
    assert_eq!(commands(&script), 0);
}

#[test]
fn memory_of_an_object_goes_with_a_confirmed_destroy_alone() {
    let (_, file) = file(Script::new());
    let (memory, is_there) = memory();
    let object = region(&file, memory, || Ok(5)).unwrap();
    let (more, more_is_there) = self::memory();
    object.keep(more);
    assert!(is_there() && more_is_there());
    object.destroy().unwrap();
    assert_eq!(
        (is_there(), more_is_there(), file.leaked()),
        (false, false, 0)
    );

    let (_, file) = self::file(Script::new().refusing("ioctl 7/1", Errno::BUSY));
    let (memory, is_there) = self::memory();
    drop(region(&file, memory, || Ok(5)).unwrap());
    assert_eq!((is_there(), file.leaked()), (true, 1));
}

#[test]
fn a_refused_destroy_of_a_shared_object_gives_it_back_whole() {
    let (_, file) = file(Script::new().refusing("ioctl 7/1", Errno::BUSY));
    let (memory, is_there) = memory();
    let mut object = Arc::new(region(&file, memory, || Ok(5)).unwrap());
    let error = try_shared(&mut object).unwrap_err();
    assert_eq!((error.errno(), file.leaked()), (Some(Errno::BUSY), 0));
    assert!(is_there());
    let user = Arc::clone(&object);
    let error = try_shared(&mut object).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, None));
    drop((user, object));
    assert_eq!((is_there(), file.leaked()), (true, 1));
}

/// Its handle may be another object's by then.
#[test]
fn an_object_whose_destroy_may_be_done_is_not_destroyed_again() {
    let (script, file) = file(Script::new().refusing("ioctl 7/1", Errno::NOTRECOVERABLE));
    let (memory, is_there) = memory();
    let mut object = region(&file, memory, || Ok(5)).unwrap();
    let error = object.try_destroy().unwrap_err();
    assert_eq!((error.kind(), file.leaked()), (ErrorKind::Panicked, 1));
    assert_eq!(commands(&script), 1);
    let error = object.try_destroy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    let (more, more_is_there) = self::memory();
    object.keep(more);
    drop(object);
    assert_eq!(commands(&script), 0);
    assert_eq!(
        (is_there(), more_is_there(), file.leaked()),
        (true, true, 1)
    );
}

#[test]
fn a_reregistered_region_keeps_both_memories_until_the_outcome_is_known() {
    let outcomes = [
        (None, (false, true)),
        (Some(Errno::INVAL), (true, false)),
        (Some(Errno::NOTRECOVERABLE), (true, true)),
    ];
    for (errno, expected) in outcomes {
        let (_, file) = file(Script::new());
        let (former, former_is_there) = memory();
        let (latter, latter_is_there) = memory();
        let mut object = region(&file, former, || Ok(5)).unwrap();
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

fn parent(file: &Arc<UverbsFile>, handle: u32) -> Arc<Object> {
    Arc::new(Object::new(file, &pd::KIND, handle, []))
}

#[test]
fn parents_that_are_the_same_or_have_others_between_them_go_after_their_child() {
    let (script, file) = file(Script::new());
    let (one, other) = (parent(&file, 1), parent(&file, 2));
    let parents = [&one, &other, &other, &one].map(Arc::clone);
    let child = Object::new(&file, &qp::KIND, 5, parents);
    drop((one, other));
    assert_eq!(commands(&script), 0);
    drop(child);
    let [child, first, second]: [String; 3] = lines(&script).try_into().unwrap();
    assert_eq!(child, DESTROY);
    assert!(
        first.contains("obj=2") && second.contains("obj=1"),
        "{first}, {second}"
    );
}

struct Role;

#[test]
fn a_change_of_parent_and_memory_leaves_what_is_used_and_steps_before_the_destroy() {
    for errno in [None, Some(Errno::INVAL)] {
        let (script, file) = file(Script::new());
        let (former, former_is_there) = memory();
        let (latter, latter_is_there) = memory();
        let mut object = member(&file);
        object.keep(former);
        object.set_use::<Role>(Some(parent(&file, 1)));
        let (old, new) = (parent(&file, 2), parent(&file, 3));
        let became = object.exchange(Some(old), None::<()>, |_| Ok(()));
        became.unwrap();
        lines(&script);
        let moved = object.exchange(Some(new), Some(latter), |_| {
            errno.map_or(Ok(()), |errno| Err(Error::os(Op::ReregisterMemory, errno)))
        });
        assert_eq!(moved.is_ok(), errno.is_none());
        assert_eq!(
            (former_is_there(), latter_is_there()),
            match errno {
                None => (false, true),
                Some(_) => (true, false),
            }
        );
        let released = if errno.is_none() { "obj=2" } else { "obj=3" };
        let [line]: [String; 1] = lines(&script).try_into().unwrap();
        assert!(line.contains(released), "{line}");
        drop(object);
        let all = lines(&script);
        assert_eq!(all.get(..3).unwrap(), [LEAVE, LEAVE, DESTROY]);
        let rest = all.get(3..).unwrap().concat();
        let kept = if errno.is_none() { "obj=3" } else { "obj=2" };
        assert!(rest.contains("obj=1") && rest.contains(kept), "{rest}");
        assert_eq!((all.len(), file.leaked()), (5, 0));
    }
}

#[test]
fn no_command_is_sent_for_an_object_after_try_destroy() {
    let (script, file) = file(Script::new());
    let (memory, is_there) = memory();
    let mut object = region(&file, memory, || Ok(5)).unwrap();
    object.try_destroy().unwrap();
    assert_eq!((is_there(), commands(&script)), (false, 1));
    let error = object.try_destroy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    drop(object);
    assert_eq!((commands(&script), file.leaked()), (0, 0));
}

const LEAVE: &str = "invoke 31 in24";
const DESTROY: &str = "ioctl 4/1 0:obj=5 1:out4";

/// A queue pair that is in two groups, and has left a third.
fn member(file: &Arc<UverbsFile>) -> Object {
    let qp = Object::new(file, &qp::KIND, 5, []);
    let group = |last| Gid::from_bytes([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    for last in 1..4 {
        attach_multicast(&qp, &group(last), 0).unwrap();
    }
    detach_multicast(&qp, &group(2), 0).unwrap();
    qp
}

#[test]
fn a_queue_pair_leaves_its_groups_before_it_goes() {
    let (script, file) = file(Script::new());
    let qp = member(&file);
    assert_eq!(commands(&script), 4);
    drop(qp);
    assert_eq!(lines(&script), [LEAVE, LEAVE, DESTROY]);
}

#[test]
fn a_repeated_destroy_does_not_detach_groups_again() {
    let (script, file) = file(Script::new().refusing(DESTROY, Errno::BUSY));
    let mut qp = member(&file);
    lines(&script);
    qp.try_destroy().unwrap_err();
    assert_eq!(lines(&script), [LEAVE, LEAVE, DESTROY]);
    qp.try_destroy().unwrap_err();
    assert_eq!(lines(&script), [DESTROY]);
    drop(qp);
    assert_eq!((commands(&script), file.leaked()), (1, 1));
}

#[test]
fn failed_attaches_and_detaches_of_groups() {
    let script = || Script::new().refusing(DESTROY, Errno::BUSY);
    let (of, on) = file(script().refusing(LEAVE, Errno::NOMEM));
    let mut qp = Object::new(&on, &qp::KIND, 5, []);
    attach_multicast(&qp, &Gid::default(), 0).unwrap();
    for _ in 0..2 {
        lines(&of);
        qp.try_destroy().unwrap_err();
        assert_eq!(lines(&of), [LEAVE, DESTROY]);
    }

    let (script, file) = file(script().refusing("invoke 30", Errno::NOMEM));
    let mut qp = Object::new(&file, &qp::KIND, 5, []);
    attach_multicast(&qp, &Gid::default(), 0).unwrap_err();
    lines(&script);
    // It is in no group.
    qp.try_destroy().unwrap_err();
    assert_eq!(lines(&script), [DESTROY]);
}
