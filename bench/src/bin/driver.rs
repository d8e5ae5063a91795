//! Runs every case and writes what was found.

fn main() -> std::process::ExitCode {
    leasehold_bench::driver::main()
}
