//! Tells that commands are answered again after their connection was lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::Board;
use crate::store::redis::connection::Watcher;

/// Watches the link for commands.
#[derive(Debug)]
pub(in crate::store::redis) struct Commands {
    board: Arc<Board>,
    was_up: AtomicBool,
}

impl Commands {
    pub(in crate::store::redis) fn telling(board: &Arc<Board>) -> Arc<Self> {
        Arc::new(Self { board: Arc::clone(board), was_up: AtomicBool::new(false) })
    }
}

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }

    fn up(&self) {
        if self.was_up.swap(true, Ordering::AcqRel) {
            self.board.table().back();
            self.board.tell();
        }
    }
}
