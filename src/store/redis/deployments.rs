//! Runs the conformance tests on every deployment: one server, several addresses, sentinels, a
//! cluster. The tests also run as a user that has only the permissions from the guide.

use std::{sync::Arc, time::Duration};

use testkit::{Cluster, Redis, Sentinels, acl_rules_in, came_with};

use super::*;
use crate::{
    domain::{Claim, Object, Owner, Replicas},
    store::conformance::{self, Bench},
};

/// Returns the stores of two clients.
async fn pair(url: &str, settings: &Settings) -> [Arc<RedisStore>; 2] {
    let [one, other] = ["one", "other"].map(|id| RedisStore::connect(url, settings, id));
    [Arc::new(one.await.unwrap()), Arc::new(other.await.unwrap())]
}

async fn conforms(url: &str, settings: &Settings) {
    let [one, other] = pair(url, settings).await;
    conformance::all(&Bench::new(one, other, "other").below("app:")).await;
}

/// Fails the test if the servers are older than version 7. In a cluster of older servers, a client
/// cannot count the subscribers, so it never queues. The conformance tests need a queue.
fn must_count_listeners_in_a_cluster() {
    came_with(7, "the number of subscribers in a whole cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_passes_the_conformance_tests() {
    conforms(&Redis::start().url(), &Settings::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_address_lists_pass_the_conformance_tests() {
    let sentinels = Sentinels::options().replicas(1).start();
    let [master, replica] = sentinels.servers() else { panic!() };
    let several = format!("redis://127.0.0.1:{},127.0.0.1:{}", replica.port(), master.port());
    for url in [sentinels.url(), several] {
        conforms(&url, &Settings::default()).await;
        master.command(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_passes_the_conformance_tests() {
    must_count_listeners_in_a_cluster();
    let cluster = Cluster::options().replicas(0).start();
    conforms(&cluster.url(), &Settings::default()).await;
}

// The conformance tests as a user that has only the permissions from the guide.

const GUIDE: &str = include_str!("../../../docs/guide/acl.md");

/// Returns the permissions of `user` in the guide, one list for each ACL command in the guide.
fn commands_of_the_guide(user: &str) -> Vec<Vec<&'static str>> {
    let nothing = ["on", ">secret", "resetkeys", "resetchannels", "-@all"];
    let mut commands = acl_rules_in(GUIDE, user);
    commands.iter_mut().for_each(|rules| rules.retain(|rule| !nothing.contains(rule)));
    commands
}

/// Returns the further permissions that names with braces need.
fn patterns_of_the_guide() -> Vec<&'static str> {
    let (_, from) =
        GUIDE.split_once("If some names with the prefix `app:` also have braces").unwrap();
    let (paragraph, _) = from.split_once("\n\n").unwrap();
    paragraph.split('\'').skip(1).step_by(2).collect()
}

/// The permission that only clusters need.
const IN_A_CLUSTER: &str = "+asking";
/// The permission that only `replicated` needs.
const OF_REPLICAS: &str = "+wait";

/// Returns the permissions for all names that begin with `app:`. `more` selects the permissions
/// that only some deployments need.
fn permissions(more: &[&str]) -> Vec<&'static str> {
    let users =
        ["leasehold", "permits", "semaphores", "latches", "barriers", "queues", "limiters", "maps"];
    let commands = users.into_iter().flat_map(commands_of_the_guide);
    let special = |it: &&str| [IN_A_CLUSTER, OF_REPLICAS].contains(it);
    let meant =
        |rules: &Vec<&str>| rules.iter().filter(|it| special(it)).all(|it| more.contains(it));
    commands.filter(meant).chain([patterns_of_the_guide()]).flatten().collect()
}

/// Creates a user at `server` with these permissions.
fn admit(server: &Redis, name: &str, permissions: &[&str]) {
    server.user(name, permissions);
    // Each of these rules needs its own command, because older servers reject it.
    for rule in ["+client|setinfo", "+hpexpire"] {
        server.command(&["ACL", "SETUSER", name, rule]);
    }
    server.command(&["ACL", "LOG", "RESET"]);
}

fn nothing_was_refused(server: &Redis) {
    let refused = server.command(&["ACL", "LOG"]);
    assert!(refused.list().is_empty(), "{refused:?}");
}

/// Returns the settings of a client that logs in as the user `narrow`.
fn narrow() -> Settings {
    let password = Some(String::from("secret").into());
    Settings { user: Some("narrow".into()), password, ..Settings::default() }
}

/// Checks that a replica receives and acknowledges the grant.
async fn is_acknowledged(url: &str, settings: &Settings) {
    let [store, _] = pair(url, settings).await;
    let owner = Owner::new("one:1").unwrap();
    let claim = Claim::plain(Object::lock("app:acknowledged"), owner, Duration::from_secs(30));
    store.acquire(&claim, None).await.unwrap();
    let one = Replicas::at_least(1).within(Duration::from_secs(20));
    assert_eq!(store.replicated(&claim, one).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_user_of_the_guide_is_denied_nothing_at_one_server() {
    let redis = Redis::start();
    admit(&redis, "narrow", &permissions(&[]));
    conforms(&redis.url(), &narrow()).await;
    nothing_was_refused(&redis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_user_of_the_guide_may_wait_for_replicas() {
    let master = Redis::start();
    let _replica = Redis::start_replica_of(&master);
    admit(&master, "narrow", &permissions(&[OF_REPLICAS]));
    conforms(&master.url(), &narrow()).await;
    is_acknowledged(&master.url(), &narrow()).await;
    nothing_was_refused(&master);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_users_of_the_guide_are_denied_nothing_with_sentinels() {
    let sentinels = Sentinels::options().replicas(1).start();
    let eye = commands_of_the_guide("eye").swap_remove(0);
    sentinels.sentinels().iter().for_each(|it| admit(it, "eye", &eye));
    sentinels.servers().iter().for_each(|it| admit(it, "narrow", &permissions(&[OF_REPLICAS])));
    let mut settings = narrow();
    settings.sentinel.user = Some("eye".into());
    settings.sentinel.password = Some(String::from("secret").into());
    conforms(&sentinels.url(), &settings).await;
    is_acknowledged(&sentinels.url(), &settings).await;
    sentinels.servers().iter().chain(sentinels.sentinels()).for_each(nothing_was_refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_user_of_the_guide_is_denied_nothing_in_a_cluster() {
    must_count_listeners_in_a_cluster();
    let cluster = Cluster::options().replicas(0).start();
    cluster.nodes().iter().for_each(|it| admit(it, "narrow", &permissions(&[IN_A_CLUSTER])));
    conforms(&cluster.url(), &narrow()).await;
    cluster.nodes().iter().for_each(|it| nothing_was_refused(it));
}
