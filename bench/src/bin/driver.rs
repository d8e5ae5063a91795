//! Runs every case and writes the results.

fn main() -> std::process::ExitCode {
    leasehold_bench::driver::main()
}
