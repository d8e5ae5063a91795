//! A client of the simulated server that shows all bytes.

#![allow(dead_code, unreachable_pub)] // each test uses only a part of this module

use std::time::Duration;

use leasehold_twin::Twin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

/// One connection.
#[derive(Debug)]
pub struct Speaker {
    stream: DuplexStream,
    asked: u64,
}

impl Speaker {
    pub async fn to(twin: &Twin) -> Self {
        Self { stream: twin.connect().await.unwrap(), asked: 0 }
    }

    /// Sends commands, whose words are separated by spaces, and does not wait for replies.
    pub async fn send(&mut self, commands: &[&str]) {
        for command in commands {
            self.send_words(&command.split(' ').collect::<Vec<_>>()).await;
        }
    }

    pub async fn send_words(&mut self, words: &[&str]) {
        self.stream.write_all(&packed(words)).await.unwrap();
    }

    /// Sends bytes as they are.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a command and a marked PING. Returns all bytes before the reply to the PING, or until
    /// the connection ends.
    pub async fn ask(&mut self, command: &str) -> String {
        self.ask_words(&command.split(' ').collect::<Vec<_>>()).await
    }

    pub async fn ask_words(&mut self, words: &[&str]) -> String {
        let marker = self.mark();
        let mut bytes = packed(words);
        bytes.extend(packed(&["PING", &marker]));
        if self.stream.write_all(&bytes).await.is_err() {
            return ENDED.into();
        }
        self.until(&marker).await
    }

    /// Returns the bytes that came without a request.
    pub async fn received(&mut self) -> String {
        let marker = self.mark();
        if self.stream.write_all(&packed(&["PING", &marker])).await.is_err() {
            return ENDED.into();
        }
        self.until(&marker).await
    }

    /// Returns the bytes that come within `max_wait`.
    pub async fn within(&mut self, max_wait: Duration) -> String {
        let mut bytes = vec![0; 4096];
        match timeout(max_wait, self.stream.read(&mut bytes)).await {
            Err(_) => "nothing".into(),
            Ok(Ok(0) | Err(_)) => ENDED.into(),
            Ok(Ok(length)) => shown(&bytes[..length]),
        }
    }

    fn mark(&mut self) -> String {
        self.asked += 1;
        format!("marker-{}", self.asked)
    }

    async fn until(&mut self, marker: &str) -> String {
        let mut bytes = vec![];
        loop {
            if let Some(shown) = before(&bytes, marker) {
                return shown;
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("no whole reply, only {:?}", shown(&bytes)));
            if matches!(read, Ok(0) | Err(_)) {
                return shown(&bytes) + ENDED;
            }
        }
    }
}

/// The longest time to wait for a reply.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The text for a connection that has ended.
pub const ENDED: &str = "(ended)";

/// Returns a command as a client sends it.
pub fn packed(words: &[&str]) -> Vec<u8> {
    let blocks: String =
        words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{blocks}", words.len()).into_bytes()
}

/// Returns the bytes before the reply to a marked PING. Returns `None` if that reply has not come.
pub fn before(bytes: &[u8], marker: &str) -> Option<String> {
    let block = format!("${}\r\n{marker}\r\n", marker.len()).into_bytes();
    let before = bytes.strip_suffix(block.as_slice())?;
    // A subscriber in RESP2 gets a list as the reply to PING.
    Some(shown(before.strip_suffix(b"*2\r\n$4\r\npong\r\n").unwrap_or(before)))
}

/// Returns bytes as text in one line.
pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ")
}
