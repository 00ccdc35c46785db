//! A peer of a stream that says anything.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use uverbs::cm::{self, ConnectData, EventChannel};
use uverbs::hub::{Connection, Hub};
use uverbs::stream::{Stream, StreamListener};
use uverbs::{ProtectionDomain, Result};

use super::Input;
use crate::connections::ADDRESS;
use crate::{Bench, PATIENCE};

/// Bytes of a message, as both sides say.
const SIZE: usize = 64;
/// Says that the peer takes two of them.
const HELLO: [u8; 16] = *b"uvST\x01\0\0\x02\0\0\0\x40\0\0\0\0";
/// The most steps of one input.
const STEPS: usize = 64;

/// Connects with a greeting that the first bytes change, then sends messages, reads and writes as
/// the rest says.
///
/// # Panics
/// If a greeting is taken that is none, or the stream delivers something else than the first bytes
/// of what was sent.
pub fn stream_wire(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut hello = HELLO;
    if input.byte().is_multiple_of(4) {
        for byte in &mut hello {
            *byte ^= input.byte();
        }
    }
    let bench = Bench::newest();
    let (Ok(server), Ok(client)) = (end(&bench), end(&bench)) else {
        return;
    };
    let streams = server.pd.streams().gid_index(1).channel(&server.channel);
    let streams = streams.connections(1).message_size(64).credits(4);
    let Ok(streams) = streams.keepalive(None).build() else {
        return;
    };
    let Ok(listener) = streams.listen(SocketAddr::from((ADDRESS, 0))) else {
        return;
    };
    let hub = client.pd.hub().buffer_size(SIZE);
    let Ok(hub) = hub.queue_pairs(|queue| queue.gid_index(1)).build() else {
        return;
    };
    let Some((peer, stream)) = connected(&client, &hub, &listener, &hello) else {
        return;
    };
    let [magic @ .., _, _, _, _] = &hello;
    assert_eq!(magic[..5], HELLO[..5], "this is no greeting");
    assert!(magic[6..8] != [0; 2] && magic[8..12] != [0; 4], "nor this");
    talk(&mut input, &hub, &peer, stream);
}

/// One end: a device and an event channel.
struct End {
    pd: ProtectionDomain,
    channel: EventChannel,
}

fn end(bench: &Bench) -> Result<End> {
    Ok(End {
        pd: bench.context()?.alloc_pd()?,
        channel: bench.channel()?,
    })
}

/// A connection of a plain hub to a stream; `None` if the greeting is refused.
fn connected(
    client: &End,
    hub: &Hub,
    listener: &StreamListener,
    hello: &[u8],
) -> Option<(Connection, Stream)> {
    let is_refused = AtomicBool::new(false);
    thread::scope(|scope| {
        let passive = scope.spawn(|| {
            let soon = Duration::from_millis(5);
            while !is_refused.load(Ordering::Acquire) {
                if let Ok(Some(stream)) = listener.accept_timeout(soon) {
                    return Some(stream);
                }
            }
            None
        });
        let connector = cm::connect(listener.local_addr()).timeout(PATIENCE);
        let peer = connector
            .channel(&client.channel)
            .resolve()
            .and_then(|peer| {
                let peer = peer.private_data(ConnectData::new(hello)?);
                hub.prepare()?.connect_to(peer)
            });
        is_refused.store(peer.is_err(), Ordering::Release);
        let stream = passive.join().ok().flatten();
        peer.ok().zip(stream)
    })
}

fn talk(input: &mut Input<'_>, hub: &Hub, peer: &Connection, mut stream: Stream) {
    // Nothing is waited for: what there is is there.
    stream.set_read_timeout(Some(Duration::ZERO));
    stream.set_write_timeout(Some(Duration::ZERO));
    let (mut sent, mut read) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        match input.byte() % 8 {
            0 => {
                let mut part = [0; SIZE];
                if let Ok(len) = stream.read(&mut part) {
                    read.extend_from_slice(&part[..len]);
                }
            }
            1 => {
                if let Ok(Some(part)) = stream.recv() {
                    read.extend_from_slice(&part);
                }
            }
            2 => drop(stream.write(&[7; 100][..usize::from(input.byte() % 100)])),
            3 => drop(stream.shutdown()),
            kind => {
                let len = usize::from(input.byte()) % (SIZE + 1);
                let imm = match kind {
                    4 => None,
                    5 => Some(input.word()),
                    // Those that have a meaning.
                    _ => Some(u32::from(input.byte() % 4) | u32::from(kind == 7) << 16),
                };
                let Ok(mut buffer) = hub.buffer() else {
                    break;
                };
                for byte in buffer.iter_mut().take(len) {
                    *byte = input.byte();
                }
                sent.extend_from_slice(&buffer[..len]);
                // It goes on when nobody waits for it.
                let request = match imm {
                    Some(imm) => peer.send_imm(buffer, len, imm),
                    None => peer.send(buffer, len),
                };
                drop(request.wait(Duration::ZERO));
            }
        }
        while let Ok(message) = peer.recv().wait(Duration::ZERO) {
            drop(message);
        }
        assert!(sent.starts_with(&read), "{read:?} of {sent:?}");
    }
}
