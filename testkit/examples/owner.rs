//! A process that owns a Redis server, for the tests of the test kit to kill.
//!
//! Says the server's process id and port, then repeats each line it is sent.
//! Asked to `pause`, it pauses the server first.

use std::io::{self, BufRead};
use std::thread;

use testkit::Redis;

fn main() {
    // A thread that ends right away, as that of a test might: the server must
    // be tied to the process and not to the thread.
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
