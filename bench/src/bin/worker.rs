//! Drives one Rust library: reads jobs from stdin, a line each.

fn main() -> std::process::ExitCode {
    leasehold_bench::worker::main(|| None)
}
