//! The program of the README: a queue pair that sends itself a message.

use uverbs::transport::Rc;
use uverbs::{Context, owned};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = Context::open("rxe0")?;
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(16)?;
    let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;

    // Two processes would exchange these 27 bytes; here the peer is the queue pair itself.
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(endpoint)?);

    // Buffers move in with a request and come back with its completion.
    let [mut message, reply] = pd.buffers::<2>(64)?;
    message[..5].copy_from_slice(b"hello");
    qp.recv(reply, 0)?;
    qp.send(message, 5, 1)?;

    while qp.sends_posted() + qp.receives_posted() > 0 {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        let Ok(finished) = qp.complete(completion) else {
            continue;
        };
        match (finished.bytes(), finished.user_data()) {
            (Some(bytes), 0) => println!("{}", String::from_utf8_lossy(bytes)),
            (_, request) => println!("request {request}: {}", finished.status()),
        }
    }
    Ok(())
}
