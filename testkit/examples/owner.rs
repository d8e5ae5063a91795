//! A process that owns a Redis server. Tests of the test kit kill this process.
//!
//! The process prints the process id and the port of the server, and then repeats each line of its
//! input. Before it repeats the line `pause`, it pauses the server.

use std::io::{self, BufRead};
use std::thread;

use testkit::Redis;

fn main() {
    // The thread ends at once, as the thread of a test may. The server must live as long as this
    // process, even if the thread that started the server ends.
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
