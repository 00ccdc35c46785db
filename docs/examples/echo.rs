//! An echo server and its client, which find each other by IP address.
//!
//! `echo listen ADDRESS`, `echo ADDRESS [TEXT]`: ADDRESS is `192.0.2.7:7471`, one of a network
//! interface with RDMA. `echo` alone is both, at 10.1.0.1.

use std::error::Error;
use std::time::Duration;

use uverbs::cm::{self, ConnectionEvent, Listener};

const SIZE: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => serve(&Listener::bind(address.parse()?)?),
        [address] => call(address, "hello"),
        [address, text] => call(address, text),
        _ => {
            let listener = Listener::bind("10.1.0.1:0".parse()?)?;
            let address = listener.local_addr().to_string();
            let server = std::thread::spawn(move || serve(&listener));
            call(&address, "hello")?;
            server.join().map_err(|_| "the server panicked")?
        }
    }
}

fn serve(listener: &Listener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let request = listener.accept()?;
    let pd = request.open()?.alloc_pd()?;
    let mut cq = pd.context().create_cq(4)?;
    let queue_pair = request.queue_pair(&pd, &cq, &cq).build()?;
    let mut attached = request.attach(queue_pair)?;
    // Posted before the client can send.
    let [buffer] = pd.buffers(SIZE)?;
    attached.queue_pair().recv(buffer, 0)?;
    let mut connection = attached.accept()?;
    while connection.link().try_event()? != Some(ConnectionEvent::Disconnected) {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        let Ok(done) = connection.queue_pair().complete(completion) else {
            continue;
        };
        let (len, request) = (done.len(), done.user_data());
        match done.into_buffer() {
            Some(buffer) if request == 0 => connection.queue_pair().send(buffer, len, 1)?,
            Some(buffer) => connection.queue_pair().recv(buffer, 0)?,
            None => {}
        }
    }
    println!("{} has gone", connection.peer_addr());
    Ok(connection.disconnect(PATIENCE)?)
}

fn call(address: &str, text: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let resolved = cm::connect(address.parse()?).resolve()?;
    let pd = resolved.open()?.alloc_pd()?;
    let mut cq = pd.context().create_cq(4)?;
    let queue_pair = resolved.queue_pair(&pd, &cq, &cq).build()?;
    let mut connection = resolved.connect(queue_pair)?;
    let [mut message, answer] = pd.buffers::<2>(SIZE)?;
    message[..text.len()].copy_from_slice(text.as_bytes());
    connection.queue_pair().recv(answer, 0)?;
    connection.queue_pair().send(message, text.len(), 1)?;
    while connection.queue_pair().receives_posted() > 0 {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        if let Ok(done) = connection.queue_pair().complete(completion)
            && let (0, Some(bytes)) = (done.user_data(), done.bytes())
        {
            println!("echo: {}", String::from_utf8_lossy(bytes));
        }
    }
    Ok(connection.disconnect(PATIENCE)?)
}
