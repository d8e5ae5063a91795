//! Chaos: processes that contend for names of every kind while servers, links and
//! processes fail, and a referee outside Redis that saw who held what, and when.
//!
//! `make chaos` runs it; `src/bin/chaos.rs` is where a run begins. A worker is a process
//! that obeys [`Orders`](orders::Orders) and tells on its pipe what it does, as a
//! [`WorkerEvent`](worker_event::WorkerEvent) a line: `src/bin/worker` with Leasehold,
//! `leasehold.interop.Contender` with the real Redisson. The [`record`] is what they
//! said, the [`referee`] finds what must not be, and the [`report`] tells it.

pub mod clock;
pub mod crew;
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
