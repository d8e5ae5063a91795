//! Types that may cross threads, and types that may not cross threads. The compiler checks most of
//! these tests.

use std::{marker::PhantomData, panic::UnwindSafe};

use leasehold::{
    Cause, Client, ClientBuilder, Error, Holder, InvalidDuration, InvalidName, InvalidOwner, Lock,
    LockContext, LockGuard, LostReason, MemoryStore, Name, OnLoss, Owner, Release, RunOutcome,
    Script, Shutdown, Stats, Value, WaitStrategy, Write,
};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_unpin<T: Unpin>() {}
fn is_static<T: 'static>() {}

fn is_plain<T: Send + Sync + Unpin + 'static>() {
    is_send::<T>();
    is_sync::<T>();
    is_unpin::<T>();
    is_static::<T>();
}

fn is_value<T: Clone + std::fmt::Debug + Send + Sync + UnwindSafe + 'static>() {}

fn is_send_value<T: Send>(_value: &T) {}
fn may_be_spawned<T: Send + 'static>(_value: &T) {}

#[test]
fn public_types_may_cross_threads() {
    is_plain::<Cause>();
    is_plain::<Client>();
    is_plain::<ClientBuilder>();
    is_plain::<Error>();
    is_plain::<Holder>();
    is_plain::<LockContext>();
    is_plain::<InvalidDuration>();
    is_plain::<InvalidName>();
    is_plain::<InvalidOwner>();
    is_plain::<Lock>();
    is_plain::<LockGuard>();
    is_plain::<LostReason>();
    is_plain::<MemoryStore>();
    is_plain::<Name>();
    is_plain::<OnLoss>();
    is_plain::<Owner>();
    is_plain::<RunOutcome<()>>();
    is_plain::<Release>();
    is_plain::<Script>();
    is_plain::<Shutdown>();
    is_plain::<Stats>();
    is_plain::<Value>();
    is_plain::<WaitStrategy>();
    is_plain::<Write>();
}

#[test]
fn value_types_can_be_cloned_and_printed() {
    is_value::<Holder>();
    is_value::<InvalidDuration>();
    is_value::<InvalidName>();
    is_value::<LostReason>();
    is_value::<Name>();
    is_value::<OnLoss>();
    is_value::<Owner>();
    is_value::<RunOutcome<u8>>();
    is_value::<Release>();
    is_value::<Script>();
    is_value::<Shutdown>();
    is_value::<Stats>();
    is_value::<Value>();
    is_value::<WaitStrategy>();
    is_value::<Write>();
}

#[test]
fn error_type_implements_common_traits() {
    fn boxed(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
        error.into()
    }
    assert_eq!(
        boxed(Error::ShutDown).to_string(),
        "call rejected: this client was shut down; create another client"
    );
}

#[test]
fn error_is_cloned_for_many_receivers() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    is_shared::<Error>();
}

#[test]
fn futures_of_a_lock_may_move_between_threads() {
    let lock = Client::in_memory().lock("door").unwrap();
    let max_wait = std::time::Duration::from_secs(1);
    is_send_value(&lock.acquire());
    is_send_value(&lock.acquire_within(max_wait));
    is_send_value(&lock.try_acquire());
    is_send_value(&lock.run(async |_held| ()));
    is_send_value(&lock.run_within(max_wait, async |_held| ()));
    is_send_value(&lock.try_run(async |_held| ()));
    is_send_value(&lock.holder());
    is_send_value(&lock.is_locked());
    is_send_value(&lock.force_release());
}

#[test]
fn future_that_owns_a_lock_may_be_spawned() {
    let client = Client::in_memory();
    let lock = client.lock("door").unwrap();
    let owner = Owner::new("somebody").unwrap();
    may_be_spawned(&async move {
        let guard = lock.acquire().await?;
        let again = guard.reenter().await?;
        again.write([Write::set("data", "1")]).await?;
        guard.eval(Script::new("return 1")).await?;
        let counted = lock.held_by(&owner).await?;
        drop((again.release().await?, guard.release().await?));
        lock.run(async |held| held.lost().await).await.map(|_| counted)
    });
    may_be_spawned(&async move { client.shutdown(std::time::Duration::ZERO).await });
}

/// Former bug: the futures of streams, and of `members`, were not `Send`.
#[test]
fn futures_of_collections_may_be_spawned() {
    let (client, second) = (Client::in_memory(), std::time::Duration::from_secs(1));
    let map = client.map::<String, u64>("orders").unwrap();
    may_be_spawned(&async move {
        let (key, mut stream) = ("42".to_owned(), map.stream());
        while let Some((key, value)) = stream.next().await? {
            map.compare_and_set(&key, &value, &7).await?;
        }
        map.insert_many(&[(key.clone(), 1)]).await?;
        map.get_many(&[key]).await?;
        map.get_or_insert_with("42", second, async || Ok::<_, Error>(42)).await?;
        map.add("42", 1).await
    });
    let set = client.set::<String>("seen").unwrap();
    may_be_spawned(&async move {
        let mut stream = set.stream();
        while let Some(element) = stream.next().await? {
            set.remove(&element).await?;
        }
        set.pop().await?;
        set.members().await
    });
    let queue = client.queue::<String>("jobs").unwrap();
    may_be_spawned(&async move {
        queue.push_all(["a".to_owned()]).await?;
        drop(queue.pop().await?);
        let claim = queue.claim_within(second).await?;
        tokio::select! {
            _ = claim.lost() => claim.give_back().await,
            () = async {} => claim.done().await,
        }
    });
}

#[test]
fn run_accepts_work_that_is_not_send() {
    let lock = Client::in_memory().lock("door").unwrap();
    let local = std::rc::Rc::new(42);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ran = runtime.block_on(lock.run(async |_held| {
        tokio::task::yield_now().await;
        *local
    }));
    assert_eq!(ran.unwrap(), 42);
}

#[tokio::test]
async fn loss_future_outlives_its_guard() {
    let client = Client::in_memory();
    let lost = {
        let guard = client.lock("door").unwrap().acquire().await.unwrap();
        let lost = guard.lost();
        may_be_spawned(&lost);
        lost
    };
    assert_eq!(lost.await, LostReason::Released);

    let lost = client.lock("door").unwrap().run(async |held| held.lost()).await.unwrap();
    may_be_spawned(&lost);
    assert_eq!(tokio::spawn(lost).await.unwrap(), LostReason::Released);
}

/// `Is::<T>::SEND` is whether `T` is `Send`. The compiler selects the inherent constant only if its
/// bound holds.
struct Is<T>(PhantomData<T>);

impl<T: Send> Is<T> {
    const SEND: bool = true;
}

trait Else {
    const SEND: bool = false;
}

impl<T> Else for Is<T> {}

#[test]
fn send_check_accepts_send_types_and_rejects_others() {
    const { assert!(<Is<u8>>::SEND) };
    const { assert!(!<Is<std::rc::Rc<u8>>>::SEND) };
}

#[cfg(feature = "blocking")]
mod blocking {
    use leasehold::blocking::{
        Client, FencedGuard, Lock, LockGuard, OwnedFencedGuard, OwnedLockGuard,
    };

    use super::*;

    #[test]
    fn reentrant_blocking_guard_cannot_leave_its_thread() {
        const { assert!(!<Is<LockGuard>>::SEND && !<Is<FencedGuard>>::SEND) };
        is_unpin::<LockGuard>();
        is_static::<LockGuard>();
    }

    #[test]
    fn client_lock_and_owned_guards_may_move_between_threads() {
        is_plain::<Client>();
        is_plain::<Lock>();
        is_plain::<OwnedLockGuard>();
        is_plain::<OwnedFencedGuard>();
    }
}
