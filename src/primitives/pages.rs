//! Reads a map or a set page by page, for `MapStream` and `SetStream`.

use std::vec::IntoIter;

use super::coded::{called, too_long};
use crate::{
    domain::Name,
    error::Result,
    store::data::{Cursor, Page},
};

/// The unread part of the current page, and the cursor of the next page.
pub(super) struct Pages {
    read: IntoIter<Vec<u8>>,
    /// `None` after the last page.
    cursor: Option<Cursor>,
}

impl Pages {
    pub(super) fn new() -> Self {
        Self { read: vec![].into_iter(), cursor: Some(Cursor::default()) }
    }

    /// Returns the next key, value or element of `name`. `ask` requests a page from the store. If
    /// an entry is too long, returns an error. The next call continues after this entry.
    ///
    /// The future of an `AsyncFn` would not be `Send`, because the compiler does not prove it.
    pub(super) async fn next<F: Future<Output = Result<Page>>>(
        &mut self,
        name: &Name,
        ask: impl Fn(Cursor) -> F,
    ) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(bytes) = self.read.next() {
                return Ok(Some(bytes));
            }
            let Some(cursor) = &self.cursor else { return Ok(None) };
            let Page { parts, next, skips } = ask(cursor.clone()).await?;
            (self.read, self.cursor) = (parts.into_iter(), next);
            if let Some(key) = skips {
                return Err(too_long(name, called("entry", &key)));
            }
        }
    }
}
