//! Drives a real Redisson client, to prove that Leasehold is compatible with Redisson.
//!
//! [`Java::start`] starts a Java process with a Redisson client. [`Java::thread`] names a thread of
//! that process. A call on a [`Thread`], such as `java.thread("T1").lock("door")`, has the effect
//! of the same Java code. [`Rust`] is a process with a Leasehold client that executes the same
//! commands. [`Together`] is a Redis server with both processes. The results of a test go into a
//! [`table()`].
//!
//! All calls block. Every unexpected error is a panic, and the message has a remedy.

mod answer;
mod contenders;
mod java;
mod kind;
mod lines;
mod numbers;
mod pending;
mod process;
mod rust;
mod servers;
mod setup;
mod table;
mod thread;
mod together;

pub use answer::{Answer, Failure};
pub use contenders::{Contenders, Report};
pub use java::{Java, java};
pub use kind::Kind;
pub use pending::Pending;
pub use rust::Rust;
pub use servers::{Servers, cluster_without_sharded_channels};
pub use setup::{Protocol, Redisson, Setup};
pub use table::{Way, measured, shown, table, woken};
pub use thread::Thread;
pub use together::{
    AT_ONCE, EACH_WAY, Pair, Together, since, until_asleep, until_asleep_on, wake_up,
};
