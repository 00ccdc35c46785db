//! Commands of the connection manager in any order, and a kernel whose replies and events are
//! anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uverbs_core::ErrorKind;
use uverbs_core::cm::{self, CmFile, ConnectionParams, EventKind, PortSpace};
use uverbs_core::types::{Ece, QpState, QpType};
use uverbs_fake::{Effect, When};
use uverbs_uapi::rdma_user_cm::rdma_ucm_event_resp;
use zerocopy::FromBytes;

use super::Input;
use crate::Bench;
use crate::connections::at;

/// The most commands of one input.
const COMMANDS: usize = 128;

/// Decodes the bytes as an event, then issues the commands that they say, while the kernel writes
/// the rest of them over its replies.
///
/// # Panics
/// If private data is longer than the kernel's array, or an event differs from its bytes.
pub fn cm_event(bytes: &[u8]) {
    decode(bytes);
    let mut input = Input::new(bytes);
    let bench = Bench::newest();
    let (Ok(client), Ok(server)) = (bench.connection_manager(), bench.connection_manager()) else {
        return;
    };
    let truth = usize::from(input.byte());
    let lies = Arc::new(Mutex::new(bytes.to_vec()));
    let rewrite = Arc::new(move |_: u16, reply: &mut [u8]| {
        let mut lies = lies.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in reply {
            if let Some(lie) = lies.pop() {
                *byte ^= lie;
            }
        }
    });
    for count in 0..COMMANDS {
        if input.is_empty() {
            break;
        }
        // Without lies at first, so that ids come some way.
        if count == truth % COMMANDS {
            bench.inject(When::Always, Effect::Rewrite(rewrite.clone()));
        }
        let file = if input.byte().is_multiple_of(2) {
            &client
        } else {
            &server
        };
        command(file, &mut input);
    }
}

fn decode(bytes: &[u8]) {
    let mut whole = [0; size_of::<rdma_ucm_event_resp>()];
    for (to, from) in whole.iter_mut().zip(bytes) {
        *to = *from;
    }
    let Ok(raw) = rdma_ucm_event_resp::read_from_bytes(&whole) else {
        return;
    };
    match cm::decode_event(&raw) {
        Ok(event) => {
            assert_eq!((event.uid, event.id), (raw.uid, raw.id));
            assert_eq!(event.kind.raw(), raw.event);
            assert!(event.connection().private_data.as_bytes().len() < 256);
            assert!(event.datagram().private_data.as_bytes().len() < 256);
            let _ = (event.outcome(), event.argument(), event.kind.to_string());
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::BadReply),
    }
}

fn command(file: &CmFile, input: &mut Input<'_>) {
    let (id, soon) = (u32::from(input.byte() % 8), Duration::from_secs(1));
    let params = ConnectionParams {
        qp_num: u32::from(input.byte()),
        ..ConnectionParams::default()
    };
    let space = [PortSpace::Tcp, PortSpace::Udp][usize::from(id % 2 == 1)];
    match input.byte() % 16 {
        0 => drop(cm::create_id(file, 1, space, QpType::Rc)),
        1 => drop(cm::destroy_id(file, id)),
        2 => drop(cm::bind(file, id, at(u16::from(input.byte())))),
        3 => drop(cm::listen(file, id, u32::from(input.byte()))),
        4 => drop(cm::resolve_address(
            file,
            id,
            None,
            at(u16::from(input.byte())),
            soon,
        )),
        5 => drop(cm::resolve_route(file, id, soon)),
        6 => drop(cm::connect(file, id, &params, Ece::default())),
        7 => drop(cm::accept(file, id, 1, &params, Ece::default())),
        8 => drop(cm::establish(file, id)),
        9 => drop(cm::disconnect(file, id)),
        10 => drop(cm::query_route(file, id)),
        11 => drop(cm::query_paths(file, id)),
        12 => drop(cm::query_services(file, id)),
        13 => drop(cm::init_qp_attr(
            file,
            id,
            QpState::from_raw(input.byte() % 8),
        )),
        14 => drop(cm::join_multicast_ip(file, id, 1, at(0))),
        // A request's new id is the reader's.
        _ => {
            if let Ok(event) = cm::get_event(file)
                && event.kind == EventKind::ConnectRequest
            {
                drop(cm::accept(file, event.id, 2, &params, event.ece));
            }
        }
    }
}
