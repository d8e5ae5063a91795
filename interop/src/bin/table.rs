//! Prints the results of a run of the interop tests: `table FILE`.

use std::{env, fs};

fn main() {
    let path = env::args_os().nth(1).expect("usage: table FILE");
    let notes = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("no test has written results: {}: {e}", path.display()));
    print!("{}", interop::table(&notes));
}
