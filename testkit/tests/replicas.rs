//! Tests of the test kit: a replica has the data of its master, until it is promoted.

use testkit::Redis;

#[test]
fn replica_copies_old_and_new_data() {
    let master = Redis::start();
    master.command(&["SET", "before", "1"]);
    let replica = Redis::start_replica_of(&master);
    assert_eq!(replica.command(&["GET", "before"]).text(), "1");

    master.command(&["SET", "after", "2"]);
    replica.catch_up_with(&master);
    assert_eq!(replica.command(&["GET", "after"]).text(), "2");
    assert!(replica.command(&["SET", "own", "3"]).error().starts_with("READONLY"));
}

#[test]
fn promoted_replica_takes_writes_and_stops_copying() {
    // given a replica that was promoted
    let master = Redis::start();
    master.command(&["SET", "kept", "1"]);
    let replica = Redis::start_replica_of(&master);
    replica.promote();

    // when a client writes to both servers
    master.command(&["SET", "kept", "2"]);
    assert_eq!(replica.command(&["SET", "own", "3"]).text(), "OK");

    // then each server has only its own write
    assert_eq!(replica.command(&["GET", "kept"]).text(), "1");
    assert!(master.command(&["GET", "own"]).is_nil());
}

#[test]
fn primary_that_becomes_a_replica_again_drops_its_data() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    replica.promote();
    master.command(&["SET", "key", "old"]);
    replica.command(&["SET", "key", "new"]);

    master.follow(&replica);

    assert_eq!(master.command(&["GET", "key"]).text(), "new");
}

#[test]
fn replica_follows_a_primary_with_a_password() {
    let master = Redis::options().password("secret").start();
    master.command(&["SET", "key", "1"]);
    let replica = Redis::start_replica_of(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
}

#[test]
fn replica_follows_its_primary_again_after_a_restart() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    replica.restart();
    replica.wait_until_synced();
    master.command(&["SET", "key", "1"]);
    replica.catch_up_with(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");

    // After its promotion, the server no longer follows the old primary.
    replica.promote();
    replica.restart();
    assert_eq!(replica.command(&["ROLE"]).list()[0].text(), "master");
}

#[test]
fn replica_may_have_a_password_of_its_own() {
    let master = Redis::options().password("one").start();
    let replica = Redis::options().password("other").start_replica_of(&master);
    assert_eq!(
        replica.url_with_password(),
        format!("redis://:other@127.0.0.1:{}/", replica.port())
    );
    master.command(&["SET", "key", "1"]);
    replica.catch_up_with(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
}

#[test]
fn replica_logs_in_as_the_replication_user() {
    let master = Redis::options()
        .password("locked")
        .user("replica", &["+psync", "+replconf", "+ping"])
        .replicates_as("replica")
        .start();
    master.command(&["SET", "key", "1"]);
    let replica = Redis::start_replica_of(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
    assert!(master.command(&["CLIENT", "LIST", "TYPE", "replica"]).text().contains("user=replica"));
}

#[test]
fn replica_and_primary_use_tls_if_both_have_tls() {
    for (of_master, of_replica, in_tls) in
        [(true, true, true), (true, false, false), (false, true, false)]
    {
        let options =
            |tls| if tls { Redis::options().tls_with_client_auth() } else { Redis::options() };
        let master = options(of_master).start();
        master.command(&["SET", "key", "1"]);
        let replica = options(of_replica).start_replica_of(&master);
        assert_eq!(replica.command(&["GET", "key"]).text(), "1");
        let port = i64::from(if in_tls { master.tls_port() } else { master.port() });
        assert_eq!(replica.command(&["ROLE"]).list()[2].number(), port);
    }
}

#[test]
fn replication_traffic_is_not_counted() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let before = master.calls();
    master.command(&["SET", "key", "1"]);
    replica.catch_up_with(&master);
    assert_eq!(master.calls().since(&before).to_string(), "set: 1");
}
