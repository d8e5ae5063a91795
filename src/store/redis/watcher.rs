//! Watches the connection for commands: warns of servers that will not do, and tells that
//! commands are answered again after it was lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{connection::Watcher, subscriptions::Board, warnings::Warnings};
use crate::domain::About;

/// Watches the link for commands.
#[derive(Debug)]
pub(super) struct Commands {
    board: Arc<Board>,
    warnings: Warnings,
    was_up: AtomicBool,
}

impl Commands {
    pub(super) fn telling(board: &Arc<Board>) -> Arc<Self> {
        let (warnings, was_up) = (Warnings::default(), AtomicBool::new(false));
        Arc::new(Self { board: Arc::clone(board), warnings, was_up })
    }
}

impl Watcher for Commands {
    fn carries(&self) -> &'static str {
        "commands"
    }

    fn met(&self, about: &About) {
        self.warnings.warn_of(about);
    }

    fn up(&self) {
        if self.was_up.swap(true, Ordering::AcqRel) {
            self.board.back();
        }
    }
}
