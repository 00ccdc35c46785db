//! An echo server and its client, which exchange bytes and find each other by IP address.
//!
//! `stream listen ADDRESS`, `stream ADDRESS [TEXT]`: ADDRESS is `192.0.2.7:7471`, one of a network
//! interface with RDMA. `stream` alone is both, at 10.1.0.1.

use std::error::Error;
use std::io::{Read, Write};

use uverbs::cm;
use uverbs::stream::{StreamListener, Streams};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => serve(&listen(address)?),
        [address] => call(address, "hello"),
        [address, text] => call(address, text),
        _ => {
            let listener = listen("10.1.0.1:0")?;
            let address = listener.local_addr().to_string();
            let server = std::thread::spawn(move || serve(&listener));
            call(&address, "hello")?;
            server.join().map_err(|_| "the server panicked")?
        }
    }
}

/// Streams over the device that leads to `address`.
fn streams(address: &str) -> Result<Streams, Box<dyn Error + Send + Sync>> {
    let pd = cm::connect(address.parse()?)
        .resolve()?
        .open()?
        .alloc_pd()?;
    Ok(pd.streams().build()?)
}

fn listen(address: &str) -> Result<StreamListener, Box<dyn Error + Send + Sync>> {
    Ok(streams(address)?.listen(address.parse()?)?)
}

fn serve(listener: &StreamListener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = listener.accept()?;
    let mut bytes = [0; 4096];
    loop {
        let len = stream.read(&mut bytes)?;
        if len == 0 {
            break;
        }
        stream.write_all(&bytes[..len])?;
    }
    stream.shutdown()?;
    // Until the client has gone, too.
    Ok(stream.recv().map(drop)?)
}

fn call(address: &str, text: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = streams(address)?.connect(cm::connect(address.parse()?))?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("stream: {answer}");
    Ok(())
}
