//! An election in which a Java thread takes part by locking the `RFencedLock` of the same name.

use std::time::Duration;

use interop::{Together, Way, shown};
use leasehold::{Client, Leader, Observer};
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};

const SOON: Duration = Duration::from_secs(10);

/// After this time, the Java thread is subscribed and sleeps.
const ASLEEP: Duration = Duration::from_millis(300);

/// Waits until the observer returns a leader with `value`.
async fn sees(leaders: &mut Observer, value: Option<&str>) -> Leader {
    let seen = async {
        loop {
            let leader = leaders.next().await.unwrap();
            if let Some(leader) = leader.filter(|it| it.value() == value) {
                return leader;
            }
        }
    };
    timeout(SOON, seen).await.expect("the client sees the leader in time")
}

#[test]
fn java_and_rust_candidates_lead_in_turn() {
    let both = Together::start();
    let java = both.java.thread("T1").fenced();
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&both.redis.url()).await.unwrap();
        let election = client.election("door").unwrap();
        let mut leaders = election.observe().unwrap();
        assert_eq!(leaders.next().await.unwrap(), None);
        let mut leadership = election.campaign("rust").await.unwrap();
        for _ in 0..3 {
            let seen = sees(&mut leaders, Some("rust")).await;
            assert_eq!(seen.term(), Some(leadership.term()));
            let waiting = java.start_lock("door");
            sleep(ASLEEP).await;
            let term = leadership.term().cast_signed();
            leadership.step_down().await.unwrap().into_result().unwrap();
            assert!(waiting.wait(SOON).acquired());
            assert!(java.token("door") > term);

            // A Java leader publishes no value.
            let seen = sees(&mut leaders, None).await;
            assert!(!seen.owner().as_str().starts_with(client.id()) && seen.term().is_none());
            let term = java.token("door");
            let candidate = tokio::spawn({
                let election = election.clone();
                async move { election.campaign("rust").await }
            });
            sleep(ASLEEP).await;
            assert!(!candidate.is_finished());
            assert!(java.unlock("door").is_true());
            leadership = timeout(SOON, candidate).await.unwrap().unwrap().unwrap();
            assert!(leadership.term().cast_signed() > term);
        }
    });
    shown("election: candidates lead in turn", Way::RustToJava);
    shown("election: candidates lead in turn", Way::JavaToRust);
}
