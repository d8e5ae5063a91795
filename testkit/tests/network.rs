//! Tests of the test kit: the proxy and the links break and repair the network as configured.

use std::io::ErrorKind;
use std::time::Duration;

use testkit::{Connection, Links, Proxy, Redis, Sentinels, eventually};

#[test]
fn proxy_without_faults_passes_everything() {
    let t = Setup::new();
    let long = "x".repeat(3_000_000);
    let mut client = t.client();
    assert_eq!(client.command(&["SET", "long", &long]).text(), "OK");
    assert_eq!(client.command(&["GET", "long"]).text(), long);
    assert_eq!(t.proxy.url(), format!("redis://127.0.0.1:{}/", t.proxy.port()));
}

#[test]
fn proxy_cut_closes_only_the_present_connections() {
    let t = Setup::new();
    let mut clients = [t.client(), t.client()];
    for client in &mut clients {
        client.command(&["PING"]);
    }

    t.proxy.cut();

    for client in &mut clients {
        let error = client.next_reply().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
    assert_eq!(t.client().command(&["PING"]).text(), "PONG");
}

#[test]
fn proxy_cut_closes_the_server_connection() {
    let t = Setup::new();
    let mut client = t.client();
    let id = client.command(&["CLIENT", "ID"]).number().to_string();
    t.proxy.cut();
    eventually("the server has closed the connection", LONG, || {
        t.redis.command(&["CLIENT", "LIST", "ID", &id]).text().is_empty()
    });
}

#[test]
fn closed_client_closes_the_server_connection() {
    let t = Setup::new();
    let mut client = t.client();
    let id = client.command(&["CLIENT", "ID"]).number().to_string();
    assert_eq!(t.proxy.connections(), 1);
    drop(client);
    eventually("the server has closed the connection", LONG, || {
        t.redis.command(&["CLIENT", "LIST", "ID", &id]).text().is_empty()
    });
    eventually("the proxy has no connections", LONG, || t.proxy.connections() == 0);
}

#[test]
fn refused_clients_are_closed_at_once() {
    let t = Setup::new();
    let mut present = t.client();
    present.command(&["PING"]);

    t.proxy.refuse(true);
    assert!(present.try_command(&["INCR", "counter"]).is_err());
    for _ in 0..3 {
        let refused = t.client().try_command(&["INCR", "counter"]).unwrap_err();
        assert_ne!(refused.kind(), ErrorKind::WouldBlock);
    }

    t.proxy.refuse(false);
    assert_eq!(t.client().command(&["INCR", "counter"]).number(), 1);
}

#[test]
fn request_is_executed_when_the_proxy_swallows_its_reply() {
    let t = Setup::new();
    let mut client = t.impatient_client();

    t.proxy.swallow_replies(true);
    let error = client.try_command(&["INCR", "counter"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(t.counter(), "1");

    // The connection still exists, and works again.
    t.proxy.swallow_replies(false);
    assert_eq!(client.command(&["INCR", "counter"]).number(), 2);
}

#[test]
fn proxy_loses_the_selected_reply_only_once() {
    let t = Setup::new();
    let mut client = t.client();
    client.command(&["PING"]);

    t.proxy.lose_next_reply();
    assert_eq!(t.proxy.lost_replies(), 0);
    let error = client.try_command(&["INCR", "counter"]).unwrap_err();

    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(t.counter(), "1");
    assert_eq!(t.proxy.lost_replies(), 1);
    assert_eq!(t.client().command(&["INCR", "counter"]).number(), 2);
}

#[test]
fn reply_to_one_request_can_be_lost() {
    let t = Setup::new();
    let mut bystander = t.client();
    let mut client = t.client();

    t.proxy.lose_reply_to("counter");
    assert_eq!(bystander.command(&["PING"]).text(), "PONG");
    assert_eq!(client.command(&["PING"]).text(), "PONG");
    assert!(client.try_command(&["INCR", "counter"]).is_err());

    assert_eq!(bystander.command(&["GET", "counter"]).text(), "1");
}

#[test]
fn nothing_passes_a_black_hole() {
    let t = Setup::new();
    let mut client = t.impatient_client();
    client.command(&["PING"]);

    // given a connection through a black hole, and a request on this connection
    t.proxy.black_hole(true);
    let error = client.try_command(&["INCR", "counter"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(t.redis.command(&["GET", "counter"]).is_nil());

    // and another connection that the proxy accepts, but whose bytes it does not pass on
    let mut late = t.impatient_client();
    let error = late.try_command(&["INCR", "counter"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    // when the black hole ends, then both clients receive their replies
    t.proxy.black_hole(false);
    assert!(client.next_reply().is_ok());
    assert!(late.next_reply().is_ok());
    assert_eq!(t.counter(), "2");
}

#[test]
fn black_hole_blocks_replies_until_it_ends() {
    let t = Setup::new();
    let mut client = t.impatient_client();
    client.send(&["BLPOP", "list", "0"]).unwrap();
    eventually("the client waits", LONG, || {
        t.redis.command(&["INFO", "clients"]).text().contains("blocked_clients:1")
    });

    t.proxy.black_hole(true);
    t.redis.command(&["RPUSH", "list", "item"]);
    assert!(client.next_reply().is_err());

    t.proxy.black_hole(false);
    assert_eq!(client.next_reply().unwrap().texts(), ["list", "item"]);
}

#[test]
fn cut_black_hole_discards_its_bytes_and_closes_the_connection() {
    let t = Setup::new();
    let mut client = t.client();
    t.proxy.black_hole(true);
    client.send(&["INCR", "counter"]).unwrap();

    t.proxy.cut();
    assert_ne!(client.next_reply().unwrap_err().kind(), ErrorKind::WouldBlock);

    // The bytes that the black hole blocked before the cut never arrive.
    t.proxy.black_hole(false);
    assert_eq!(t.client().command(&["PING"]).text(), "PONG");
    assert!(t.redis.command(&["GET", "counter"]).is_nil());
}

#[test]
fn proxy_delays_replies_but_not_requests() {
    let t = Setup::new();
    let mut client = t.impatient_client();
    client.command(&["PING"]);

    t.proxy.delay(IMPATIENCE * 2);
    assert!(client.try_command(&["INCR", "counter"]).is_err());
    assert_eq!(t.counter(), "1");

    t.proxy.delay(Duration::ZERO);
    eventually("the delayed reply arrives", LONG, || client.next_reply().is_ok());
    assert_eq!(client.command(&["INCR", "counter"]).number(), 2);
}

#[test]
fn proxy_closes_client_connections_while_the_server_is_stopped() {
    let t = Setup::new();
    t.redis.stop();
    let error = t.client().try_command(&["PING"]).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::WouldBlock);

    t.redis.start_again();
    assert_eq!(t.client().command(&["PING"]).text(), "PONG");
}

#[test]
fn dropped_proxy_closes_its_connections_and_its_port() {
    for in_black_hole in [false, true] {
        let t = Setup::new();
        let mut client = t.client();
        client.command(&["PING"]);
        let port = t.proxy.port();
        t.proxy.black_hole(in_black_hole);

        drop(t.proxy);

        assert_ne!(client.next_reply().unwrap_err().kind(), ErrorKind::WouldBlock);
        // A server that another test starts at this time may take the port for a moment.
        eventually("the port accepts no connections", LONG, || {
            Connection::try_open(port, IMPATIENCE).is_err()
        });
    }
}

#[test]
fn cut_link_separates_two_nodes_until_it_is_healed() {
    // given a primary and its replica, and no Sentinel that would start a failover
    let redis = linked();
    let (master, replica) = (&redis.servers()[0], &redis.servers()[1]);

    // when the link between them is cut
    redis.links().cut("redis-0", "redis-1");

    // then the replica receives nothing from the primary
    eventually("the replica has lost its connection", LONG, || !is_connected(replica));
    master.command(&["SET", "key", "1"]);
    assert!(replica.command(&["GET", "key"]).is_nil());

    // and clients still reach both servers
    for server in 0..2 {
        let mut client = Connection::open(redis.announced_port(server));
        assert_eq!(client.command(&["PING"]).text(), "PONG");
    }

    // When the link is healed, the replica receives the write.
    redis.links().heal("redis-1", "redis-0");
    replica.wait_until_synced();
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
}

#[test]
fn bytes_sent_into_a_black_hole_arrive_after_healing() {
    let redis = linked();
    let (master, replica) = (&redis.servers()[0], &redis.servers()[1]);
    let mut client = Connection::open(redis.announced_port(0));

    redis.links().black_hole("redis-1", "redis-0");
    assert_eq!(client.command(&["SET", "key", "1"]).text(), "OK");
    assert!(replica.command(&["GET", "key"]).is_nil());
    assert!(is_connected(replica));

    redis.links().heal("redis-0", "redis-1");
    replica.catch_up_with(master);
    assert_eq!(replica.command(&["GET", "key"]).text(), "1");
}

#[test]
fn cut_link_of_one_client_separates_only_this_client() {
    // given a client with separate links
    let redis = linked();
    let announced = redis.announced_port(0);
    let own = redis.links().client("left")[&announced];
    let mut left = Connection::open(own);
    let mut right = Connection::open(announced);
    assert_eq!(left.command(&["PING"]).text(), "PONG");

    // when this client is cut off, then other clients still reach the server
    redis.links().cut("left", "redis-0");
    assert!(left.try_command(&["PING"]).is_err());
    assert_eq!(right.command(&["PING"]).text(), "PONG");

    // when the other clients are cut off, then this client still reaches the server
    redis.links().heal_all();
    redis.links().cut("redis-0", Links::CLIENTS);
    assert!(right.try_command(&["PING"]).is_err());
    assert_eq!(Connection::open(own).command(&["PING"]).text(), "PONG");
}

#[test]
#[should_panic(expected = "no `redis-7` among")]
fn cut_of_a_link_to_an_unknown_server_panics() {
    linked().links().cut(Links::CLIENTS, "redis-7");
}

/// Starts a primary and a replica with links. A Sentinel with a long timeout watches them.
fn linked() -> Sentinels {
    Sentinels::options().links().replicas(1).sentinels(1).down_after(LONG * 60).start()
}

fn is_connected(replica: &Redis) -> bool {
    replica.command(&["ROLE"]).list()[3].text() == "connected"
}

struct Setup {
    proxy: Proxy,
    redis: Redis,
}

impl Setup {
    fn new() -> Self {
        let redis = Redis::start();
        Self { proxy: Proxy::before(redis.port()), redis }
    }

    fn client(&self) -> Connection {
        Connection::open(self.proxy.port())
    }

    fn impatient_client(&self) -> Connection {
        Connection::try_open(self.proxy.port(), IMPATIENCE).unwrap()
    }

    fn counter(&self) -> String {
        self.redis.command(&["GET", "counter"]).text().to_owned()
    }
}

/// Long enough for a reply, and short enough for a test that expects no reply.
const IMPATIENCE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);
