//! Simulated sentinels, alone and compared with real sentinels.

mod speaking;

use std::time::Duration;

use leasehold_twin::{Delay, Net, Sentinels};
use speaking::{ENDED, Speaker};
use tokio::time::sleep;

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

async fn speaker(twin: &leasehold_twin::Twin) -> Speaker {
    let mut speaker = Speaker::to(twin).await;
    speaker.ask("HELLO 3").await;
    speaker
}

const WHERE: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster";

#[tokio::test(start_paused = true)]
async fn each_sentinel_and_the_old_primary_learn_of_a_failover() {
    let watched = Sentinels::start(&Net::new(7), 3, 1, Delay::Fixed(ms(20)));
    sleep(ms(100)).await;
    let [one, silent, _] = watched.sentinels() else { panic!() };
    let (mut receives, mut lags) = (speaker(one).await, speaker(silent).await);
    receives.ask("SUBSCRIBE +switch-master").await;
    silent.isolate();
    let old = watched.primary();
    let mut client = speaker(&old).await;
    client.ask("SET k v").await;
    watched.fail_over().unwrap();
    let news = receives.within(ms(1)).await;
    assert!(news.ends_with(" mymaster 10.0.2.1 6379 10.0.2.2 6379 "), "{news}");
    assert_eq!(lags.ask(WHERE).await, "*2 $8 10.0.2.1 $4 6379 ");
    silent.rejoin();
    sleep(ms(1)).await;
    assert_eq!(lags.ask(WHERE).await, "*2 $8 10.0.2.2 $4 6379 ");
    assert!(lags.ask("SENTINEL MASTER mymaster").await.contains("config-epoch $1 1 "));
    assert_eq!(client.within(ms(1)).await, ENDED);
    sleep(ms(100)).await;
    assert!(old.is_replica() && old.keys().is_empty());
}

// Comparison with real sentinels.

/// Returns the value of a field in the bytes of a reply.
fn fact<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = output.split_once(&format!(" {name} $"))?;
    after.split(' ').nth(1)
}

#[tokio::test(start_paused = true)]
async fn simulated_sentinels_reply_like_redis_sentinels() {
    let real = testkit::Sentinels::options().replicas(1).start();
    real.wait_until_agreed();
    let twin = Sentinels::start(&Net::new(7), 3, 1, Delay::None);
    let mut speaker = speaker(&twin.sentinels()[0]).await;
    let sentinel = &real.sentinels()[0];
    let name = real.name();
    let master = sentinel.command(&["SENTINEL", "MASTER", name]);
    let master: Vec<_> = master.list().iter().map(|it| it.text().to_owned()).collect();
    let output = speaker.ask("SENTINEL MASTER mymaster").await;
    for known in ["num-slaves", "num-other-sentinels", "quorum", "flags", "config-epoch"] {
        let at = master.iter().position(|it| it == known).unwrap();
        assert_eq!(fact(&output, known), Some(master[at + 1].as_str()), "{known}");
    }
    let others = sentinel.command(&["SENTINEL", "SENTINELS", name]);
    assert_eq!(others.list().len(), 2);
    let output = speaker.ask("SENTINEL SENTINELS mymaster").await;
    assert!(output.starts_with("*2 %"), "{output}");
    assert_eq!(fact(&output, "flags"), Some("sentinel"));
    let odd = sentinel.command(&["SENTINEL", "MASTER", "nobody"]);
    assert_eq!(speaker.ask("SENTINEL MASTER nobody").await, format!("-{} ", odd.error()));
    assert_eq!(speaker.ask("SENTINEL GET-MASTER-ADDR-BY-NAME nobody").await, "_ ");
    let odd = sentinel.command(&["GET", "k"]);
    assert_eq!(speaker.ask("GET k").await, format!("-{} ", odd.error()));
}

#[tokio::test(start_paused = true)]
async fn late_report_of_an_old_failover_demotes_no_newer_primary() {
    let watched = Sentinels::start(&Net::new(7), 3, 1, Delay::None);
    watched.gossip(Delay::Fixed(ms(50)));
    watched.fail_over().unwrap();
    watched.gossip(Delay::None);
    let last = watched.fail_over().unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!last.is_replica() && watched.servers()[1].is_replica());
}
