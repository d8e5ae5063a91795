//! Drives a real Redisson, to prove that Leasehold shares its locks.
//!
//! [`Java::start`] starts a Java process with a Redisson client in it.
//! [`Java::thread`] names a thread of that process, and a [`Thread`] does what
//! the same Java code would do: `java.thread("T1").lock("door")`.
//!
//! Everything blocks, and everything that goes wrong in a way no test asks for
//! panics with what to do about it. Nothing here knows Leasehold.

mod answer;
mod crowd;
mod java;
mod lines;
mod pending;
mod setup;
mod thread;

pub use answer::{Answer, Failure};
pub use crowd::{Crowd, Report};
pub use java::Java;
pub use pending::Pending;
pub use setup::{Protocol, Redisson, Setup};
pub use thread::Thread;
