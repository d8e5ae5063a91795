//! The cost of writing a request and reading a reply, in three implementations: Leasehold, the
//! parser of the crate `redis` alone, and the crate `redis-protocol`. This program needs no server.
//!
//! `cargo run --release --bin codec` prints nanoseconds: the median of eleven rounds. In each
//! round, every implementation runs once.

use std::{hint::black_box, time::Instant};

use redis::{Cmd, cmd};
use redis_protocol::resp3::{
    decode::complete::decode,
    encode::complete::encode,
    types::{OwnedFrame, Resp3Frame},
};

#[path = "../../../link/src/pipe/frames.rs"]
#[allow(dead_code, reason = "as the library has it")]
mod frames;

/// A parser: its name, and its function.
type Read = (&'static str, fn(&[u8]));

const ROUNDS: usize = 11;
const TIMES: u32 = 100_000;
const SHA: &str = "7981c78e5b6007826d0fe9d636cdb65f3e8811a6";

/// Three replies: a grant, a count, and the state of a held lock.
const REPLIES: [&[u8]; 3] = [
    b"$38\r\n8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:1\r\n",
    b":1\r\n",
    b"*3\r\n:29871\r\n$38\r\n8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:2\r\n:1\r\n",
];

fn main() {
    let reads: [Read; 3] = [
        ("leasehold", |reply| {
            let mut frames = frames::Frames::default();
            frames.space(reply.len()).extend_from_slice(reply);
            black_box(frames.take().is_ok());
        }),
        ("redis", |reply| {
            black_box(redis::parse_redis_value(reply).is_ok());
        }),
        ("redis-protocol", |reply| {
            black_box(decode(reply).is_ok());
        }),
    ];
    for (what, reply) in ["a grant", "a count", "a held lock"].iter().zip(REPLIES) {
        let medians = medians(&reads.map(|(_, read)| move || read(black_box(reply))));
        for ((who, _), nanos) in reads.iter().zip(medians) {
            println!("{what:12} {who:15} {nanos:6.0} ns");
        }
    }
    let writes: [(&str, fn()); 2] = [
        ("redis", || drop(black_box(by_redis()))),
        ("redis-protocol", || drop(black_box(by_protocol()))),
    ];
    for ((who, _), nanos) in writes.iter().zip(medians(&writes.map(|(_, write)| write))) {
        println!("{:12} {who:15} {nanos:6.0} ns", "a request");
    }
}

/// Returns the bytes of the request that acquires a lock.
fn by_redis() -> Vec<u8> {
    let mut call: Cmd = cmd("EVALSHA");
    call.arg(SHA).arg(1).arg("orders:42").arg("8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:1").arg(30_000);
    let mut bytes = Vec::new();
    call.write_packed_command(&mut bytes);
    bytes
}

fn by_protocol() -> Vec<u8> {
    let bulk =
        |text: &str| OwnedFrame::BlobString { data: text.as_bytes().to_vec(), attributes: None };
    let owner = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:1";
    let parts = ["EVALSHA", SHA, "1", "orders:42", owner, "30000"].map(bulk).to_vec();
    let frame = OwnedFrame::Array { data: parts, attributes: None };
    let mut bytes = vec![0; frame.encode_len(false)];
    encode(&mut bytes, &frame, false).expect("the buffer is large enough");
    bytes
}

/// Returns the median time of each function in nanoseconds. In each round, all functions run one
/// after the other.
fn medians<F: Fn(), const N: usize>(works: &[F; N]) -> [f64; N] {
    let mut rounds = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (work, taken) in works.iter().zip(&mut rounds) {
            let start = Instant::now();
            (0..TIMES).for_each(|_| work());
            taken.push(start.elapsed().as_nanos() as f64 / f64::from(TIMES));
        }
    }
    rounds.map(|mut taken| {
        taken.sort_by(f64::total_cmp);
        taken[ROUNDS / 2]
    })
}

/// All implementations must read the same values, and write the same request.
#[test]
fn each_parser_reads_every_benchmark_reply() {
    for reply in REPLIES {
        let mut frames = frames::Frames::default();
        frames.space(reply.len()).extend_from_slice(reply);
        let ours = frames.take().expect("the bytes are a whole reply");
        let theirs = redis::parse_redis_value(reply).expect("the bytes are a whole reply");
        assert_eq!(ours, Some(frames::Frame::Value(theirs)));
        assert!(decode(reply).expect("the bytes are a whole reply").is_some());
    }
    assert_eq!(by_redis(), by_protocol());
}
