//! Both services on a fake kernel, with both ends in this process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use services::{drive, grpc, http};
use uverbs::cm::{self, ChannelOptions};
use uverbs::stream::Streams;
use uverbs::{Context, OpenOptions};
use uverbs_fake::{FakeKernel, Profile};

/// One end: streams of the kernel's device, driven by a task.
fn end(fake: &FakeKernel) -> Streams {
    let kernel = Arc::new(fake.clone());
    let options = OpenOptions::new().kernel(kernel.clone());
    let context: Context = options
        .over(fake.device_info(), fake.open().unwrap())
        .unwrap();
    let manager = fake.open_connection_manager().unwrap();
    let channel = ChannelOptions::new().over(kernel, manager).unwrap();
    let pd = context.alloc_pd().unwrap();
    let streams = pd.streams().gid_index(1).channel(&channel);
    // The fake kernel goes on when it is called.
    let streams = streams.keepalive(Some(Duration::from_millis(50)));
    let streams = streams.connections(32).message_size(512).build().unwrap();
    drive(&streams).unwrap();
    streams
}

/// The address of the fake kernel's device, with a port that it chooses.
fn any() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 0))
}

#[tokio::test]
async fn pages_are_got_by_http() {
    let fake = FakeKernel::new(Profile::v7_2());
    let (client, server) = (end(&fake), end(&fake));
    let listener = server.listen(any()).unwrap();
    let to = cm::connect(listener.local_addr());
    tokio::spawn(http::serve(listener));
    for _ in 0..3 {
        let answers = http::get(&client, to.clone(), &["/one", "/two"]).await;
        assert_eq!(answers.unwrap(), ["/one: 0 bytes\n", "/two: 0 bytes\n"]);
    }
}

#[tokio::test]
async fn a_service_is_called_by_grpc_many_times_at_once() {
    let fake = FakeKernel::new(Profile::v7_2());
    let (client, server) = (end(&fake), end(&fake));
    let listener = server.listen(any()).unwrap();
    let to = cm::connect(listener.local_addr());
    let serving = tokio::spawn(grpc::serve(listener));
    let channel = grpc::channel(&client, &to);
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(grpc::is_well(channel.clone())))
        .collect();
    for call in calls {
        assert!(call.await.unwrap().unwrap());
    }
    // Where nobody listens any more, a call fails instead of waiting.
    serving.abort();
    assert!(serving.await.is_err());
    let refused = grpc::is_well(grpc::channel(&client, &to));
    let refused = tokio::time::timeout(Duration::from_secs(60), refused).await;
    assert!(refused.unwrap().is_err());
}
