//! The number of commands that each operation of an object costs, as the server counts them.
//! Commands that scripts call count, too. `docs/performance.md` has these numbers.

use std::time::Duration;

use crate::common::{client, ms};
use leasehold::Client;
use testkit::{Calls, Redis};
use tokio::time::sleep;

/// A server that counts commands, and its client.
struct Counted {
    redis: Redis,
    client: Client,
}

impl Counted {
    async fn new() -> Self {
        let redis = Redis::start();
        let client = client(&redis).await;
        Self { redis, client }
    }

    /// Returns the number of commands while `act` ran, and its result.
    async fn commands<T>(&self, act: impl Future<Output = leasehold::Result<T>>) -> (u64, T) {
        let (calls, result) = Box::pin(self.calls(act)).await;
        (calls.total(), result)
    }

    /// Like `commands`, but does not count the subscription of a member. If the member opens the
    /// barrier at once, it may withdraw its subscription before the connection has sent it.
    async fn requests<T>(&self, act: impl Future<Output = leasehold::Result<T>>) -> (u64, T) {
        let (calls, result) = Box::pin(self.calls(act)).await;
        (calls.total() - calls.of("subscribe"), result)
    }

    async fn calls<T>(&self, act: impl Future<Output = leasehold::Result<T>>) -> (Calls, T) {
        let before = self.redis.calls();
        let result = act.await.unwrap();
        (self.redis.calls().since(&before), result)
    }

    async fn cost<T>(&self, act: impl Future<Output = leasehold::Result<T>>) -> u64 {
        Box::pin(self.commands(act)).await.0
    }
}

/// After a hold of 50 ms or more, the release costs more, because it checks the wait queue.
const AFTER_A_SHORT_HOLD: Duration = ms(60);

fn text(text: &str) -> String {
    text.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn free_fair_lock_costs_few_commands() {
    let t = Counted::new().await;
    let fair = t.client.fair_lock("fair").unwrap();
    let (acquired, guard) = t.commands(fair.acquire()).await;
    let released = t.cost(guard.release()).await;
    assert_eq!((acquired, released), (10, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_lock_costs_six_commands_for_each_member() {
    let t = Counted::new().await;
    let pair = |number: usize| {
        let names: Vec<_> = (0..number).map(|it| format!("member-{number}-{it}")).collect();
        let lock = t.client.multi_lock(names).unwrap();
        let t = &t;
        async move { t.cost(async { lock.acquire().await?.release().await.into_result() }).await }
    };
    assert_eq!((pair(1).await, pair(2).await, pair(4).await), (6, 12, 24));
}

#[tokio::test(flavor = "multi_thread")]
async fn term_of_a_leader_costs_few_commands() {
    let t = Counted::new().await;
    let election = t.client.election("scheduler").unwrap();
    let (won, leadership) = t.commands(election.campaign("10.0.0.1:8080")).await;
    let proclaimed = t.cost(leadership.proclaim("10.0.0.1:8081")).await;
    let looked = t.cost(election.leader()).await;
    sleep(AFTER_A_SHORT_HOLD).await;
    let stepped_down = t.cost(leadership.step_down()).await;
    assert_eq!((won, proclaimed, looked, stepped_down), (13, 7, 4, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn last_member_of_a_barrier_costs_few_commands() {
    let t = Counted::new().await;
    let barrier = t.client.barrier("start", 1).unwrap();
    let (arrived, _) = t.requests(barrier.arrive_and_wait()).await;
    let double = t.client.double_barrier("phase", 1).unwrap();
    let (entered, inside) = t.requests(double.enter()).await;
    let left = t.cost(inside.leave()).await;
    assert_eq!((arrived, entered, left), (13, 18, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn map_operations_cost_few_commands() {
    let t = Counted::new().await;
    let map = t.client.map::<String, u32>("orders").unwrap();
    let key = text("42");
    let costs = [
        t.cost(map.insert(&key, &7)).await,
        t.cost(map.get(&key)).await,
        t.cost(map.contains(&key)).await,
        t.cost(map.len()).await,
        t.cost(map.insert_if_absent(&key, &8)).await,
        t.cost(map.replace(&key, &8)).await,
        t.cost(map.compare_and_set(&key, &8, &9)).await,
        t.cost(map.add(&key, 1)).await,
        t.cost(map.remove_if(&key, &9)).await,
        t.cost(map.remove(&key)).await,
    ];
    assert_eq!(costs, [5, 2, 1, 1, 3, 5, 5, 6, 3, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_write_of_an_entry_costs_few_commands() {
    let t = Counted::new().await;
    let map = t.client.map::<String, u32>("orders").unwrap();
    let key = text("42");
    let (locked, guard) = t.commands(map.lock(&key).unwrap().acquire()).await;
    let written = t.cost(guard.write([map.insertion(&key, &7).unwrap()])).await;
    sleep(AFTER_A_SHORT_HOLD).await;
    let released = t.cost(guard.release()).await;
    assert_eq!((locked, written, released), (4, 4, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn set_operations_cost_few_commands() {
    let t = Counted::new().await;
    let set = t.client.set::<String>("seen").unwrap();
    let element = text("42");
    let costs = [
        t.cost(set.insert(&element)).await,
        t.cost(set.contains(&element)).await,
        t.cost(set.len()).await,
        t.cost(set.remove(&element)).await,
        t.cost(set.insert(&element)).await,
        t.cost(set.pop()).await,
    ];
    assert_eq!(costs, [5, 1, 1, 5, 5, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_of_an_element_costs_few_commands() {
    let t = Counted::new().await;
    let jobs = t.client.queue::<String>("jobs").unwrap();
    let pushed = t.cost(jobs.push(&text("a"))).await;
    let (claimed, claim) = t.commands(jobs.claim()).await;
    let done = t.cost(claim.done()).await;
    jobs.push(&text("b")).await.unwrap();
    let claim = jobs.claim().await.unwrap();
    let given_back = t.cost(claim.give_back()).await;
    let popped = t.cost(jobs.pop()).await;
    assert_eq!((pushed, claimed, done, given_back, popped), (6, 8, 5, 7, 13));
}
