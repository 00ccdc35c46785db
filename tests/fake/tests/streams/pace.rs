//! However fast either side reads and writes: once a side has shut down successfully, its peer gets
//! everything, whoever leaves first.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use fake_tests::Bench;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use uverbs::stream::Stream;

use crate::tasks::{drive, in_time, runtime};
use crate::{End, Numbers, connected, connector, text};

const ROUNDS: u64 = if cfg!(miri) { 1 } else { 100 };
const TEXT: usize = if cfg!(miri) { 600 } else { 3000 };

/// One time in a few, a moment in which the other side goes on.
fn rest(numbers: &mut Numbers) {
    match numbers.below(24) {
        0 => thread::sleep(Duration::from_millis(2)),
        1..6 => thread::yield_now(),
        _ => {}
    }
}

fn write(mut to: &Stream, text: &[u8], mut numbers: Numbers) {
    let mut left = text;
    while !left.is_empty() {
        let (piece, after) = left.split_at(left.len().min(1 + numbers.below(200)));
        to.write_all(piece).unwrap();
        left = after;
        rest(&mut numbers);
    }
    to.shutdown().unwrap();
}

fn read(mut from: &Stream, text: &[u8], mut numbers: Numbers) {
    let (mut all, mut piece) = (Vec::new(), [0; 150]);
    loop {
        let before = all.len();
        if numbers.below(4) == 0 {
            if let Some(chunk) = from.recv().unwrap() {
                all.extend_from_slice(&chunk);
            }
        } else {
            let most = 1 + numbers.below(piece.len());
            let len = from.read(&mut piece[..most]).unwrap();
            all.extend_from_slice(&piece[..len]);
        }
        if all.len() == before {
            assert!(all == text, "{} of {} bytes", all.len(), text.len());
            return;
        }
        rest(&mut numbers);
    }
}

/// Writes and reads at once, and leaves when both are done.
fn talk(stream: Stream, says: &[u8], hears: &[u8], seed: u64) {
    thread::scope(|scope| {
        scope.spawn(|| write(&stream, says, Numbers(seed)));
        read(&stream, hears, Numbers(seed + 1));
    });
    drop(stream);
}

#[test]
fn everything_arrives_at_any_pace_and_whoever_leaves_first() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    for round in 0..ROUNDS {
        let mut numbers = Numbers(round);
        let [request, answer] = [(); 2].map(|()| text(numbers.below(TEXT)));
        let (here, there) = connected(&client, &listener);
        thread::scope(|scope| {
            scope.spawn(|| talk(there, &answer, &request, 4 * round + 2));
            talk(here, &request, &answer, 4 * round);
        });
    }
    drop(listener);
    client.is_clean();
    server.is_clean();
}

/// The same of tasks.
async fn write_as_task(mut to: WriteHalf<Stream>, text: Vec<u8>, mut numbers: Numbers) {
    let mut left = &text[..];
    while !left.is_empty() {
        let (piece, after) = left.split_at(left.len().min(1 + numbers.below(200)));
        to.write_all(piece).await.unwrap();
        left = after;
        rest_as_task(&mut numbers).await;
    }
    to.shutdown().await.unwrap();
}

async fn read_as_task(mut from: ReadHalf<Stream>, text: Vec<u8>, mut numbers: Numbers) {
    let (mut all, mut piece) = (Vec::new(), [0; 150]);
    loop {
        let most = 1 + numbers.below(piece.len());
        let len = from.read(&mut piece[..most]).await.unwrap();
        if len == 0 {
            assert!(all == text, "{} of {} bytes", all.len(), text.len());
            return;
        }
        all.extend_from_slice(&piece[..len]);
        rest_as_task(&mut numbers).await;
    }
}

async fn rest_as_task(numbers: &mut Numbers) {
    match numbers.below(24) {
        0 => tokio::time::sleep(Duration::from_millis(2)).await,
        1..6 => tokio::task::yield_now().await,
        _ => {}
    }
}

#[test]
fn everything_arrives_at_any_pace_of_tasks() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    runtime().block_on(in_time(async {
        drop((drive(&client), drive(&server)));
        for round in 0..ROUNDS {
            let mut numbers = Numbers(round);
            let [request, answer] = [(); 2].map(|()| text(numbers.below(TEXT)));
            let to = connector(listener.local_addr());
            let (here, there) =
                tokio::join!(client.streams.connect_async(to), listener.accept_async());
            let ends = [
                (here.unwrap(), request.clone(), answer.clone()),
                (there.unwrap(), answer, request),
            ];
            let seeds = (4 * round..).step_by(2);
            let talks: Vec<_> = ends
                .into_iter()
                .zip(seeds)
                .flat_map(|((stream, says, hears), seed)| {
                    let (from, to) = split(stream);
                    [
                        tokio::spawn(write_as_task(to, says, Numbers(seed))),
                        tokio::spawn(read_as_task(from, hears, Numbers(seed + 1))),
                    ]
                })
                .collect();
            for talk in talks {
                talk.await.unwrap();
            }
        }
    }));
    drop(listener);
    client.is_clean();
    server.is_clean();
}
