//! Watches the connection for commands: tells that they are answered again after it was
//! lost, and warns of a server that will not do.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::Board;
use crate::{
    domain::About,
    store::redis::{connection::Watcher, warnings::Warnings},
};

/// Watches the link for commands.
#[derive(Debug)]
pub(in crate::store::redis) struct Commands {
    board: Arc<Board>,
    was_up: AtomicBool,
    warnings: Warnings,
}

impl Commands {
    pub(in crate::store::redis) fn telling(board: &Arc<Board>) -> Arc<Self> {
        Arc::new(Self {
            board: Arc::clone(board),
            was_up: AtomicBool::new(false),
            warnings: Warnings::default(),
        })
    }
}

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }

    fn met(&self, about: &About) {
        self.warnings.of(about);
    }

    fn up(&self) {
        if self.was_up.swap(true, Ordering::AcqRel) {
            self.board.table().back();
            self.board.tell();
        }
    }
}
