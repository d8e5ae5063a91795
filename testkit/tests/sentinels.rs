//! Tests of the test kit: Sentinels really replace a master, and publish the failover.

use std::path::Path;
use std::time::Duration;

use testkit::{Connection, Links, Redis, Sentinels, eventually};

#[test]
fn sentinels_name_the_primary_and_know_each_other() {
    let redis = Sentinels::start();
    redis.wait_until_agreed();
    let master = redis.master();
    assert_eq!(master.port(), redis.servers()[0].port());
    for address in redis.addresses() {
        let url = format!("redis://{address}/");
        let output = ask(&url, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", redis.name()]);
        assert_eq!(output, ["127.0.0.1", &master.port().to_string()]);
    }
}

#[test]
fn failover_moves_the_primary_and_is_published() {
    // given a master with data
    let redis = Sentinels::start();
    let old = redis.master().port();
    redis.master().command(&["SET", "key", "1"]);
    redis.servers()[1..].iter().for_each(|replica| replica.catch_up_with(redis.master()));
    let events = redis.listen();

    // when the Sentinels replace the master
    let new = redis.fail_over();

    // then the new master has the data, and takes writes
    assert_ne!(new.port(), old);
    assert_eq!(new.command(&["GET", "key"]).text(), "1");
    assert_eq!(new.command(&["SET", "key", "2"]).text(), "OK");
    let received = events.wait_for("+switch-master", LONG);
    assert_eq!(received.text, format!("mymaster 127.0.0.1 {old} 127.0.0.1 {}", new.port()));

    // and in the end the old master follows the new master
    redis.wait_until_agreed();
    assert_eq!(redis.servers()[0].command(&["GET", "key"]).text(), "2");
}

#[test]
fn stopped_primary_returns_as_a_replica_after_the_failover() {
    let redis = Sentinels::options().impatient().start();
    let events = redis.listen();
    redis.servers()[0].stop();

    let down = events.wait_for("+sdown", LONG).at;
    let switched = events.wait_for("+switch-master", LONG).at;
    assert!(switched > down);
    let new = redis.wait_for_master_other_than(0);
    assert_eq!(new.command(&["SET", "key", "1"]).text(), "OK");
    redis.wait_until_agreed();

    redis.servers()[0].start_again();
    redis.wait_until_agreed();
    assert_eq!(redis.servers()[0].command(&["GET", "key"]).text(), "1");
}

#[test]
fn paused_primary_is_replaced() {
    let redis = Sentinels::options().replicas(1).impatient().start();
    redis.servers()[0].pause();
    let new = redis.wait_for_master_other_than(0).port();
    assert_eq!(new, redis.servers()[1].port());

    redis.servers()[0].resume();
    redis.wait_until_agreed();
    assert_eq!(redis.master().port(), new);
}

#[test]
fn primary_without_its_data_stays_primary() {
    // given Sentinels with a long timeout
    let redis = Sentinels::options()
        .down_after(Duration::from_secs(60))
        .server_options(Redis::options().persistent())
        .start();
    let master = redis.master();
    master.command(&["SET", "key", "1"]);

    // when the master restarts with its data, then it is still the master
    master.restart();
    assert_eq!(master.command(&["GET", "key"]).text(), "1");

    // when the master restarts without its data, then its replicas lose their data, too
    master.stop();
    master.lose_data();
    master.start_again();
    assert!(master.command(&["GET", "key"]).is_nil());
    redis.wait_until_agreed();
    for replica in &redis.servers()[1..] {
        eventually("the replica has lost the key as well", LONG, || {
            replica.command(&["GET", "key"]).is_nil()
        });
    }
}

#[test]
fn promoted_primary_stays_primary_after_a_restart() {
    let redis = Sentinels::start();
    let new = redis.fail_over();
    redis.wait_until_agreed();
    new.restart();
    assert_eq!(new.command(&["ROLE"]).list()[0].text(), "master");
    redis.wait_until_agreed();
}

#[test]
fn sentinel_remembers_the_primary_after_a_restart() {
    let redis = Sentinels::start();
    let new = redis.fail_over().port();
    let sentinel = &redis.sentinels()[0];
    sentinel.restart();
    let output = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]);
    assert_eq!(output.texts(), ["127.0.0.1", &new.to_string()]);
}

#[test]
fn servers_and_sentinels_may_have_different_passwords() {
    let redis = Sentinels::options()
        .name("orders")
        .server_options(Redis::options().password("of-servers"))
        .sentinel_options(Redis::options().password("of-sentinels"))
        .start();
    for (port, password) in
        [(redis.master().port(), "of-servers"), (redis.sentinels()[0].port(), "of-sentinels")]
    {
        let mut client = Connection::open(port);
        assert!(client.command(&["PING"]).error().starts_with("NOAUTH"));
        assert_eq!(client.command(&["AUTH", password]).text(), "OK");
    }
    redis.fail_over();
    redis.wait_until_agreed();
}

#[test]
fn servers_and_sentinels_connect_as_their_own_users() {
    let redis = Sentinels::options()
        .server_options(
            Redis::options().password("locked").user("server", REPLICATES).replicates_as("server"),
        )
        .sentinel_options(
            Redis::options().password("locked").user("watcher", WATCHES).replicates_as("watcher"),
        )
        .start();
    redis.user("client", &["~*", "+set"]);
    redis.sentinel_user("asker", &["+sentinel|get-master-addr-by-name"]);

    let mut client = Connection::open(redis.fail_over().port());
    assert_eq!(client.command(&["AUTH", "client", "secret"]).text(), "OK");
    assert_eq!(client.command(&["SET", "key", "1"]).text(), "OK");
    let mut asker = Connection::open(redis.sentinels()[0].port());
    assert_eq!(asker.command(&["AUTH", "asker", "secret"]).text(), "OK");
    let output = asker.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]);
    assert_eq!(output.list().len(), 2);
    redis.wait_until_agreed();
}

#[test]
fn servers_with_tls_announce_their_tls_ports() {
    let redis = Sentinels::options()
        .server_options(Redis::options().tls_with_client_auth())
        .sentinel_options(Redis::options().tls())
        .start();
    let new = redis.fail_over();
    let output = ask(
        &format!("redis://127.0.0.1:{}/", redis.sentinels()[0].port()),
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"],
    );
    assert_eq!(output, ["127.0.0.1", &new.tls_port().to_string()]);
    let first = format!("rediss-sentinel://127.0.0.1:{},", redis.sentinels()[0].tls_port());
    assert!(redis.url().starts_with(&first) && redis.url().ends_with("/mymaster"));
    assert_eq!(redis.ca_pem(), redis.sentinels()[0].ca_pem());
    redis.wait_until_agreed();
}

#[test]
fn cut_client_links_separate_only_clients_from_a_server() {
    // given a deployment with links
    let redis = Sentinels::options().links().start();
    let master = redis.announced_port(0);
    assert_ne!(master, redis.master().port());
    let mut client = Connection::open(master);
    assert_eq!(client.command(&["SET", "key", "1"]).text(), "OK");

    // when clients are cut off from the master
    redis.links().cut(Links::CLIENTS, "redis-0");
    assert!(client.try_command(&["PING"]).is_err());
    assert!(try_ping(master).is_err());

    // then this server is still the master, with its replicas
    redis.wait_until_agreed();
    assert_eq!(redis.master_number(), 0);
    redis.links().heal(Links::CLIENTS, "redis-0");
    assert_eq!(try_ping(master).unwrap(), "PONG");

    // and servers that restart announce the same ports again
    redis.servers()[1].restart();
    redis.sentinels()[1].restart();
    redis.wait_until_agreed();
}

#[test]
fn primary_that_only_clients_reach_is_replaced() {
    // given a primary that only clients can reach
    let redis = Sentinels::options().links().impatient().start();
    let all = redis.links().names();
    let others: Vec<_> = all.iter().map(String::as_str).filter(|it| *it != "redis-0").collect();
    redis.links().split(&["redis-0"], &others);

    // when the Sentinels replace it, then clients can write to the old and to the new primary
    let new = redis.wait_for_master_other_than(0);
    let mut of_old = Connection::open(redis.announced_port(0));
    assert_eq!(of_old.command(&["SET", "key", "old"]).text(), "OK");
    assert_eq!(new.command(&["SET", "key", "new"]).text(), "OK");

    // When all links are healed, the data of the new primary replaces the data of the old primary.
    redis.links().heal_all();
    redis.wait_until_agreed();
    assert_eq!(redis.servers()[0].command(&["GET", "key"]).text(), "new");
}

#[test]
fn partition_may_have_a_primary_on_each_side() {
    // given a master that can reach only one Sentinel
    let redis = Sentinels::options().links().impatient().start();
    let side = ["redis-0", "sentinel-0"];
    redis.links().split(&side, &["redis-1", "redis-2", "sentinel-1", "sentinel-2"]);

    // when the other Sentinels have replaced the master, then this Sentinel still names the old
    // master
    eventually("the other Sentinels have another primary", LONG, || {
        [1, 2].into_iter().all(|it| redis.master_seen_by(it).is_some_and(|master| master != 0))
    });
    assert_eq!(redis.master_seen_by(0), Some(0));
    assert_eq!(redis.servers()[0].command(&["SET", "key", "old"]).text(), "OK");

    // When all links are healed, the write to the old master is lost.
    redis.links().heal_all();
    let new = redis.wait_for_master_other_than(0);
    redis.wait_until_agreed();
    assert!(redis.servers()[0].command(&["GET", "key"]).is_nil());
    assert!(new.command(&["GET", "key"]).is_nil());
}

#[test]
fn dropped_sentinels_leave_nothing_behind() {
    let redis = Sentinels::options().links().start();
    redis.servers()[1].pause();
    let all: Vec<_> = redis.servers().iter().chain(redis.sentinels()).collect();
    let left: Vec<_> = all.iter().map(|it| (it.pid(), it.dir().to_owned())).collect();
    assert_eq!(left.len(), 6);

    drop(redis);

    for (pid, dir) in left {
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(!dir.exists());
    }
}

fn ask(url: &str, words: &[&str]) -> Vec<String> {
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let reply = Connection::open(port).command(words);
    reply.texts().into_iter().map(str::to_owned).collect()
}

fn try_ping(port: u16) -> std::io::Result<String> {
    let reply = Connection::try_open(port, Duration::from_secs(5))?.try_command(&["PING"])?;
    Ok(reply.text().to_owned())
}

/// The permissions that replicas and Sentinels need at a server, as the documentation of Redis
/// lists them.
const REPLICATES: &[&str] = &[
    "&*",
    "+psync",
    "+replconf",
    "+multi",
    "+slaveof",
    "+ping",
    "+exec",
    "+subscribe",
    "+config|rewrite",
    "+role",
    "+publish",
    "+info",
    "+client|setname",
    "+client|kill",
    "+script|kill",
];

/// The permissions that a Sentinel needs at another Sentinel.
const WATCHES: &[&str] = &[
    "&*",
    "+auth",
    "+client|getname",
    "+client|id",
    "+client|setname",
    "+command",
    "+hello",
    "+ping",
    "+role",
    "+sentinel|get-master-addr-by-name",
    "+sentinel|is-master-down-by-addr",
    "+subscribe",
    "+publish",
];

const LONG: Duration = Duration::from_secs(30);
