//! Measures Leasehold, its lower limits and its rivals.
//!
//! A **driver** starts a Redis server, and one **worker** process for each library. The driver
//! sends jobs to one worker after the other, round by round. It writes a table, a file of figures,
//! and plots. Start with [`driver::main`]. A worker executes a [`job::Job`].

pub mod clock;
pub mod driver;
pub mod figures;
pub mod job;
pub mod report;
pub mod worker;
