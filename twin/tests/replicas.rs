//! Simulated servers in a network and their replicas, alone and compared with real servers.

mod speaking;

use std::time::Duration;

use leasehold_twin::{Cut, Delay, Net, Reach, Twin};
use speaking::Speaker;
use testkit::Redis;
use tokio::time::{Instant, sleep, timeout};

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

// The network.

#[tokio::test(start_paused = true)]
async fn address_can_be_made_unreachable_for_one_host_or_all_hosts() {
    let net = Net::new(7);
    let server = net.start("a:1");
    let host = net.host("app");
    host.reach("a:1", Reach::Silent);
    assert!(timeout(ms(10), host.dial("a:1")).await.is_err());
    let _other = net.host("other").dial("a:1").await.unwrap();
    net.reach("a:1", Reach::Refused);
    assert!(net.host("other").dial("a:1").await.is_err());
    assert_eq!(net.host("app").cut("a:1", Cut::Whole), 0);
    assert_eq!(net.host("other").cut("a:1", Cut::Whole), 1);
    assert!(server.connections().is_empty());
}

#[tokio::test(start_paused = true)]
async fn address_can_lead_to_another_server() {
    let net = Net::new(7);
    let (old, new) = (net.start("a:1"), net.start("a:2"));
    net.lead("a:1", &new);
    let _stream = net.dial("a:1").await.unwrap();
    assert_eq!((old.connections().len(), new.connections().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn killed_server_restarts_with_or_without_its_data() {
    let twin = Twin::new(7);
    let mut client = Speaker::to(&twin).await;
    client.ask("SET k v").await;
    client.ask("SCRIPT LOAD return").await;
    twin.kill();
    assert_eq!(client.within(ms(1)).await, speaking::ENDED);
    assert!(twin.connect().await.is_err());
    twin.restart();
    let mut client = Speaker::to(&twin).await;
    assert_eq!(client.ask("GET k").await, "$1 v ");
    twin.kill();
    twin.forget_everything();
    twin.restart();
    assert!(twin.keys().is_empty());
}

// Replicas.

#[tokio::test(start_paused = true)]
async fn wait_command_counts_replicas_that_have_the_clients_writes() {
    let twin = Twin::new(7);
    let replica = twin.replica(Delay::Fixed(ms(20)));
    sleep(ms(100)).await;
    let mut client = Speaker::to(&twin).await;
    assert_eq!(client.ask("WAIT 1 0").await, ":1 ");
    let start = Instant::now();
    client.ask("SET k v").await;
    client.send(&["WAIT 1 0", "GET k"]).await;
    assert_eq!(client.within(ms(30)).await, "nothing");
    assert_eq!(client.within(ms(30)).await, ":1 $1 v ");
    assert_eq!(start.elapsed(), ms(40));
    assert_eq!(replica.keys(), ["k"]);
}

#[tokio::test(start_paused = true)]
async fn wait_command_counts_acknowledging_replicas_at_its_timeout() {
    let twin = Twin::new(7);
    let [one, two] = [twin.replica(Delay::None), twin.replica(Delay::None)];
    sleep(ms(10)).await;
    two.isolate();
    let mut client = Speaker::to(&twin).await;
    client.ask("SET k v").await;
    let start = Instant::now();
    assert_eq!(client.ask("WAIT 2 300").await, ":1 ");
    assert_eq!(start.elapsed(), ms(300));
    assert_eq!((one.keys().len(), two.keys().len()), (1, 0));
    two.rejoin();
    assert_eq!(client.ask("WAIT 2 0").await, ":2 ");
}

#[tokio::test(start_paused = true)]
async fn waiting_client_is_disconnected_when_its_server_is_demoted() {
    let twin = Twin::new(7);
    let replica = twin.replica(Delay::Fixed(ms(20)));
    let mut client = Speaker::to(&twin).await;
    client.send(&["SET k v", "WAIT 1 0"]).await;
    assert_eq!(client.within(ms(1)).await, "+OK ");
    replica.promote();
    assert!(client.within(ms(1)).await.starts_with("-UNBLOCKED force"));
    assert_eq!(client.within(ms(1)).await, speaking::ENDED);
}

#[tokio::test(start_paused = true)]
async fn replica_copies_the_empty_data_of_a_restarted_primary() {
    let twin = Twin::new(7);
    let replica = twin.replica(Delay::None);
    Speaker::to(&twin).await.ask("SET k v").await;
    sleep(ms(1)).await;
    assert_eq!(replica.keys(), ["k"]);
    twin.kill();
    let mut there = Speaker::to(&replica).await;
    sleep(ms(1)).await;
    assert!(there.ask("INFO replication").await.contains("master_link_status:down"));
    twin.forget_everything();
    twin.restart();
    sleep(ms(2_000)).await;
    assert!(replica.keys().is_empty());
    assert!(there.ask("INFO replication").await.contains("master_link_status:up"));
}

// Comparison with real servers.

/// Returns the lines about replication in a reply to INFO, without their numbers.
fn without_numbers(info: &str) -> Vec<String> {
    let lines = info.split(' ').filter(|line| line.contains(':'));
    let known = [
        "role:",
        "connected_slaves:",
        "slave0:",
        "master_link_status:",
        "slave_priority:",
        "slave_read_only:",
        "master_failover_state:",
        "master_host:",
    ];
    let reported = lines.filter(|line| known.iter().any(|it| line.starts_with(it)));
    let digits = |line: &str| match line.starts_with("slave0:") {
        true => line.split(',').filter(|it| it.starts_with("state=")).collect(),
        false => line.to_owned(),
    };
    reported.map(digits).collect()
}

#[tokio::test(start_paused = true)]
async fn simulated_server_reports_replication_like_redis() {
    let (master, twin) = (Redis::start(), Twin::new(7));
    let (slave, replica) = (Redis::start_replica_of(&master), twin.replica(Delay::None));
    sleep(ms(2_000)).await;
    testkit::eventually("the replica is online", Duration::from_secs(30), || {
        master.command(&["INFO", "replication"]).text().contains("state=online")
    });
    for (real, twin) in [(&master, &twin), (&slave, &replica)] {
        let mut speaker = Speaker::to(twin).await;
        let output = real.command(&["INFO", "replication"]).text().replace("\r\n", " ");
        let twin_info = speaker.ask("INFO replication").await;
        assert_eq!(without_numbers(&twin_info), without_numbers(&output));
        let role = real.command(&["ROLE"]);
        let twin_role = speaker.ask("ROLE").await;
        let first = role.list()[0].text();
        assert!(twin_role.contains(&format!(" {first} ")), "{twin_role}, {role:?}");
        for odd in ["WAIT x 1", "WAIT 1 x", "WAIT 1 -1", "WAIT 0 0", "WAIT 1 0", "WAIT 1"] {
            let real_reply = reply_to(real, odd);
            assert_eq!(speaker.ask(odd).await, real_reply, "{odd}");
        }
        assert_eq!(speaker.ask("SET k v").await.starts_with("-READONLY"), first == "slave");
    }
}

/// Returns the bytes that a real server replies.
fn reply_to(redis: &Redis, command: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    let words: Vec<_> = command.split(' ').collect();
    stream.write_all(&speaking::packed(&words)).unwrap();
    let mut bytes = [0; 4096];
    let length = stream.read(&mut bytes).unwrap();
    speaking::shown(&bytes[..length])
}
