//! What happened, line by line, and the names it happened to.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use crate::domain::Name;

/// What happened, line by line.
#[derive(Debug, Default)]
pub(super) struct Story {
    text: Mutex<String>,
    aloud: bool,
    begun: Mutex<Option<Instant>>,
}

impl Story {
    pub(super) fn new(aloud: bool) -> Arc<Self> {
        Arc::new(Self { aloud, ..Self::default() })
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        let begun = *self.begun.lock().unwrap().get_or_insert_with(Instant::now);
        let line = format!("{:>9.3} s  {}", begun.elapsed().as_secs_f64(), what());
        if self.aloud {
            println!("{line}");
        }
        writeln!(self.text.lock().unwrap(), "{line}").unwrap();
    }

    /// Whether it is told as it happens.
    pub(super) fn is_aloud(&self) -> bool {
        self.aloud
    }

    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// The names of a story.
pub(super) fn name(number: u32) -> Name {
    Name::new(format!("name-{number}")).unwrap()
}
