//! Times of our streams, in the pattern of librdmacm's `rstream`.
//!
//! `stream-times listen ADDRESS:PORT SIZE ROUNDS COUNT` on one side, the same without `listen` on
//! the other, which prints the microseconds of a transfer. In each round the client writes COUNT
//! times SIZE bytes, which the server reads, and then the server as many.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::time::Instant;

use uverbs::cm;
use uverbs::stream::{Stream, Streams};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

struct Transfers {
    size: usize,
    rounds: u32,
    count: u32,
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address, ref transfers @ ..] => listen(address, &parse(transfers)?),
        [address, ref transfers @ ..] => call(address, &parse(transfers)?),
        [] => Err("where?".into()),
    }
}

fn parse(words: &[&str]) -> Result<Transfers, Box<dyn Error + Send + Sync>> {
    let [size, rounds, count] = words else {
        return Err("SIZE ROUNDS COUNT".into());
    };
    Ok(Transfers {
        size: size.parse()?,
        rounds: rounds.parse()?,
        count: count.parse()?,
    })
}

/// Streams over the device that leads to `address`.
fn streams(address: &str) -> Result<Streams, Box<dyn Error + Send + Sync>> {
    let resolved = cm::connect(address.parse()?).resolve()?;
    let streams = resolved.open()?.alloc_pd()?.streams();
    // 4 MiB for each direction: a message takes a buffer, however short it is. rstream asks for
    // 512 KiB, and has 384 messages under way at most.
    Ok(streams
        .connections(1)
        .credits(512)
        .message_size(8192)
        .build()?)
}

fn listen(address: &str, transfers: &Transfers) -> Outcome {
    let listener = streams(address)?.listen(address.parse()?)?;
    println!("listening at {}", listener.local_addr());
    let mut stream = listener.accept()?;
    transfers.run(&mut stream, false)?;
    end(&stream);
    Ok(())
}

fn call(address: &str, transfers: &Transfers) -> Outcome {
    let mut stream = streams(address)?.connect(cm::connect(address.parse()?))?;
    let time = transfers.run(&mut stream, true)?;
    println!("{time:.2} usec/xfer");
    end(&stream);
    Ok(())
}

/// Waits for the other. All bytes were read before; the one that leaves first may leave before its
/// device has acknowledged the end, so an error here says nothing.
fn end(stream: &Stream) {
    let _ = stream.shutdown().and_then(|()| stream.recv());
}

impl Transfers {
    /// Returns the microseconds of one transfer.
    fn run(&self, stream: &mut Stream, is_client: bool) -> std::io::Result<f64> {
        let mut bytes = vec![0x5a; self.size.max(16)];
        transfer(stream, &mut bytes[..16], is_client)?;
        transfer(stream, &mut bytes[..16], !is_client)?;
        let bytes = &mut bytes[..self.size];
        let start = Instant::now();
        for _ in 0..self.rounds {
            for writes in [is_client, !is_client] {
                for _ in 0..self.count {
                    transfer(stream, bytes, writes)?;
                }
            }
        }
        let transfers = 2.0 * f64::from(self.rounds) * f64::from(self.count);
        Ok(start.elapsed().as_secs_f64() * 1e6 / transfers)
    }
}

fn transfer(stream: &mut Stream, bytes: &mut [u8], writes: bool) -> std::io::Result<()> {
    if writes {
        stream.write_all(bytes)
    } else {
        stream.read_exact(bytes)
    }
}
