//! Measures Leasehold beside its limits and its rivals.
//!
//! A **driver** starts a Redis and one **worker** process per library, asks them
//! one after the other, round by round, and writes a table, a file of figures
//! and plots. Start with [`driver::main`]; what is asked of a worker is a
//! [`job::Job`].

pub mod clock;
pub mod driver;
pub mod figures;
pub mod job;
pub mod report;
pub mod worker;
