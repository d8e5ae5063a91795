//! Writes the tables and plots of `docs/performance.md` again, from `results.json` in the folder of
//! the benchmarks.

use leasehold_bench::report;

fn main() -> std::io::Result<()> {
    match report::committed()? {
        Some(results) => report::commit(&results),
        None => Err(std::io::Error::other("there is no results.json here")),
    }
}
