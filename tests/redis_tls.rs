//! Ways to connect: TLS, unix sockets, users and databases. Also tests the name under which
//! the server lists a client.
#![cfg(feature = "tls")]

use crate::common::{
    SOON, channel, client, keys, release_guard, secs, until_asleep, waiter, within,
};
use leasehold::{Client, ClientBuilder, Error};
use testkit::Redis;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

/// Asserts that `client` can wait, that a message wakes the waiter, and that it acquires and
/// releases.
async fn works(redis: &Redis, client: &Client) {
    crate::common::hold_by_hand(redis, "door", "java:1", secs(60));
    let before = redis.calls();
    let waiting = waiter(client.lock("door").unwrap());
    until_asleep(redis, &channel("door"), &before);
    crate::common::release_by_hand(redis, "door");
    release_guard(crate::common::entered(waiting).await).await;
    assert_eq!(client.stats().wake_ups, 1);
}

/// Returns the error with which `builder` fails to connect to `url`.
async fn refusal(builder: ClientBuilder, url: &str) -> String {
    refused(builder, url).await.0
}

/// Returns the error with which `builder` fails to connect to `url`. The failure must be permanent.
/// Former bug: all of these failures were reported as transient.
async fn lasting_refusal(builder: ClientBuilder, url: &str) -> String {
    let (reason, lasting) = refused(builder, url).await;
    assert!(lasting, "{reason}");
    reason
}

/// Returns the error with which `builder` fails to connect to `url`, and whether the failure is
/// permanent.
async fn refused(builder: ClientBuilder, url: &str) -> (String, bool) {
    let start = Instant::now();
    let connected = builder.connect_timeout(secs(2)).connect(url);
    match within(secs(10), &format!("`connect` to {url} returns"), connected).await {
        Ok(_) => panic!("the client connected to {url}"),
        Err(Error::Connect { server, reason, permanent: lasting, .. }) => {
            assert!(start.elapsed() < secs(4), "{:?}", start.elapsed());
            assert!(url.contains(&server), "{url} does not contain {server}");
            (reason, lasting)
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn says(words: &str, part: &str) {
    assert!(words.to_lowercase().contains(part), "`{part}` is not in: {words}");
}

// TLS.

fn trusting(redis: &Redis) -> ClientBuilder {
    Client::builder().ca_certificates(redis.ca_pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_works() {
    let redis = Redis::options().tls().start();
    let client = trusting(&redis).connect(&redis.tls_url()).await.unwrap();
    works(&redis, &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_to_an_ip_address_in_the_certificate_works() {
    let redis = Redis::options().tls().start();
    let url = format!("rediss://127.0.0.1:{}/", redis.tls_port());
    let client = trusting(&redis).connect(&url).await.unwrap();
    works(&redis, &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_tls_connection_is_restored() {
    let redis = Redis::options().tls().start();
    let client = trusting(&redis).connect(&redis.tls_url()).await.unwrap();
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    release_guard(guard).await;
    assert!(client.stats().reconnects > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_authority_is_not_trusted() {
    let redis = Redis::options().tls().start();
    let reason = lasting_refusal(Client::builder(), &redis.tls_url()).await;
    // On a system without any certificate authorities, the error has another text.
    says(&reason, if reason.contains("TLS") { "unknownissuer" } else { "ca_certificates" });
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_configured_authority_is_trusted() {
    let (redis, other) = (Redis::options().tls().start(), Redis::options().tls().start());
    let reason = lasting_refusal(trusting(&other), &redis.tls_url()).await;
    says(&reason, "tls: invalid peer certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_for_another_name_is_refused() {
    // given an address of the server that its certificate does not contain
    let redis = Redis::options().tls().start();
    let url = format!("rediss://{}/", crate::common::by_another_name(redis.tls_port()).await);
    let reason = lasting_refusal(trusting(&redis), &url).await;
    says(&reason, "not valid for name");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_address_needs_a_certificate_for_its_name() {
    let primary = Redis::options().tls().start();
    let replica = Redis::options().tls().start_replica_of(&primary);
    let other = Redis::options().tls().start();
    let url = |first: &str| format!("rediss://{first},localhost:{}/", replica.tls_port());
    let right = url(&format!("localhost:{}", primary.tls_port()));
    let client = trusting(&primary).connect(&right).await.unwrap();
    release_guard(client.lock("door").unwrap().acquire().await.unwrap()).await;

    let strange = url(&crate::common::by_another_name(primary.tls_port()).await);
    for (builder, url, part) in [
        (trusting(&primary), &strange, "not valid for name"),
        (trusting(&other), &right, "tls: invalid peer certificate"),
    ] {
        let refused = builder.connect_timeout(secs(2)).connect(url).await.unwrap_err();
        says(&refused.to_string(), part);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn required_client_certificate_is_accepted() {
    let redis = Redis::options().tls_with_client_auth().start();
    let builder =
        trusting(&redis).client_certificate(redis.client_cert_pem(), redis.client_key_pem());
    let client = builder.connect(&redis.tls_url()).await.unwrap();
    works(&redis, &client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_a_missing_client_certificate() {
    let redis = Redis::options().tls_with_client_auth().start();
    let reason = lasting_refusal(trusting(&redis), &redis.tls_url()).await;
    says(&reason, "certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_of_another_authority_is_refused() {
    let redis = Redis::options().tls_with_client_auth().start();
    let other = Redis::options().tls().start();
    let builder =
        trusting(&redis).client_certificate(other.client_cert_pem(), other.client_key_pem());
    let reason = lasting_refusal(builder, &redis.tls_url()).await;
    says(&reason, "unknownca");
}

/// Former bug: the error was `CaUsedAsEndEntity`, without a remedy.
#[tokio::test(flavor = "multi_thread")]
async fn server_certificate_must_not_be_that_of_the_authority() {
    let redis = Redis::options().tls_with_self_signed_certificate().start();
    let reason = lasting_refusal(trusting(&redis), &redis.tls_url()).await;
    says(&reason, "causedasendentity");
    says(&reason, "create a server certificate that the authority signs");
}

/// Former bug: a service retried for ever at a port on which another program listens.
#[tokio::test(flavor = "multi_thread")]
async fn web_server_is_a_permanent_connect_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    says(&lasting_refusal(Client::builder(), &url).await, "the port may belong to a web server");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_error_names_invalid_pem_texts() {
    let redis = Redis::options().tls().start();
    let (cert, key) = (redis.client_cert_pem(), redis.client_key_pem());
    let builder = Client::builder().ca_certificates("no PEM");
    says(&refusal(builder, &redis.tls_url()).await, "ca certificates");
    let builder = trusting(&redis).client_certificate("no PEM", key.clone());
    says(&refusal(builder, &redis.tls_url()).await, "client certificate");
    let builder = trusting(&redis).client_certificate(cert, "no PEM");
    says(&refusal(builder, &redis.tls_url()).await, "key of the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_key_is_never_printed() {
    let redis = Redis::options().tls().start();
    let (cert, key) = (redis.client_cert_pem(), redis.client_key_pem());
    let shown = format!("{:?}", Client::builder().client_certificate(cert, key.clone()));
    let secret = key.lines().nth(1).unwrap();
    let bytes = format!("{:?}", secret.as_bytes());
    assert!(!shown.contains(secret) && !shown.contains(bytes.trim_matches(['[', ']'])), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_connection_to_a_tls_port_fails_with_a_remedy() {
    let redis = Redis::options().tls().start();
    let url = format!("redis://127.0.0.1:{}/", redis.tls_port());
    says(&refusal(Client::builder(), &url).await, "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_to_a_plain_port_fails_with_a_remedy() {
    let redis = Redis::options().tls().start();
    let url = format!("rediss://localhost:{}/", redis.port());
    says(&refusal(trusting(&redis), &url).await, "does this port use tls?");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_to_another_program_fails_with_a_cause() {
    let redis = Redis::options().tls().start();
    for (answer, part) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not use tls on this port"),
        (b"", "closed the connection"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("rediss://localhost:{}/", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
            stream.write_all(answer).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let (reason, lasting) = refused(trusting(&redis), &url).await;
        says(&reason, part);
        assert_eq!(lasting, !answer.is_empty(), "{reason}");
    }
}

// Other connections.

#[tokio::test(flavor = "multi_thread")]
async fn unix_socket_works() {
    let redis = Redis::options().unix_socket().start();
    let client = Client::connect(&redis.unix_url()).await.unwrap();
    works(&redis, &client).await;
    let list = redis.command(&["CLIENT", "LIST"]);
    let ours = list.text().lines().filter(|line| line.contains(client.id()));
    assert!(ours.clone().count() == 2 && ours.into_iter().all(|line| line.contains("redis.sock")));
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_socket_with_password_and_database_works() {
    let redis = Redis::options().unix_socket().password("secret").start();
    let url = format!("{}?db=3&pass=secret", redis.unix_url());
    let client = Client::connect(&url).await.unwrap();
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    assert_eq!(keyspace(&redis), ["db3:keys=1"]);
    release_guard(guard).await;
}

/// A text such as `db0:keys=1` for each database that is not empty.
fn keyspace(redis: &Redis) -> Vec<String> {
    let info = redis.command(&["INFO", "keyspace"]);
    let databases = info.text().lines().filter(|line| line.starts_with("db"));
    databases.map(|line| line.split(',').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_is_a_key_of_the_selected_database() {
    let redis = Redis::start();
    let by_url = Client::connect(&format!("{}3", redis.url())).await.unwrap();
    let by_setting = Client::builder().database(5).connect(&redis.url()).await.unwrap();

    let in_3 = by_url.lock("door").unwrap().acquire().await.unwrap();
    assert_eq!(keyspace(&redis), ["db3:keys=1"]);
    let in_5 = by_setting.lock("door").unwrap().try_acquire().await.unwrap();
    let in_5 = in_5.expect("a lock of the same name in another database is free");
    assert_eq!(keyspace(&redis), ["db3:keys=1", "db5:keys=1"]);
    assert!(keys(&redis).is_empty());
    release_guard(in_3).await;
    release_guard(in_5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_selects_its_database_again_after_a_reconnect() {
    let redis = Redis::start();
    let client = Client::builder().database(5).connect(&redis.url()).await.unwrap();
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let guard = client.lock("door").unwrap().acquire().await.unwrap();
    assert_eq!(keyspace(&redis), ["db5:keys=1"]);
    release_guard(guard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_may_be_named_in_the_url_or_by_a_setting() {
    let redis = Redis::start();
    redis.command(&["ACL", "SETUSER", "billing", "on", ">secret", "~*", "&*", "+@all"]);
    let by_url = format!("redis://billing:secret@127.0.0.1:{}/", redis.port());
    for client in [
        Client::connect(&by_url).await.unwrap(),
        Client::builder().credentials("billing", "secret").connect(&redis.url()).await.unwrap(),
    ] {
        works(&redis, &client).await;
        let list = redis.command(&["CLIENT", "LIST"]);
        let ours = list.text().lines().filter(|line| line.contains(client.id()));
        let users: Vec<_> = ours.map(|line| line.contains(" user=billing ")).collect();
        assert_eq!(users, [true, true]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_connections_have_the_client_id_as_their_name() {
    let redis = Redis::start();
    let client = client(&redis).await;
    let name = format!(" name=leasehold:{} ", client.id());
    let count = || {
        let list = redis.command(&["CLIENT", "LIST"]);
        list.text().lines().filter(|line| line.contains(&name)).count()
    };
    assert_eq!(count(), 2);

    // The connections have the name again after they were closed and restored.
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    testkit::eventually("both connections are restored", SOON, || count() == 2);

    // When the client is dropped, the server no longer lists its connections.
    drop(client);
    testkit::eventually("both connections are closed", SOON, || count() == 0);
}

/// Former bug: the client connected without TLS, and no error reported this.
#[tokio::test(flavor = "multi_thread")]
async fn certificate_settings_are_refused_for_a_url_without_tls() {
    let redis = Redis::options().tls().start();
    for url in [redis.url().as_str(), "redis-cluster://127.0.0.1:1"] {
        says(&lasting_refusal(trusting(&redis), url).await, "write rediss://");
        let lazily = trusting(&redis).connect_lazy(url).unwrap_err();
        assert!(lazily.to_string().contains("write rediss://"), "{url}: {lazily}");
    }
}
