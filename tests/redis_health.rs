//! Hazards of a server. A client looks for hazards when it connects, and at each health check. The
//! client logs each hazard once, with a remedy. It logs another line when the hazard is resolved.

use std::time::Duration;

use crate::common::{Log, cluster::Ways, comes_true, healed, ms, release_guard, secs, within};
use leasehold::{Client, Hazard, Health, Replicas};
use testkit::{Cluster, Redis, Sentinels, Tampering, TamperingProxy, came_with, eventually};
use tokio::time::{Instant, sleep};

/// The limit on a busy machine for changes that take servers some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

fn has(health: &Health, is_it: impl Fn(&Hazard) -> bool) -> bool {
    health.findings.iter().any(|finding| is_it(&finding.hazard))
}

/// The number of logged hazards with `words`.
fn warned(log: &Log, words: &str) -> usize {
    let text = log.text();
    let lines =
        text.lines().filter(|it| it.contains("WARN") && it.contains("deployment hazard detected"));
    lines.filter(|it| it.contains(words)).count()
}

/// The number of log lines which report that a hazard with `words` was resolved.
fn over(log: &Log, words: &str) -> usize {
    let text = log.text();
    text.lines()
        .filter(|it| it.contains("deployment hazard resolved") && it.contains(words))
        .count()
}

/// Asserts that a client of `url` logs the hazard once, with its remedy. The client must not log
/// the hazard again when `redis` closes the connections. The next health check must report the
/// hazard.
async fn is_found_and_logged_once(url: &str, redis: &Redis, is_it: impl Fn(&Hazard) -> bool) {
    let (log, _logged) = Log::begin();
    let client = Client::connect(url).await.unwrap();
    let health =
        healed(&client, PATIENCE, "`health` reports the hazard", |health| has(health, &is_it))
            .await;
    let found = health.findings.iter().find(|it| is_it(&it.hazard)).unwrap();
    let (text, remedy) = (found.hazard.to_string(), found.hazard.remedy());
    let words: Vec<_> = text.split(|it: char| it.is_ascii_digit()).collect();
    let words = words.into_iter().max_by_key(|it| it.len()).unwrap_or_default();
    assert_eq!((warned(&log, words), warned(&log, remedy)), (1, 1), "{}", log.text());

    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let is_back = |health: &Health| {
        health.commands_up && client.stats().reconnects > 0 && has(health, &is_it)
    };
    healed(
        &client,
        PATIENCE,
        "the client has reconnected and `health` reports the hazard",
        is_back,
    )
    .await;
    assert_eq!(warned(&log, words), 1, "{}", log.text());
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}

#[tokio::test]
async fn healthy_server_has_no_findings_and_no_logs() {
    let primary = Redis::options().arg("--min-replicas-to-write", "1").start();
    let _replica = Redis::start_replica_of(&primary);
    let counts_it = |text: &str| text.contains("min_slaves_good_slaves:1");
    eventually("the primary counts the replica", PATIENCE, || {
        counts_it(primary.command(&["INFO", "replication"]).text())
    });
    let (log, _logged) = Log::begin();
    let client = Client::connect(&primary.url()).await.unwrap();
    let health = client.health().await;
    assert_eq!((health.findings, log.text().as_str()), (vec![], ""));
}

#[tokio::test]
async fn evicting_server_is_found_and_logged_once() {
    let redis = Redis::options().arg("--maxmemory-policy", "allkeys-lru").start();
    let is_it = |it: &Hazard| matches!(it, Hazard::Evicts { policy } if policy == "allkeys-lru");
    is_found_and_logged_once(&redis.url(), &redis, is_it).await;
    let health = Client::connect(&redis.url()).await.unwrap().health().await;
    assert_eq!(health.eviction_policy.as_deref(), Some("allkeys-lru"));
    assert!(health.is_ready(), "{health:?}");
}

#[tokio::test]
async fn unprotected_primary_is_found_and_logged_once() {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    is_found_and_logged_once(&primary.url(), &primary, |it| *it == Hazard::UnprotectedPrimary)
        .await;

    // `health` no longer reports the hazard if the primary requires a replica, or if the primary
    // has no replica.
    let client = Client::connect(&primary.url()).await.unwrap();
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(client.health().await.findings, []);
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    replica.promote();
    healed(&client, PATIENCE, "`health` has no finding", |health| health.findings.is_empty()).await;
}

/// A server without free memory rejects every lock. Former bug: the health check returned that the
/// client is ready.
#[tokio::test]
async fn client_of_a_full_server_is_not_ready() {
    let server = Redis::start();
    let client = Client::connect(&server.url()).await.unwrap();
    assert!(client.health().await.is_ready());
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let health = client.health().await;
    assert!(!health.is_ready());
    assert!(
        health.unavailable_reason.as_deref().is_some_and(|it| it.contains("OOM")),
        "{health:?}"
    );
    assert!(client.lock("door").unwrap().try_acquire().await.unwrap_err().is_transient());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(client.health().await.is_ready());
}

/// Former bug: when the hazard returned, the health check reported it, but the client did not log
/// it.
#[tokio::test]
async fn returning_hazard_is_logged_as_detected_and_resolved_again() {
    let primary = Redis::start();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&primary.url()).await.unwrap();
    let set = |least| primary.command(&["CONFIG", "SET", "min-replicas-to-write", least]);
    for times in 1..=2 {
        set("1");
        assert!(has(&client.health().await, |it| *it == Hazard::TooFewReplicas));
        assert!(!client.health().await.is_ready());
        set("0");
        assert_eq!(client.health().await.findings, []);
        assert!(client.health().await.is_ready());
        let reported = [warned(&log, "NOREPLICAS"), over(&log, "NOREPLICAS")];
        assert_eq!(reported, [times, times], "{}", log.text());
    }
}

#[tokio::test]
async fn temporary_hazard_is_logged_as_resolved_without_health_check() {
    let refuses = Redis::options().arg("--min-replicas-to-write", "1").start();
    let evicts = Redis::options().arg("--maxmemory-policy", "allkeys-lru").start();
    let well = Redis::start();
    let (log, _logged) = Log::begin();
    let mut clients = vec![];
    for redis in [&refuses, &evicts, &well] {
        clients.push(Client::connect(&redis.url()).await.unwrap());
    }
    assert_eq!((warned(&log, "NOREPLICAS"), warned(&log, "evict locks")), (1, 1), "{}", log.text());
    let before = [&evicts, &well].map(|redis| redis.calls());

    refuses.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    within(PATIENCE, "the client logs the end of the hazard", async {
        while over(&log, "NOREPLICAS") == 0 {
            sleep(ms(50)).await;
        }
    })
    .await;
    sleep(secs(12)).await;
    assert_eq!(over(&log, "NOREPLICAS"), 1);
    for (redis, before) in [&evicts, &well].into_iter().zip(&before) {
        assert_eq!(redis.calls().since(before).of("info"), 0);
    }
}

/// Without a replica, no server can replace the primary. Former bug: a missing replica was not
/// logged.
#[tokio::test]
async fn loss_of_the_last_replica_is_found_and_logged_each_time() {
    let redis = Sentinels::options().replicas(1).start();
    let (master, replica) = (redis.master(), &redis.servers()[1]);
    let several = format!("redis://127.0.0.1:{},127.0.0.1:{}", master.port(), replica.port());
    for url in [redis.url(), several] {
        let is_it = |it: &Hazard| *it == Hazard::NoReplica;
        let before = Client::connect(&url).await.unwrap();
        healed(&before, PATIENCE, "`health` does not report a missing replica", |health| {
            !has(health, is_it)
        })
        .await;
        let (log, _logged) = Log::begin();
        let client = Client::connect(&url).await.unwrap();
        for times in 1..=2 {
            replica.stop();
            healed(&client, PATIENCE, "`health` reports that no replica is connected", |health| {
                has(health, is_it)
            })
            .await;
            replica.start_again();
            healed(&client, PATIENCE, "`health` no longer reports a missing replica", |health| {
                !has(health, is_it)
            })
            .await;
            let words = "no server can replace this primary";
            assert_eq!([warned(&log, words), over(&log, words)], [times, times], "{}", log.text());
        }
    }
}

/// Former bug: when the last replica stopped, the hazard was logged as resolved.
#[tokio::test]
async fn unprotected_primary_hazard_stays_raised_without_replicas() {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    let (log, _logged) = Log::begin();
    let client = Client::connect(&primary.url()).await.unwrap();
    let is_it = |it: &Hazard| *it == Hazard::UnprotectedPrimary;
    healed(&client, PATIENCE, "`health` reports the unprotected primary", |health| {
        has(health, is_it)
    })
    .await;
    replica.stop();
    healed(&client, PATIENCE, "`health` no longer reports the unprotected primary", |health| {
        !has(health, is_it)
    })
    .await;
    replica.start_again();
    healed(&client, PATIENCE, "`health` reports the unprotected primary again", |health| {
        has(health, is_it)
    })
    .await;
    assert_eq!(
        [warned(&log, "cuts off this primary"), over(&log, "cuts off this primary")],
        [1, 0],
        "{}",
        log.text()
    );
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    healed(&client, PATIENCE, "`health` no longer reports the unprotected primary", |health| {
        !has(health, is_it)
    })
    .await;
    assert_eq!(
        [warned(&log, "cuts off this primary"), over(&log, "cuts off this primary")],
        [1, 1],
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn missing_replicas_are_found_and_logged() {
    let primary = Redis::start();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&primary.url()).await.unwrap();
    assert_eq!(client.health().await.findings, []);
    let two = Replicas::at_least(2).within(secs(1) / 5);
    let refused = client.lock("door").unwrap().replicated(two).acquire().await.unwrap_err();
    assert!(matches!(refused, leasehold::Error::NotReplicated { .. }), "{refused}");
    let text = log.text();
    let taken_back = |it: &&str| {
        it.contains("WARN")
            && it.contains("acquisition undone: too few replicas sent an acknowledgement in time")
    };
    assert_eq!(text.lines().filter(taken_back).count(), 1, "{text}");

    let missed = |there| move |it: &Hazard| *it == Hazard::FewerReplicas { wanted: 2, there };
    assert!(has(&client.health().await, missed(0)));
    assert_eq!(warned(&log, "0 of 2 replicas"), 1, "{}", log.text());
    let _one = Redis::start_replica_of(&primary);
    healed(&client, PATIENCE, "`health` reports one of two replicas", |health| {
        has(health, missed(1))
    })
    .await;
    let _two = Redis::start_replica_of(&primary);
    let is_it = |it: &Hazard| matches!(it, Hazard::FewerReplicas { .. });
    healed(&client, PATIENCE, "`health` no longer reports missing replicas", |health| {
        !has(health, is_it)
    })
    .await;
    assert_eq!(over(&log, "of 2 replicas"), 1, "{}", log.text());
}

#[tokio::test]
async fn lagging_replica_is_found_and_logged_once_by_name() {
    let primary = Redis::start();
    let replica = Redis::start_replica_of(&primary);
    let is_it = |it: &Hazard| {
        let named = format!("127.0.0.1:{}", replica.port());
        matches!(it, Hazard::ReplicaBehind { replica, .. } if *replica == named)
    };
    let client = Client::connect(&primary.url()).await.unwrap();
    assert!(!has(&client.health().await, is_it));
    replica.pause();
    healed(&client, PATIENCE, "`health` reports the lagging replica", |health| has(health, is_it))
        .await;
    is_found_and_logged_once(&primary.url(), &primary, is_it).await;
    replica.resume();
    healed(&client, PATIENCE, "`health` no longer reports the lagging replica", |health| {
        !has(health, is_it)
    })
    .await;
}

/// Starts a proxy that changes the replies of a server. In each line that contains `this`, the
/// proxy replaces the rest of the line by the result of `that`.
fn server_with_changed_replies(
    redis: &Redis,
    this: &'static str,
    that: impl Fn(&str) -> String + Send + Sync + 'static,
) -> TamperingProxy {
    TamperingProxy::before(redis.port(), move |output| {
        let Ok(text) = std::str::from_utf8(output.bytes) else { return Tampering::Truth };
        let Some((before, rest)) = text.split_once(this) else { return Tampering::Truth };
        let (value, behind) = rest.split_once("\r\n").unwrap();
        let changed = that(value);
        assert_eq!(
            changed.len(),
            value.len(),
            "the length must stay the same, because the reply begins with it"
        );
        let reported = format!("{before}{this}{changed}\r\n{behind}");
        Tampering::Words(vec![(Duration::ZERO, reported.into_bytes())])
    })
}

#[tokio::test]
async fn skewed_clock_is_found_and_logged_once() {
    let redis = Redis::start();
    for (seconds, is_ahead) in [(100_i64, true), (-100, false)] {
        let tampering = server_with_changed_replies(&redis, "server_time_usec:", move |reported| {
            (reported.parse::<i64>().unwrap() + 1_000_000 * seconds).to_string()
        });
        let is_it = |it: &Hazard| {
            let near = secs(60)..secs(101);
            matches!(it, Hazard::ClockApart { ahead, by } if *ahead == is_ahead && near.contains(by))
        };
        is_found_and_logged_once(&tampering.url(), &redis, is_it).await;
    }
}

#[tokio::test]
async fn old_server_is_found_and_logged_once() {
    let redis = Redis::start();
    let version = Client::connect(&redis.url()).await.unwrap().health().await.server_version;
    let version = version.unwrap();
    let (reported, old) = (format!("${}\r\n{version}\r\n", version.len()), "$6\r\n6.0.16\r\n");
    let tampering = TamperingProxy::before(redis.port(), move |output| match output.nth {
        0 => {
            let greeting = String::from_utf8(output.bytes.into()).unwrap();
            Tampering::Words(vec![(Duration::ZERO, greeting.replace(&reported, old).into_bytes())])
        }
        _ => Tampering::Truth,
    });
    let is_it = |it: &Hazard| matches!(it, Hazard::OldVersion { version } if version == "6.0.16");
    is_found_and_logged_once(&tampering.url(), &redis, is_it).await;
}

#[tokio::test]
async fn health_names_a_denied_info_command_and_locks_still_work() {
    let redis = Redis::options().arg("--maxmemory-policy", "allkeys-lru").start();
    let url = redis.user("limited", &["~*", "&*", "+@all", "-info"]);
    let (log, _logged) = Log::begin();
    let client = Client::connect(&url).await.unwrap();
    let findings = client.health().await.findings;
    assert!(
        matches!(&findings[..], [it] if it.hazard == Hazard::ChecksDenied { command: "INFO".into() })
    );
    assert_eq!(findings[0].server, format!("127.0.0.1:{}", redis.port()));
    assert_eq!(log.text(), "");
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
}

#[tokio::test]
async fn two_sentinels_are_a_hazard_that_is_logged_once() {
    let redis = Sentinels::options().sentinels(2).replicas(1).start();
    let url = redis.url();
    let is_it = |it: &Hazard| *it == Hazard::FewSentinels { known: 2 };
    is_found_and_logged_once(&url, redis.master(), is_it).await;
}

#[tokio::test]
async fn lost_sentinel_majority_is_found_and_logged_once() {
    // With a short `down_after`, a sentinel that has connected again after a second considers a
    // dead sentinel alive.
    let redis = Sentinels::options().down_after(secs(2)).start();
    let url = redis.url();
    let client = Client::connect(&url).await.unwrap();
    let is_it = |it: &Hazard| *it == Hazard::NoQuorum { usable: 1, needed: 2 };
    let is_few = |it: &Hazard| matches!(it, Hazard::FewSentinels { .. });
    let well = healed(&client, PATIENCE, "`health` reports no lost majority", |health| {
        !has(health, is_it)
    })
    .await;
    assert!(!has(&well, is_few), "{well:?}");
    redis.sentinels()[1..].iter().for_each(Redis::stop);
    let ill = healed(&client, PATIENCE, "`health` reports the lost majority", |health| {
        has(health, is_it)
    })
    .await;
    assert!(ill.is_ready(), "{ill:?}");
    is_found_and_logged_once(&url, &redis.servers()[0], is_it).await;
}

/// Former bug: the log proposed TLS for a sentinel that had replied for minutes.
#[tokio::test]
async fn missing_sentinels_are_found_and_logged_once() {
    let redis = Sentinels::start();
    let url = redis.url();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&url).await.unwrap();
    redis.sentinels().iter().for_each(Redis::stop);
    let is_it = |it: &Hazard| *it == Hazard::NoSentinel;
    let health = healed(
        &client,
        PATIENCE,
        "`health` reports that no sentinel returned the primary",
        |health| has(health, is_it),
    )
    .await;
    assert!(health.is_ready(), "{health:?}");
    let (text, words) = (log.text(), "cannot follow a failover");
    assert_eq!(text.matches(words).count(), 1, "{text}");
    assert!(!text.contains("use TLS"), "{text}");
}

fn warned_of(log: &Log, words: &str) -> usize {
    log.text().lines().filter(|it| it.contains("WARN") && it.contains(words)).count()
}

/// Former bug: the log stated that no sentinel replies, and proposed to start them.
#[tokio::test]
async fn sentinels_without_a_primary_are_logged() {
    let locked = Redis::options().password("eyes");
    let redis = Sentinels::options().replicas(1).sentinel_options(locked).start();
    let misspelt = redis.url().replace("mymaster", "yours");
    for (url, password, words, cause) in [
        (redis.url(), "wrong", "sentinel rejected this client", "check sentinel_password"),
        (
            misspelt,
            "eyes",
            "returned no address of the primary",
            "does not watch a primary named `yours`",
        ),
    ] {
        let (log, _logged) = Log::begin();
        let client = Client::builder().sentinel_password(password).connect_lazy(&url).unwrap();
        let is_it = |it: &Hazard| *it == Hazard::NoSentinel;
        let health = healed(
            &client,
            PATIENCE,
            "`health` reports that no sentinel returned the primary",
            |health| has(health, is_it),
        )
        .await;
        assert!(
            health.unavailable_reason.as_ref().is_some_and(|it| it.contains(cause)),
            "{health:?}"
        );
        let hazard = "no sentinel returned the address of the primary";
        let reported = (warned_of(&log, words), warned_of(&log, cause), warned_of(&log, hazard));
        assert_eq!((reported.0, reported.2), (3, 1), "{}", log.text());
        assert!(reported.1 >= 3, "{}", log.text());
        assert!(!log.text().contains("sentinel unreachable"), "{}", log.text());
    }
}

/// Former bug: the client kept its primary, and did not log that it could follow no failover.
#[tokio::test]
async fn primary_that_all_sentinels_forgot_is_logged() {
    let redis = Sentinels::options().replicas(1).start();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&redis.url()).await.unwrap();
    for sentinel in redis.sentinels() {
        sentinel.command(&["SENTINEL", "REMOVE", redis.name()]);
    }
    let is_it = |it: &Hazard| *it == Hazard::NoSentinel;
    let health = healed(
        &client,
        PATIENCE,
        "`health` reports that no sentinel returned the primary",
        |health| has(health, is_it),
    )
    .await;
    assert!(health.is_ready(), "{health:?}");
    let words = "cannot follow a failover";
    assert_eq!(warned_of(&log, words), 1, "{}", log.text());

    // The log reports the end when a sentinel watches the primary again.
    let port = redis.servers()[0].port().to_string();
    let monitor = ["SENTINEL", "MONITOR", redis.name(), "127.0.0.1", &port, "2"];
    redis.sentinels()[0].command(&monitor);
    let is_over = |it: &Health| !has(it, is_it);
    healed(&client, PATIENCE, "`health` no longer reports the hazard", is_over).await;
    let ends = |line: &&str| line.contains("deployment hazard resolved") && line.contains(words);
    assert_eq!(log.text().lines().filter(ends).count(), 1, "{}", log.text());
}

/// Former bug: the client logged the hazard only if the sentinel that failed last was in the URL.
#[tokio::test]
async fn loss_of_all_sentinels_is_logged_if_the_url_lists_only_one() {
    let redis = Sentinels::options().replicas(1).start();
    let [listed, others @ ..] = redis.sentinels() else { panic!("the test started no sentinels") };
    let (log, _logged) = Log::begin();
    let url = format!("redis-sentinel://127.0.0.1:{}/{}", listed.port(), redis.name());
    let client = Client::connect(&url).await.unwrap();
    let named = |it: &Redis| {
        let clients = it.command(&["CLIENT", "LIST"]);
        clients.text().contains(" name=leasehold:")
    };
    comes_true("the client is connected to the other sentinels", || others.iter().all(named)).await;
    listed.stop();
    comes_true("the client logs the unreachable sentinel", || {
        warned_of(&log, "sentinel unreachable") == 1
    })
    .await;
    others.iter().for_each(Redis::stop);
    let is_it = |it: &Hazard| *it == Hazard::NoSentinel;
    healed(&client, PATIENCE, "`health` reports that no sentinel returned the primary", |health| {
        has(health, is_it)
    })
    .await;
    assert_eq!(warned_of(&log, "cannot follow a failover"), 1, "{}", log.text());
}

#[tokio::test]
async fn hazard_of_all_cluster_nodes_is_found_and_logged_once() {
    let options = Redis::options().arg("--maxmemory-policy", "volatile-ttl");
    let cluster = Cluster::options().replicas(0).node_options(options).start();
    let url = cluster.url();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&url).await.unwrap();
    let health = healed(&client, PATIENCE, "the client is ready", |health| health.is_ready()).await;
    let mut servers: Vec<_> = health.findings.iter().map(|it| it.server.clone()).collect();
    servers.sort();
    let mut nodes: Vec<_> =
        cluster.nodes().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    nodes.sort();
    assert_eq!(servers, nodes, "{health:?}");
    assert!(health.findings.iter().all(|it| matches!(it.hazard, Hazard::Evicts { .. })));
    assert_eq!(warned(&log, "volatile-ttl"), 1, "{}", log.text());
}

/// Former bug: a finding at the old address counted as known for ever. A later finding of the same
/// kind was therefore not logged.
#[tokio::test]
async fn finding_of_a_moved_node_is_forgotten_at_its_old_address() {
    let cluster = Cluster::options().replicas(0).start();
    let node = &cluster.nodes()[0];
    let set = |policy: &str| node.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
    set("allkeys-lru");
    let ways = Ways::to(node);
    let (log, _logged) = Log::begin();
    let client = Client::builder().translate_addresses(ways.translation());
    let client = client.connect(&cluster.url()).await.unwrap();
    let words = "may evict locks";
    assert_eq!(warned(&log, words), 1, "{}", log.text());

    let after = ways.lead_elsewhere();
    comes_true("the client connects to the new address", || after.connections() > 0).await;
    let is_it = |it: &Hazard| matches!(it, Hazard::Evicts { .. });
    let found = |health: &Health| health.commands_up && has(health, is_it);
    healed(&client, PATIENCE, "`health` reports the hazard at the new address", found).await;
    assert_eq!(warned(&log, words), 2, "{}", log.text());
    set("noeviction");
    healed(&client, PATIENCE, "`health` no longer reports the hazard", |health| {
        !has(health, is_it)
    })
    .await;
    assert_eq!(over(&log, words), 1, "{}", log.text());
}

/// Former bug: the end of the hazard was not logged.
#[tokio::test]
async fn unowned_slot_is_a_hazard_until_a_node_serves_it() {
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let nodes = cluster.nodes();
    eventually("no node has the slot", PATIENCE, || {
        nodes.iter().all(|node| node.command(&["CLUSTER", "DELSLOTS", "0"]).is_error())
    });
    let (log, _logged) = Log::begin();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let is_it = |it: &Hazard| matches!(it, Hazard::SlotsWithoutNode { .. });
    healed(&client, PATIENCE, "`health` reports the slot without a node", |health| {
        has(health, is_it)
    })
    .await;
    nodes[0].command(&["CLUSTER", "ADDSLOTS", "0"]);
    healed(&client, PATIENCE, "`health` no longer reports the slot without a node", |health| {
        !has(health, is_it)
    })
    .await;
    let words = "no node of the cluster serves slot 0";
    assert_eq!([warned(&log, words), over(&log, words)], [1, 1], "{}", log.text());
}

/// The added node imports a slot. The test cancels the migration, so the node never owns a slot.
#[tokio::test]
async fn node_without_slots_has_no_hazard_after_its_removal() {
    let cluster = Cluster::options().replicas(0).start();
    let (log, _logged) = Log::begin();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let (added, node) = (cluster.add_node(), &cluster.nodes()[0]);
    let policy = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    added.command(&policy);
    let moving = cluster.moving(Cluster::slot_of("door"), &added);
    moving.open();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;
    let words = "may evict locks";
    assert_eq!(warned(&log, words), 1, "{}", log.text());
    moving.call_off();
    within(PATIENCE, "the client closes its connections to the added node", async {
        while crate::common::connections(&added) > 0 {
            sleep(ms(100)).await;
        }
    })
    .await;
    node.command(&policy);
    let is_it = |it: &Hazard| matches!(it, Hazard::Evicts { .. });
    healed(&client, PATIENCE, "`health` reports the hazard", |health| has(health, is_it)).await;
    assert_eq!(warned(&log, words), 2, "{}", log.text());
}

/// Former bug: a new client of a cluster was not ready while one node was still connecting, or if
/// one of three nodes was unreachable.
#[tokio::test]
async fn cluster_is_ready_while_one_node_is_unreachable() {
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let url = cluster.url();
    for _ in 0..10 {
        let health = Client::connect(&url).await.unwrap().health().await;
        assert!(health.is_ready() && health.commands_up, "{health:?}");
    }
    let client = Client::connect(&url).await.unwrap();
    let nodes = cluster.nodes();
    let lost = format!("127.0.0.1:{}", nodes[1].port());
    nodes[1].stop();
    let is_away = |health: &Health| {
        let is_it = |it: &Hazard| matches!(it, Hazard::NodeUnreachable { slots, .. } if slots == "slots 5461 to 10921");
        health.findings.iter().any(|it| it.server == lost && is_it(&it.hazard))
    };
    let health = healed(&client, PATIENCE, "`health` reports the unreachable node", is_away).await;
    assert!(health.is_ready() && !health.commands_up, "{health:?}");
    let other_client = Client::connect(&url).await.unwrap();
    assert!(other_client.health().await.is_ready());
    nodes.iter().for_each(|node| node.stop());
    healed(&client, PATIENCE, "the client is no longer ready", |health| !health.is_ready()).await;
}

/// Former bug: the client logged a lost connection, but not which names were affected.
#[tokio::test]
async fn unreachable_node_is_logged_with_its_slots_until_it_returns() {
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let (log, _logged) = Log::begin();
    let _client = Client::connect(&cluster.url()).await.unwrap();
    let nodes = cluster.nodes();
    nodes[1].stop();
    let words = "names in slots 5461 to 10921 cannot be locked";
    comes_true("the client logs the unreachable node", || warned(&log, words) == 1).await;
    nodes[1].start_again();
    let is_logged =
        |line: &str| line.contains("deployment hazard resolved") && line.contains(words);
    let until_over = async {
        while !log.text().lines().any(is_logged) {
            sleep(ms(5)).await;
        }
    };
    within(PATIENCE, "the client logs the end of the hazard", until_over).await;
    assert_eq!(warned(&log, words), 1, "{}", log.text());
}

#[tokio::test]
async fn primary_with_too_few_replicas_is_not_ready() {
    let primary = Redis::options().arg("--min-replicas-to-write", "1").start();
    let client = Client::connect(&primary.url()).await.unwrap();
    let health = client.health().await;
    assert!(has(&health, |it| *it == Hazard::TooFewReplicas), "{health:?}");
    assert!(health.unavailable_reason.unwrap().contains("NOREPLICAS"));
    let error = client.lock("door").unwrap().acquire_within(secs(2)).await.unwrap_err();
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
}

/// At first, the nodes reply that they have no sharded channels, as before an upgrade.
#[tokio::test]
async fn channel_mode_change_is_found_and_logged_once() {
    came_with(7, "denied subcommands");
    let cluster = Cluster::options().replicas(0).start();
    let rights = ["~*", "&*", "+@all", "-pubsub|shardnumsub"];
    cluster.user("plain", &rights);
    let url = cluster.url();
    let (log, _logged) = Log::begin();
    let client = Client::builder().credentials("plain", "secret").connect(&url).await.unwrap();
    let is_it = |it: &Hazard| *it == Hazard::ChannelModeChanged;
    assert!(!has(&client.health().await, is_it));
    cluster.user("plain", &rights[..3]);
    let health = healed(&client, PATIENCE, "`health` reports the changed channel mode", |health| {
        has(health, is_it)
    })
    .await;
    assert!(health.is_ready(), "{health:?}");
    assert_eq!(warned(&log, "restart the clients"), 1, "{}", log.text());
}

/// Former bug: the client took the version of the cluster from the node that replied last. So the
/// client logged the hazard and its end in turn, several times a second.
#[tokio::test]
async fn cluster_of_two_versions_is_logged_once() {
    came_with(7, "denied subcommands");
    let cluster = Cluster::options().replicas(0).start();
    cluster.user("door", &["~*", "&*", "+@all"]);
    let (log, _logged) = Log::begin();
    let builder = Client::builder().credentials("door", "secret");
    let client = builder.connect(&cluster.url()).await.unwrap();
    let [old, lost, _] = &cluster.nodes()[..] else {
        panic!("the cluster does not have three nodes")
    };
    old.command(&["ACL", "SETUSER", "door", "-pubsub|shardnumsub"]);
    // when the nodes receive many requests for the topology, because a task waits for a dead node
    let lock = client.lock(cluster.key_on(lost, "door")).unwrap();
    lost.stop();
    lock.acquire_within(secs(5)).await.unwrap_err();
    let words = "the cluster was upgraded to sharded channels";
    assert_eq!([warned(&log, words), over(&log, words)], [1, 0], "{}", log.text());
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_client_finds_hazards_like_the_async_client() {
    let redis = Redis::options().arg("--maxmemory-policy", "allkeys-lru").start();
    let client = leasehold::blocking::Client::connect(&redis.url()).unwrap();
    let health = client.health().unwrap();
    assert!(has(&health, |it| matches!(it, Hazard::Evicts { .. })), "{health:?}");
    assert!(health.findings[0].to_string().contains("set maxmemory-policy noeviction"));
}

/// The longest time that a health check may take in any outage.
const PROMPT: Duration = Duration::from_millis(300);

/// Asserts that a health check returns within [`PROMPT`].
async fn prompt_health(client: &Client) -> Health {
    let began = Instant::now();
    let health = client.health().await;
    assert!(began.elapsed() < PROMPT, "{:?}: {health:?}", began.elapsed());
    health
}

/// Asserts that `health` names only this node as unreachable, with the duration and the cause.
#[track_caller]
fn names_one_unreachable(health: &Health, node: &Redis) {
    let away: Vec<_> = health.nodes.iter().filter(|it| !it.is_reachable()).collect();
    let [away] = away[..] else { panic!("{health:?}") };
    assert_eq!(away.server, format!("127.0.0.1:{}", node.port()));
    assert!(away.unavailable_reason.is_some() && away.silent_for.is_some(), "{health:?}");
}

/// Former bug: if a server failed, a health check took 1.5 s or more. A probe of Kubernetes waits
/// for 1 s.
#[tokio::test]
async fn health_is_prompt_and_ready_when_a_cluster_node_is_killed() {
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let client = Client::builder().request_timeout(secs(1));
    let client = client.connect(&cluster.url()).await.unwrap();
    let killed = &cluster.nodes()[1];
    killed.stop();
    for _ in 0..5 {
        let health = prompt_health(&client).await;
        assert!(health.is_ready(), "{health:?}");
        names_one_unreachable(&health, killed);
        sleep(ms(100)).await;
    }
}

#[tokio::test]
async fn health_is_prompt_and_ready_when_a_cluster_node_is_frozen() {
    let lenient = Redis::options().arg("--cluster-require-full-coverage", "no");
    let cluster = Cluster::options().replicas(0).node_options(lenient).start();
    let client = Client::builder().command_timeout(secs(1)).request_timeout(secs(1));
    let client = client.connect(&cluster.url()).await.unwrap();
    let frozen = &cluster.nodes()[1];
    frozen.pause();
    // The first checks happen while the connection exists. The later checks happen after the client
    // has closed it.
    for _ in 0..8 {
        let health = prompt_health(&client).await;
        assert!(health.is_ready(), "{health:?}");
        names_one_unreachable(&health, frozen);
        sleep(ms(200)).await;
    }
    frozen.resume();
}

/// Former bug: a frozen node delayed the start of each client by the connect timeout.
#[tokio::test]
async fn connect_does_not_wait_for_a_frozen_cluster_node() {
    let cluster = Cluster::options().replicas(0).start();
    let frozen = &cluster.nodes()[1];
    frozen.pause();
    let began = Instant::now();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let took = began.elapsed();
    frozen.resume();
    assert!(took < secs(2), "{took:?}");
    assert!(client.health().await.is_ready());
}

#[tokio::test]
async fn health_is_prompt_and_not_ready_when_a_server_is_frozen() {
    let redis = Redis::start();
    let client = Client::builder().command_timeout(secs(1)).connect(&redis.url()).await.unwrap();
    assert!(prompt_health(&client).await.is_ready());
    redis.pause();
    for _ in 0..8 {
        let health = prompt_health(&client).await;
        assert!(!health.is_ready() && health.round_trip.is_none(), "{health:?}");
        assert_eq!(health.nodes.len(), 1);
        names_one_unreachable(&health, &redis);
        sleep(ms(200)).await;
    }
    redis.resume();
    healed(&client, PATIENCE, "the client is ready again", Health::is_ready).await;
}
