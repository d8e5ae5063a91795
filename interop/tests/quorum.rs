//! `RedissonRedLock` and Leasehold's `QuorumLock`: both are plain locks on several servers.

use std::time::Duration;

use interop::{Java, Kind, Setup, Way, shown};
use leasehold::QuorumClient;
use testkit::Redis;
use tokio::runtime::Runtime;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn quorum_locks_of_both_languages_exclude_each_other() {
    let servers: [Redis; 3] = std::array::from_fn(|_| Redis::start());
    let ports = servers.each_ref().map(|server| server.port().to_string()).join(",");
    let java = Java::start(&Setup::new(servers[0].url()));
    let (theirs, single) = (java.thread("T1").of(Kind::Red), java.thread("T2"));
    let door = format!("door@{ports}");
    let runtime = Runtime::new().unwrap();
    let quorum = runtime.block_on(QuorumClient::connect(servers.each_ref().map(Redis::url)));
    let ours = quorum.unwrap().lock("door").unwrap();

    // Java holds, and Rust waits.
    assert!(theirs.lock(&door).acquired());
    assert!(runtime.block_on(ours.try_acquire()).unwrap().is_none());
    let waiting = runtime.spawn(async move { ours.acquire_within(20 * SECOND).await });
    std::thread::sleep(SECOND);
    assert!(theirs.unlock(&door).is_true());
    let guard = runtime.block_on(waiting).unwrap().unwrap();
    shown("quorum lock: excludes and follows RedissonRedLock", Way::JavaToRust);

    // Rust holds, and Java waits.
    assert!(!theirs.try_lock(&door).acquired());
    assert!(!single.try_lock("door").acquired());
    let waiting = theirs.start_lock(&door);
    std::thread::sleep(SECOND);
    assert!(!waiting.is_done());
    runtime.block_on(guard.release()).unwrap().into_result().unwrap();
    assert!(waiting.wait(20 * SECOND).acquired());
    shown("quorum lock: excludes and follows RedissonRedLock", Way::RustToJava);
    assert!(theirs.unlock(&door).is_true());
}
