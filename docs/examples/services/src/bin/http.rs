//! `http listen ADDRESS`, `http ADDRESS`: ADDRESS is `192.0.2.7:8080`, one of a network interface
//! with RDMA. `http` alone is both, at 10.1.0.1.

use services::{Failure, asked, drive, http, streams};
use uverbs::cm;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (listens, calls, mut address) = asked(std::env::args().skip(1))?;
    let streams = streams(address).await?;
    drive(&streams)?;
    let mut server = None;
    if listens {
        let listener = streams.listen(address)?;
        address = listener.local_addr();
        server = Some(tokio::spawn(http::serve(listener)));
    }
    if calls {
        let answers = http::get(&streams, cm::connect(address), &["/one", "/two"]).await?;
        print!("http: {}", answers.concat());
    } else if let Some(server) = server {
        server.await??;
    }
    Ok(())
}
