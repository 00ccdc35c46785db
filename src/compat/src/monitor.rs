//! Asynchronous events.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_core::types::{AsyncEventType, EventObject};

use crate::abi::ibv_async_event;
use crate::answer::minus_one;
use crate::channel::read_event;
use crate::context::Context;
use crate::cq::Cq;
use crate::dv::Wq;
use crate::errno::{Code, set};
use crate::events;
use crate::pointer::{Handle, In, Out};
use crate::qp::Qp;
use crate::srq::Srq;

/// An event in the kernel's file: the object's number (or the port's), and the type.
const WORDS: usize = 2;

#[unsafe(no_mangle)]
extern "C" fn ibv_get_async_event(context: Handle<Context>, event: Out<ibv_async_event>) -> c_int {
    let Ok(opened) = context.get() else {
        set(Code::INVALID);
        return -1;
    };
    let mut words = [0_u64; WORDS];
    if !read_event(opened.events(), words.as_mut_ptr(), WORDS) {
        return -1;
    }
    deliver(&words, event)
}

/// Apart from the function that waits: see [`crate::channel`].
#[inline(never)]
extern "C" fn deliver(words: &[u64; WORDS], event: Out<ibv_async_event>) -> c_int {
    minus_one(|| {
        let [element, kind] = *words;
        let [a, b, c, d, ..] = kind.to_ne_bytes();
        let event_type = u32::from_ne_bytes([a, b, c, d]);
        let element = match AsyncEventType::from_raw(event_type).object() {
            Some(EventObject::Port) => in_the_first_half(element),
            Some(EventObject::Device) | None => element,
            Some(_) => {
                let found = events::find(element).ok_or(Code::new(libc::EIO))?;
                found.pointer.addr() as u64
            }
        };
        event.put(ibv_async_event {
            element,
            event_type,
        })?;
        Ok(0)
    })
}

/// A port's number as the `int` that begins the union.
fn in_the_first_half(port: u64) -> u64 {
    let [a, b, c, d] = u32::try_from(port).unwrap_or(0).to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(event: In<ibv_async_event>) {
    let Ok(event) = event.get() else { return };
    let element = usize::try_from(event.element).unwrap_or(0);
    match AsyncEventType::from_raw(event.event_type).object() {
        Some(EventObject::CompletionQueue) => {
            let queue = Handle::<Cq>::of(std::ptr::with_exposed_provenance_mut(element));
            if let Ok(queue) = queue.get() {
                queue.acknowledge_async();
            }
        }
        Some(EventObject::QueuePair) => {
            let queue = Handle::<Qp>::of(std::ptr::with_exposed_provenance_mut(element));
            if let Ok(queue) = queue.get() {
                queue.acknowledge();
            }
        }
        Some(EventObject::SharedReceiveQueue) => {
            let queue = Handle::<Srq>::of(std::ptr::with_exposed_provenance_mut(element));
            if let Ok(queue) = queue.get() {
                queue.acknowledge();
            }
        }
        Some(EventObject::WorkQueue) => {
            let queue = Handle::<Wq>::of(std::ptr::with_exposed_provenance_mut(element));
            if let Ok(queue) = queue.get() {
                queue.acknowledge();
            }
        }
        _ => {}
    }
}
