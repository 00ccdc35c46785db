//! The completion queues that an id gets where the program gives none: one for each direction, each
//! with a channel to wait at.

use std::cell::Cell;
use std::ffi::c_int;

use uverbs_compat_base::abi::{ibv_comp_channel, ibv_cq};

use crate::abi::qp_type;
use crate::answer::Answer;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::id::Id;
use crate::verbs;

/// Creates those that have entries.
pub(crate) fn create(id: &Id, sends: u32, receives: u32) -> Answer<()> {
    let done = (|| {
        if receives > 0 {
            let channel = verbs::create_comp_channel(context(id)?)?;
            id.c.recv_cq_channel.set(channel);
            id.c.recv_cq.set(queue(id, receives, channel)?);
        }
        if sends > 0 {
            let channel = verbs::create_comp_channel(context(id)?)?;
            id.c.send_cq_channel.set(channel);
            id.c.send_cq.set(queue(id, sends, channel)?);
        }
        Ok(())
    })();
    if done.is_err() {
        destroy(id);
    }
    done
}

fn context(id: &Id) -> Answer<*mut uverbs_compat_base::abi::ibv_context> {
    let context = id.c.verbs.get();
    if context.is_null() {
        return Err(NO_DEVICE);
    }
    Ok(context)
}

fn queue(id: &Id, entries: u32, channel: *mut ibv_comp_channel) -> Answer<*mut ibv_cq> {
    let entries = c_int::try_from(entries).map_err(|_| Code::INVALID)?;
    let cookie = std::ptr::from_ref(&id.c).cast_mut().cast();
    verbs::create_cq(id.c.verbs.get(), entries, cookie, channel, 0)
}

/// Destroys them, and those that the program has put there in their place. The queue of an XRC
/// receive queue stays with that.
pub(crate) fn destroy(id: &Id) {
    if id.c.qp_type == qp_type::XRC_RECV && !id.c.srq.get().is_null() {
        return;
    }
    for queue in each([&id.c.recv_cq, &id.c.send_cq]) {
        let _ = verbs::destroy_cq(queue);
    }
    for channel in each([&id.c.recv_cq_channel, &id.c.send_cq_channel]) {
        let _ = verbs::destroy_comp_channel(channel);
    }
}

/// Takes both out, once each: programs use one object for both directions, too.
fn each<T>(both: [&Cell<*mut T>; 2]) -> impl Iterator<Item = *mut T> {
    let [one, other] = both.map(|place| place.replace(std::ptr::null_mut()));
    let other = if other == one {
        std::ptr::null_mut()
    } else {
        other
    };
    [one, other]
        .into_iter()
        .filter(|pointer| !pointer.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_for_both_directions_is_destroyed_once() {
        let taken = |one, other| {
            let both = [one, other].map(|at| Cell::new(std::ptr::without_provenance_mut::<u8>(at)));
            let taken: Vec<_> = each([&both[0], &both[1]]).map(<*mut u8>::addr).collect();
            assert!(both.iter().all(|place| place.get().is_null()));
            taken
        };
        assert_eq!(taken(1, 2), [1, 2]);
        assert_eq!(taken(1, 1), [1]);
        assert_eq!(taken(0, 2), [2]);
        assert_eq!(taken(0, 0), [0; 0]);
    }
}
