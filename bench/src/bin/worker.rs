//! Drives one library by the lines that it is sent.

fn main() -> std::process::ExitCode {
    leasehold_bench::worker::main(|| None)
}
