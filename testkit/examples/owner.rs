//! A process that owns a Redis server, for the tests of the test kit to kill.
//!
//! Prints the server's process id and port, then repeats each line of its input. At the input
//! `pause`, it pauses the server first.

use std::io::{self, BufRead};
use std::thread;

use testkit::Redis;

fn main() {
    // A thread that ends at once, as the thread of a test might. The server must be tied to the
    // process and not to the thread.
    let redis = thread::spawn(Redis::start).join().expect("the server starts");
    println!("{} {}", redis.pid(), redis.port());
    for line in io::stdin().lock().lines() {
        let line = line.expect("stdin is text");
        if line == "pause" {
            redis.pause();
        }
        println!("{line}");
    }
}
