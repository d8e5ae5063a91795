//! A worker that counts its memory. It is a separate program, so that counting does not slow down
//! the measurements of time.

use std::{alloc::System, process::ExitCode};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    leasehold_bench::worker::main(live_bytes)
}

/// The bytes that are allocated now. The overhead of the allocator does not count.
fn live_bytes() -> Option<i64> {
    let stats = ALLOCATOR.stats();
    let grown = stats.bytes_allocated as i64 - stats.bytes_deallocated as i64;
    // Both counters already include the growth or shrinkage by reallocations.
    Some(grown)
}
