//! Reads a map or a set page by page, for their streams.

use std::vec::IntoIter;

use super::coded::too_long;
use crate::{
    domain::Name,
    error::Result,
    store::map::{Cursor, Page},
};

/// What was read and not yet returned, and where reading continues.
pub(super) struct Pages {
    read: IntoIter<Vec<u8>>,
    /// Unless the last page was read.
    cursor: Option<Cursor>,
}

impl Pages {
    pub(super) fn new() -> Self {
        Self { read: vec![].into_iter(), cursor: Some(Cursor::default()) }
    }

    /// Returns the next key, value or element of `name`. `ask` reads a page. An entry that is too
    /// long is an error, and the next call continues after it.
    pub(super) async fn next(
        &mut self,
        name: &Name,
        ask: impl AsyncFn(Cursor) -> Result<Page>,
    ) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(bytes) = self.read.next() {
                return Ok(Some(bytes));
            }
            let Some(cursor) = &self.cursor else { return Ok(None) };
            let Page { parts, next, skips } = ask(cursor.clone()).await?;
            (self.read, self.cursor) = (parts.into_iter(), next);
            if skips {
                return Err(too_long(name));
            }
        }
    }
}
