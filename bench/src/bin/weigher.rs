//! A worker that counts its memory. It is a separate program, so that the counting costs nothing in
//! measurements of time.

use std::{alloc::System, process::ExitCode};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    leasehold_bench::worker::main(live_bytes)
}

/// The bytes that are allocated now, as requested. The overhead of the allocator is not counted.
fn live_bytes() -> Option<i64> {
    let stats = ALLOCATOR.stats();
    let grown = stats.bytes_allocated as i64 - stats.bytes_deallocated as i64;
    // A reallocation is counted in both directions by its difference alone.
    Some(grown)
}
