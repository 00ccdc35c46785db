//! Bytes arrive in order, however they are written and read; a writer without room waits.

use std::io::{self, Read, Write};
use std::thread;

use fake_tests::{Bench, PATIENCE};
use uverbs::stream::{Stream, StreamError};
use uverbs_fake::CallKind;
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_POST_SEND;

use crate::{End, MOMENT, Numbers, connected, eventually, text};

/// Writes everything in parts, some of them without copying.
fn write_all(stream: &Stream, mut bytes: &[u8], seed: u64) {
    let mut numbers = Numbers(seed);
    let mut to = stream;
    while !bytes.is_empty() {
        let len = (1 + numbers.below(300)).min(bytes.len());
        let (piece, _) = bytes.split_at(len);
        let sent = if numbers.below(3) == 0 {
            let mut buffer = stream.buffer().unwrap();
            let most = usize::try_from(stream.peer_message_size()).unwrap();
            let len = len.min(buffer.len()).min(most);
            buffer[..len].copy_from_slice(&piece[..len]);
            stream.send(buffer, len).map(|()| len).unwrap()
        } else {
            to.write(piece).unwrap()
        };
        bytes = &bytes[sent..];
    }
    stream.shutdown().unwrap();
}

/// Reads to the end in parts, some of them without copying.
fn read_all(stream: &Stream, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let (mut from, mut all) = (stream, Vec::new());
    loop {
        if numbers.below(3) == 0 {
            match stream.recv().unwrap() {
                Some(chunk) => all.extend_from_slice(&chunk),
                None => return all,
            }
        } else {
            let mut piece = vec![0; 1 + numbers.below(300)];
            match from.read(&mut piece).unwrap() {
                0 => return all,
                len => all.extend_from_slice(&piece[..len]),
            }
        }
    }
}

#[test]
fn all_sizes_go_both_ways_at_once() {
    let sizes = [(1, 1, 600), (1, 64, 20_000), (2, 7, 5_000), (3, 64, 30_000)];
    for (credits, message_size, len) in sizes.into_iter().chain([(16, 4096, 400_000)]) {
        let bench = Bench::newest();
        let client = End::with(&bench, |streams| {
            streams.credits(credits).message_size(message_size)
        });
        // The other side's are different.
        let server = End::with(&bench, |streams| streams.credits(5).message_size(100));
        let listener = server.listen();
        let (here, there) = connected(&client, &listener);
        let len = if cfg!(miri) { len / 100 } else { len };
        let text = text(len);
        thread::scope(|scope| {
            scope.spawn(|| write_all(&here, &text, 1));
            scope.spawn(|| write_all(&there, &text, 2));
            let read = scope.spawn(|| read_all(&here, 3));
            assert!(read_all(&there, 4) == text);
            assert!(read.join().unwrap() == text);
        });
        drop((here, there, listener));
        client.is_clean();
        server.is_clean();
        eventually("ids are left", || bench.fake.connection_ids() == 0);
    }
}

#[test]
fn a_peer_that_never_reads_blocks_only_its_own_writer() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let (here, there) = connected(&client, &listener);
    let (third, fourth) = connected(&client, &listener);
    here.set_write_timeout(Some(MOMENT));
    let text = text(1000);
    let mut written = 0;
    let full = loop {
        match (&here).write(&text[written..]) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::TimedOut);
    assert_eq!(written, 4 * 64);
    // The other way is free, and so are other streams.
    (&there).write_all(b"free").unwrap();
    let mut answer = [0; 4];
    (&here).read_exact(&mut answer).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| write_all(&third, &text, 1));
        assert!(read_all(&fourth, 2) == text);
    });
    // Nothing is lost, nothing doubled.
    here.set_write_timeout(Some(PATIENCE));
    thread::scope(|scope| {
        scope.spawn(|| write_all(&here, &text[written..], 3));
        assert!(read_all(&there, 4) == text);
    });
}

#[test]
fn a_buffer_longer_than_the_peers_messages_is_refused() {
    let bench = Bench::newest();
    let client = End::with(&bench, |streams| streams.message_size(128));
    let server = End::new(&bench);
    let listener = server.listen();
    let (here, there) = connected(&client, &listener);
    let refused = here.send(here.buffer().unwrap(), 65).unwrap_err();
    assert!(
        matches!(
            refused,
            StreamError::TooLong {
                bytes: 65,
                most: 64
            }
        ),
        "{refused}"
    );
    here.send(here.buffer().unwrap(), 64).unwrap();
    here.send(here.buffer().unwrap(), 0).unwrap();
    assert_eq!(there.recv().unwrap().unwrap().len(), 64);
    // A buffer of others.
    let refused = here.send(there.buffer().unwrap(), 1).unwrap_err();
    assert!(matches!(refused, StreamError::Failed(_)), "{refused}");
    (&here).write_all(b"goes on").unwrap();
    assert_eq!(&there.recv().unwrap().unwrap()[..], b"goes on");
    drop((here, there));
    server.is_clean();
}

#[test]
fn nothing_is_sent_without_waiting_for_the_peer() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let (here, _there) = connected(&client, &server.listen());
    here.set_write_timeout(Some(MOMENT));
    while (&here).write(b"x").is_ok() {}
    assert_eq!((&here).write(&[]).unwrap(), 0);
    here.send(here.buffer().unwrap(), 0).unwrap();
    here.set_write_timeout(Some(PATIENCE));
    here.shutdown().unwrap();
    let refused = (&here).write(&[]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe, "{refused}");
}

#[test]
fn a_partly_read_message_is_taken_from_where_it_was_left() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let (here, there) = connected(&client, &listener);
    (&here).write_all(b"first second").unwrap();
    let mut first = [0; 6];
    (&there).read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first ");
    assert_eq!(&there.recv().unwrap().unwrap()[..], b"second");
    assert_eq!((&there).read(&mut []).unwrap(), 0);
}

#[test]
fn chunks_that_are_kept_use_up_buffers_and_end_in_an_error() {
    let bench = Bench::newest();
    let (client, server) = (
        End::with(&bench, |streams| streams.connections(1)),
        End::with(&bench, |streams| streams.connections(1)),
    );
    let listener = server.listen();
    let (here, there) = connected(&client, &listener);
    let mut kept = Vec::new();
    while let Ok(buffer) = there.buffer() {
        kept.push(buffer);
    }
    assert!(!kept.is_empty());
    let long = [b'x'; 65];
    let refused = (&there).write(&long).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::Other, "{refused}");
    // Few bytes need no buffer.
    (&there).write_all(b"few").unwrap();
    assert_eq!(&here.recv().unwrap().unwrap()[..], b"few");
    drop(kept);
    // With buffers again it goes on.
    (&there).write_all(&long).unwrap();
    let mut arrived = [0; 65];
    (&here).read_exact(&mut arrived).unwrap();
    assert_eq!(arrived, long);
}

#[test]
fn buffers_of_what_arrived_together_go_back_together_unless_receives_wait_for_one() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let (active, passive) = connected(&client, &server.listen());
    let send_four = || (0..4).for_each(|_| (&active).write_all(&[1]).unwrap());
    let read_one = || {
        (&passive).read_exact(&mut [0]).unwrap();
        server.streams.hub().counts().free_buffers
    };
    send_four();
    let before = server.streams.hub().counts().free_buffers;
    let free = [0; 4].map(|_| read_one());
    assert_eq!(free, [before - 4, before - 4, before - 4, before]);
    let kept: Vec<_> = std::iter::from_fn(|| passive.buffer().ok()).collect();
    send_four();
    assert_eq!([0; 2].map(|_| read_one()), [1, 2]);
    drop(kept);
    drop((active, passive));
    client.is_clean();
    server.is_clean();
}

/// The peer, which has no credits left, goes on meanwhile.
#[test]
fn a_long_read_grants_credits_in_between() {
    let bench = Bench::newest();
    let end = || End::with(&bench, |streams| streams.keepalive(None));
    let (client, server) = (end(), end());
    let (here, there) = connected(&client, &server.listen());
    let sent = text(4 * 64);
    (&here).write_all(&sent).unwrap();
    let before = doorbells(&bench);
    let mut all = vec![0; sent.len()];
    assert_eq!((&there).read(&mut all).unwrap(), sent.len());
    assert!(all == sent);
    assert_eq!(doorbells(&bench) - before, 2, "once half can be given back");
}

/// How often the device was told of sends.
fn doorbells(bench: &Bench) -> usize {
    let is_doorbell = |call| match call {
        CallKind::Invoked(number) | CallKind::Written(number) => {
            number & 0xff == IB_USER_VERBS_CMD_POST_SEND
        }
        _ => false,
    };
    let seen = bench.fake.seen();
    seen.iter().filter(|seen| is_doorbell(seen.call)).count()
}

#[test]
fn the_device_gets_the_first_of_a_long_write_at_once() {
    const KIB: usize = 1 << 10;
    // The bytes of a message here and there, those of a write, and the doorbells for them.
    let writes = [
        ([4096; 2], 4 * KIB, 1),
        ([4096; 2], 16 * KIB, 1),
        ([4096; 2], 16 * KIB + 1, 2),
        ([4096; 2], 80 * KIB, 2),
        ([4096; 2], 80 * KIB + 1, 3),
        ([16_384; 2], 16 * KIB, 1),
        ([16_384; 2], 32 * KIB, 2),
        ([64; 2], KIB, 1),
        ([64; 2], KIB + 1, 2),
        ([4096, 65_536], 16 * KIB, 1),
        ([4096, 65_536], 16 * KIB + 1, 2),
        ([65_536, 4096], 16 * KIB, 1),
        ([65_536, 4096], 16 * KIB + 1, 2),
        ([16, 4096], 64, 1),
        ([16, 4096], 65, 1),
    ];
    for (sizes, len, expected) in writes {
        let bench = Bench::newest();
        let [client, server] = sizes.map(|message_size| {
            End::with(&bench, |streams| {
                streams
                    .message_size(message_size)
                    .credits(64)
                    .keepalive(None)
            })
        });
        let (here, there) = connected(&client, &server.listen());
        let before = doorbells(&bench);
        let sent = text(len);
        assert_eq!((&here).write(&sent).unwrap(), len);
        let after = doorbells(&bench);
        assert_eq!(after - before, expected, "{len} bytes by {sizes:?}");
        let mut all = vec![0; len];
        (&there).read_exact(&mut all).unwrap();
        assert!(all == sent);
    }
}
