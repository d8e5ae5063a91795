//! Drives one Rust library: reads jobs from stdin, one job on each line.

fn main() -> std::process::ExitCode {
    leasehold_bench::worker::main(|| None)
}
