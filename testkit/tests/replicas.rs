//! A replica has what its master had, until it is promoted.

use testkit::Redis;

#[test]
fn a_replica_has_what_its_master_had_and_is_told_what_changes() {
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
fn a_promoted_replica_takes_writes_and_is_told_nothing_more() {
    // given a replica that was promoted
    let master = Redis::start();
    master.command(&["SET", "kept", "1"]);
    let replica = Redis::start_replica_of(&master);
    replica.promote();

    // when both are written to
    master.command(&["SET", "kept", "2"]);
    assert_eq!(replica.command(&["SET", "own", "3"]).text(), "OK");

    // then each has its own
    assert_eq!(replica.command(&["GET", "kept"]).text(), "1");
    assert!(master.command(&["GET", "own"]).is_nil());
}

#[test]
fn a_master_that_comes_back_as_a_replica_gives_up_what_it_has() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    replica.promote();
    master.command(&["SET", "key", "old"]);
    replica.command(&["SET", "key", "new"]);

    master.follow(&replica);

    assert_eq!(master.command(&["GET", "key"]).text(), "new");
}

#[test]
fn a_master_with_a_password_is_followed() {
    let master = Redis::options().password("secret").start();
    master.command(&["SET", "key", "1"]);
    let replica = Redis::start_replica_of(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
}

#[test]
fn a_replica_follows_its_master_after_a_restart_too() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    replica.restart();
    replica.wait_until_synced();
    master.command(&["SET", "key", "1"]);
    replica.catch_up_with(&master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");

    // until it is promoted
    replica.promote();
    replica.restart();
    assert_eq!(replica.command(&["ROLE"]).list()[0].text(), "master");
}

#[test]
fn a_replica_may_have_a_password_of_its_own() {
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
fn a_replica_logs_in_as_the_user_of_its_master_who_may_do_no_more() {
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
fn a_replica_and_its_master_speak_tls_if_both_do() {
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
fn what_a_replica_says_while_it_follows_is_not_counted() {
    let master = Redis::start();
    let replica = Redis::start_replica_of(&master);
    let before = master.calls();
    master.command(&["SET", "key", "1"]);
    replica.catch_up_with(&master);
    assert_eq!(master.calls().since(&before).to_string(), "set: 1");
}
