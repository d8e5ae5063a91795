//! The events of a run, line by line, and the names of its locks.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use crate::domain::Name;

/// The events of a run, line by line.
#[derive(Debug, Default)]
pub(super) struct Trace {
    text: Mutex<String>,
    verbose: bool,
    begun: Mutex<Option<Instant>>,
}

impl Trace {
    pub(super) fn new(verbose: bool) -> Arc<Self> {
        Arc::new(Self { verbose, ..Self::default() })
    }

    pub(super) fn log(&self, what: impl FnOnce() -> String) {
        let begun = *self.begun.lock().unwrap().get_or_insert_with(Instant::now);
        let line = format!("{:>9.3} s  {}", begun.elapsed().as_secs_f64(), what());
        if self.verbose {
            println!("{line}");
        }
        writeln!(self.text.lock().unwrap(), "{line}").unwrap();
    }

    pub(super) fn is_verbose(&self) -> bool {
        self.verbose
    }

    pub(super) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// Returns the name of the lock with this `number`.
pub(super) fn name(number: u32) -> Name {
    Name::new(format!("name-{number}")).unwrap()
}
