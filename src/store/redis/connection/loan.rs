//! A stream that is lent for a while.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Takes the stream back.
#[derive(Debug)]
pub(super) struct Loan<S>(Arc<Mutex<Option<S>>>);

/// The stream, until it is taken back.
#[derive(Debug)]
pub(super) struct Lent<S>(Arc<Mutex<Option<S>>>);

impl<S> Loan<S> {
    pub(super) fn of(stream: S) -> (Self, Lent<S>) {
        let stream = Arc::new(Mutex::new(Some(stream)));
        (Self(Arc::clone(&stream)), Lent(stream))
    }

    /// The stream, which nobody else has any more.
    pub(super) fn back(self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Unpin> Lent<S> {
    fn poll<T>(
        &self,
        poll: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::Error::from(io::ErrorKind::NotConnected))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lent<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_read(cx, into))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_stream_is_of_use_to_who_has_it() {
        let (here, mut there) = duplex(64);
        let (loan, mut lent) = Loan::of(here);
        lent.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        there.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");

        // taken back it is as it was, and of no use to who had it
        let mut back = loan.back().unwrap();
        there.write_all(b"pong").await.unwrap();
        back.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"pong");
        assert_eq!(lent.read(&mut heard).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
}
