//! HTTP/1.1 by `hyper`.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, header, server};
use hyper_util::rt::TokioIo;
use uverbs::cm::Connector;
use uverbs::stream::{StreamListener, Streams};

use crate::Failure;

/// Answers every request with a line of text, one task for each connection.
///
/// # Errors
/// Those of accepting: the device is gone, or there is no room for a connection.
pub async fn serve(listener: StreamListener) -> Result<Infallible, Failure> {
    loop {
        let stream = listener.accept_async().await?;
        tokio::spawn(async move {
            let connection = server::conn::http1::Builder::new();
            let served = connection.serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = served.await {
                eprintln!("a connection: {error}");
            }
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let text = format!("{path}: {} bytes\n", body.len());
    Ok(Response::new(Full::from(text)))
}

/// Gets `paths` one after another over one connection, and returns the answers.
///
/// # Errors
/// The server cannot be reached, or does not speak HTTP.
pub async fn get(streams: &Streams, to: Connector, paths: &[&str]) -> Result<Vec<String>, Failure> {
    let stream = streams.connect_async(to).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for path in paths {
        let request = Request::get(*path)
            .header(header::HOST, "rdma")
            .body(Empty::<Bytes>::new())?;
        let body = sender.send_request(request).await?.into_body();
        answers.push(String::from_utf8(body.collect().await?.to_bytes().into())?);
    }
    drop(sender);
    connection.await??;
    Ok(answers)
}
