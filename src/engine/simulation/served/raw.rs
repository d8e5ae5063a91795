//! A connection for a foreign client. The connection sends the words of a command, and returns the
//! bytes of the reply as text.

use leasehold_twin::Twin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// One connection, in protocol version 2.
pub(super) struct Raw {
    stream: DuplexStream,
    bytes: Vec<u8>,
    asked: u64,
}

impl Raw {
    /// Returns `None` if the server is unreachable.
    pub(super) async fn to(twin: &Twin) -> Option<Self> {
        let stream = twin.connect().await.ok()?;
        Some(Self { stream, bytes: vec![], asked: 0 })
    }

    /// Returns the reply to a command, or `None` if the connection is closed.
    pub(super) async fn ask(&mut self, words: &[&str]) -> Option<String> {
        self.asked += 1;
        let mark = format!("mark-{}", self.asked);
        self.send(words).await?;
        self.send(&["ECHO", &mark]).await?;
        let mark = format!("{mark}\r\n");
        while !self.bytes.ends_with(mark.as_bytes()) {
            self.read().await?;
        }
        let output = String::from_utf8_lossy(&self.bytes).into_owned();
        self.bytes.clear();
        output.rsplit_once('$').map(|(output, _)| output.to_owned())
    }

    pub(super) async fn send(&mut self, words: &[&str]) -> Option<()> {
        let packed = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let packed = format!("*{}\r\n{}", words.len(), packed.collect::<String>());
        self.stream.write_all(packed.as_bytes()).await.ok()
    }

    /// Waits until bytes arrive.
    pub(super) async fn read(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.bytes).await;
        read.is_ok_and(|length| length > 0).then_some(())
    }
}
