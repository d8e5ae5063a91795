//! How long a name stays known without waiters.

use super::*;

#[tokio::test(start_paused = true)]
async fn unused_name_is_removed_after_a_while() {
    let (_engine, contention, name) = door();
    let slot = contention.line(&name, PLAIN, true, || true).await;
    assert!(contention.line(&name, PLAIN, true, || true).now_or_never().is_none());
    drop(slot);
    assert!(!contention.is_idle(), "the name is kept for a while");
    advance(IDLE_LIFETIME / 2).await;
    contention.check_due_names();
    assert!(!contention.is_idle());
    advance(IDLE_LIFETIME / 2).await;
    contention.check_due_names();
    assert!(contention.is_idle());
}

#[tokio::test]
async fn name_without_waiters_is_removed_at_once() {
    let (engine, contention, name) = door();
    drop(contention.line(&name, PLAIN, true, || true).await);
    assert!(contention.is_idle());
    let hold = hold(&engine, &name).await;
    hold.end(LostReason::Released, Instant::now()).unwrap();
    contention.left(&hold);
    assert!(contention.is_idle());
}

#[tokio::test]
async fn number_of_names_without_waiters_is_bounded() {
    let (_engine, contention, _) = door();
    for n in 0..2 * MOST_LINGERING {
        contention.note(&Object::lock(format!("door-{n}")), RemoteWaiters::Listeners);
    }
    assert!(contention.entries.lock().of.len() <= MOST_LINGERING);
}

#[tokio::test]
async fn unused_names_beyond_the_limit_are_removed_at_once() {
    let (_engine, contention, _) = door();
    for n in 0..=MOST_LINGERING {
        // The first name also wakes the watchdog. That notification is consumed here.
        let _ = contention.core.notifier.notified().now_or_never();
        let name = Object::lock(format!("door-{n}"));
        contention.line(&name, PLAIN, true, || true).await.unwrap().listen(PLAIN);
    }
    assert!(
        contention.core.notifier.notified().now_or_never().is_some(),
        "a check of the names is due at once"
    );
    contention.check_due_names();
    assert!(contention.entries.lock().of.len() <= MOST_LINGERING);
}

/// Former bug: the check of a woken task was planned before the checks of all idle names. The
/// watchdog then checked only this task, again and again.
#[tokio::test(start_paused = true)]
async fn unused_names_are_removed_while_a_lock_is_handed_off() {
    let (engine, contention, door) = door();
    let first = hold(&engine, &door).await;
    let _waits = (in_line(&contention, &door), in_line(&contention, &door));
    for n in 0..=MOST_LINGERING {
        let name = Object::lock(format!("door-{n}"));
        contention.line(&name, PLAIN, true, || true).await.unwrap().listen(PLAIN);
    }
    contention.left(&first);
    let mut looks = 0;
    while contention.core.notifier.notified().now_or_never().is_some() && looks < 100 {
        contention.check_due_names();
        looks += 1;
    }
    assert!(looks < 10, "the checks end");
    assert_eq!(contention.entries.lock().agenda.len(), MOST_LINGERING);
}

/// Former bug: each hand-off checked all idle names, which took 20 ms for ten thousand names.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "what a look costs is no time that a test may stop")]
async fn check_of_due_names_costs_the_same_for_any_number_of_names() {
    let store = MemoryStore::new();
    let engine = Engine::on(&store, "client");
    let (here, there) = (Client::of(Arc::clone(&engine)), Client::with_store(&store));
    let mut held = Vec::new();
    for n in 0..4 * MOST_LINGERING {
        let name = format!("door-{n}");
        held.push(there.lock(&name).unwrap().acquire().await.unwrap());
        for _ in 0..2 {
            let door = here.lock(&name).unwrap();
            tokio::spawn(async move { drop(door.acquire().await) });
        }
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(engine.contention.entries.lock().agenda.len() > 3 * MOST_LINGERING);
    let looks = (0..100).map(|_| {
        let began = std::time::Instant::now();
        engine.contention.check_due_names();
        began.elapsed()
    });
    assert!(looks.min().unwrap() < Duration::from_millis(1));
}
