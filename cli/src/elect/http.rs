//! Answers whether this process leads, by HTTP: 200 for the leader, 503 for others.
//!
//! It is for health checks, so it understands no more than the first line of a request, and closes
//! each connection after the response.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::status::Status;
use crate::exit::Exit;

/// How long a connection may last.
const LIMIT: Duration = Duration::from_secs(5);

/// The longest request that is read.
const LONGEST: usize = 8 * 1024;

/// Listens at `address`, and answers in the background.
pub(super) async fn serve(address: SocketAddr, status: Status) -> Result<(), Exit> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Exit::os("listen", &address.to_string(), &error))?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => {
                    // A client that is slow or goes away gets no answer.
                    tokio::spawn(timeout(LIMIT, answer(connection, status.clone())));
                }
                // Too many files are open.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(())
}

async fn answer(mut connection: TcpStream, status: Status) -> io::Result<()> {
    let mut request = vec![];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if connection.read_buf(&mut request).await? == 0 || request.len() > LONGEST {
            return Ok(());
        }
    }
    connection.write_all(response(&request, &status).as_bytes()).await?;
    connection.shutdown().await
}

fn response(request: &[u8], status: &Status) -> String {
    let method = request.split(|byte| *byte == b' ').next().unwrap_or_default();
    let line = match method {
        b"GET" | b"HEAD" if status.leads() => "200 OK",
        b"GET" | b"HEAD" => "503 Service Unavailable",
        _ => "405 Method Not Allowed\r\nAllow: GET, HEAD",
    };
    let body = format!("{}\n", status.as_json());
    let length = body.len();
    let body = if method == b"HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {line}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}
