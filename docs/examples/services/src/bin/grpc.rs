//! `grpc listen ADDRESS`, `grpc ADDRESS`: ADDRESS is `192.0.2.7:50051`, one of a network interface
//! with RDMA. `grpc` alone is both, at 10.1.0.1.

use services::{Failure, asked, drive, grpc, streams};
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
        server = Some(tokio::spawn(grpc::serve(listener)));
    }
    if calls {
        let channel = grpc::channel(&streams, &cm::connect(address));
        println!("grpc: well: {}", grpc::is_well(channel).await?);
    } else if let Some(server) = server {
        server.await??;
    }
    Ok(())
}
