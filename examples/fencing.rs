//! A holder that is paused and then writes late: first without a fence, and then with a fence.
//!
//! `cargo run --example fencing` needs no server.

use std::{sync::Mutex, time::Duration};

use leasehold::{
    Client, Error, MemoryStore,
    fence::{Gate, Stale},
};

const ORDER: &str = "orders:42";
const LEASE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Error> {
    println!("Two clients add to an order of 10: Ada 1 and Bob 5. That makes 16.");

    println!("\n1. Without a fence");
    let total = tell(&Ledger { total: Mutex::new(10), gate: None }).await?;
    println!("   The order is {total}: what Bob has added is lost.");
    assert_eq!(total, 11);

    println!("\n2. With a fence");
    let total = tell(&Ledger { total: Mutex::new(10), gate: Some(Gate::new()) }).await?;
    println!("   The order is {total}: nothing is lost.");
    assert_eq!(total, 16);
    Ok(())
}

/// The receiver of the writes. It is not a client of the lock, and sees only the token that each
/// request contains.
struct Ledger {
    total: Mutex<u32>,
    gate: Option<Gate>,
}

impl Ledger {
    /// Returns the total. A read also presents its token. The gate, if there is one, then rejects
    /// lower tokens.
    fn read(&self, token: u64) -> Result<u32, Stale> {
        self.pass(token, || *self.total.lock().expect("the mutex is not poisoned"))
    }

    fn write(&self, total: u32, token: u64) -> Result<(), Stale> {
        self.pass(token, || *self.total.lock().expect("the mutex is not poisoned") = total)
    }

    fn pass<T>(&self, token: u64, act: impl FnOnce() -> T) -> Result<T, Stale> {
        match &self.gate {
            Some(gate) => gate.write(ORDER, token, act),
            None => Ok(act()),
        }
    }
}

/// Plays the scenario: Bob adds to the order while Ada is paused between her read and her write.
/// Returns the final total.
async fn tell(ledger: &Ledger) -> Result<u32, Error> {
    let store = MemoryStore::new();
    let (ada, bob) = (Client::with_store(&store), Client::with_store(&store));

    let guard = ada.fenced_lock(ORDER)?.lease(LEASE).acquire().await?;
    let token = guard.token();
    let total = ledger.read(token).expect("no newer token was used");
    say("ada", &format!("holds the lock, token {token}; reads {total}; is stopped"));

    // Ada's lease ends during the pause. A check before the pause cannot notice this loss.
    add("bob", 5, &bob, ledger).await?;

    say("ada", &format!("goes on, and writes {} with token {token}", total + 1));
    if let Err(late) = ledger.write(total + 1, token) {
        say("***", &format!("refused: {late}"));
        add("ada", 1, &ada, ledger).await?;
    }
    Ok(*ledger.total.lock().expect("the mutex is not poisoned"))
}

/// Adds to the order correctly: under the lock, and with the token of the hold.
async fn add(who: &str, amount: u32, client: &Client, ledger: &Ledger) -> Result<(), Error> {
    let guard = client.fenced_lock(ORDER)?.acquire().await?;
    let token = guard.token();
    let total = ledger.read(token).expect("no newer token was used");
    ledger.write(total + amount, token).expect("no newer token was used");
    say(who, &format!("holds the lock, token {token}; reads {total}, writes {}", total + amount));
    guard.release().await?.into_result()
}

fn say(who: &str, what: &str) {
    println!("   {who}  {what}");
}
