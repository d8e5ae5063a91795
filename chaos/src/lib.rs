//! Chaos: processes contend for objects of every kind while servers, links and processes fail. A
//! referee outside of Redis sees all holds with their times.
//!
//! `make chaos` executes a run, which starts in `src/bin/chaos.rs`. A worker is a process that
//! follows [`Orders`](orders::Orders). A worker writes each of its actions to its pipe, as a
//! [`WorkerEvent`](worker_event::WorkerEvent). The worker with Leasehold is in `src/bin/worker`.
//! The worker with the real Redisson is `leasehold.interop.Contender`. The [`record`] collects the
//! events, the [`referee`] finds violations, and the [`report`] counts them.

pub mod clock;
pub mod crew;
pub mod drain;
pub mod fault;
pub mod history;
pub mod judge;
pub mod leftovers;
pub mod orders;
pub mod plot;
pub mod record;
pub mod referee;
pub mod report;
pub mod run;
pub mod site;
pub mod worker;
pub mod worker_event;
