//! A lock as an operator sees it: spans, events and `Debug` texts.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use tokio::time::sleep;
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use leasehold::{Client, LockGuard, LostReason, MemoryStore, Release};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

type Fields = BTreeMap<&'static str, String>;

/// A span that has begun, or an event with the fields of its spans.
#[derive(Clone, Debug)]
struct Seen {
    /// The name of the span, or the message of the event.
    what: String,
    level: Level,
    fields: Fields,
}

/// Records the spans and events of the library.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Seen>>>);

impl Notes {
    /// Records the spans and events of this thread as long as the guard lives.
    fn taken() -> (Self, DefaultGuard) {
        // With only one subscriber, tracing decides once for all threads whether it records a log
        // line. The first thread that reaches the line decides, and this thread may run another
        // test that records nothing. A second subscriber makes tracing decide for each thread.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(NoSubscriber::default()));
        let notes = Self::default();
        let subscriber = tracing_subscriber::registry().with(notes.clone());
        (notes, tracing::subscriber::set_default(subscriber))
    }

    fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    /// All spans and events whose name or message starts with `what`.
    fn of(&self, what: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.what.starts_with(what)).collect()
    }

    /// The only span or event whose name or message starts with `what`.
    fn one(&self, what: &str) -> Seen {
        let mut found = self.of(what);
        assert_eq!(found.len(), 1, "{what}: {:?}", self.all());
        found.remove(0)
    }

    fn write(&self, metadata: &Metadata<'_>, what: String, fields: Fields) {
        assert!(!what.is_empty(), "{metadata:?}");
        self.0.lock().unwrap().push(Seen { what, level: *metadata.level(), fields });
    }
}

impl Seen {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The value of a field that is a time, rounded to seconds. The field is not exact, because the
    /// clock of leases reads two clocks of the machine, one after the other.
    fn seconds(&self, name: &str) -> f64 {
        let text = self.field(name).strip_suffix('s').unwrap_or_default();
        text.parse::<f64>().unwrap_or_else(|_| panic!("{self:?}")).round()
    }

    /// Asserts that the event is about the hold of `guard`.
    fn is_about(&self, guard: &LockGuard) {
        assert_eq!(self.field("lock"), guard.name().to_string(), "{self:?}");
        assert_eq!(self.field("owner"), guard.owner().to_string(), "{self:?}");
    }
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        if attributes.metadata().target() != "leasehold" {
            return;
        }
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields.clone());
        }
        let metadata = attributes.metadata();
        self.write(metadata, metadata.name().to_owned(), fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != "leasehold" {
            return;
        }
        let mut fields = Fields::new();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Fields>() {
                fields.extend(around.clone());
            }
        }
        event.record(&mut Reader(&mut fields));
        let message = fields.remove("message").unwrap_or_default();
        self.write(event.metadata(), message, fields);
    }
}

/// Two clients of one store, and a lock of the first client.
struct World {
    store: MemoryStore,
    client: Client,
    lock: leasehold::Lock,
    elsewhere: leasehold::Lock,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let client = Client::with_store(&store);
        let lock = client.lock("orders:42").unwrap();
        let elsewhere = Client::with_store(&store).lock("orders:42").unwrap();
        Self { store, client, lock, elsewhere }
    }
}

#[tokio::test(start_paused = true)]
async fn acquisition_is_a_span_with_the_name_and_the_owner() {
    let (notes, _taking) = Notes::taken();
    let guard = World::new().lock.acquire().await.unwrap();
    notes.one("acquire").is_about(&guard);
}

#[tokio::test(start_paused = true)]
async fn grant_logs_its_waiting_time() {
    let world = World::new();
    let held = world.elsewhere.acquire().await.unwrap();
    let (notes, _taking) = Notes::taken();
    let (guard, ()) = tokio::join!(world.lock.acquire(), async {
        sleep(secs(5)).await;
        drop(held);
    });
    let grant = notes.one("lock granted");
    grant.is_about(guard.as_ref().unwrap());
    assert_eq!(grant.seconds("waited"), 5.0, "{grant:?}");
}

#[tokio::test(start_paused = true)]
async fn every_acquire_method_logs_its_grant() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    drop(world.lock.acquire().await.unwrap());
    assert_eq!(notes.of("lock granted").len(), 1, "acquire");
    sleep(secs(1)).await;
    drop(world.lock.acquire_within(secs(1)).await.unwrap());
    assert_eq!(notes.of("lock granted").len(), 2, "acquire_within");
    sleep(secs(1)).await;
    drop(world.lock.try_acquire().await.unwrap().unwrap());
    assert_eq!(notes.of("lock granted").len(), 3, "try_acquire");
    sleep(secs(1)).await;
    world.lock.run(async |_held| ()).await.unwrap();
    assert_eq!(notes.of("lock granted").len(), 4, "run");
}

#[tokio::test(start_paused = true)]
async fn waiting_task_logs_the_holder() {
    let world = World::new();
    let held = world.elsewhere.acquire().await.unwrap();
    let (notes, _taking) = Notes::taken();
    assert!(world.lock.acquire_within(secs(1)).await.is_err());
    let wait = notes.of("acquisition started to wait").remove(0);
    assert_eq!(wait.field("lock"), "orders:42");
    assert!(wait.field("owner").starts_with(world.client.id()), "{wait:?}");
    assert!(wait.field("holder").contains(held.owner().as_str()), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn release_logs_how_long_the_lock_was_held() {
    let (notes, _taking) = Notes::taken();
    let guard = World::new().lock.acquire().await.unwrap();
    let owner = guard.owner().to_string();
    sleep(secs(7)).await;
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let release = notes.one("release completed");
    assert_eq!((release.field("lock"), release.field("owner")), ("orders:42", owner.as_str()));
    assert_eq!(release.seconds("held"), 7.0, "{release:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_guard_logs_its_release_and_duration() {
    let (notes, _taking) = Notes::taken();
    let guard = World::new().lock.acquire().await.unwrap();
    let owner = guard.owner().to_string();
    sleep(secs(7)).await;
    drop(guard);
    let release = notes.one("background release started");
    assert_eq!((release.field("lock"), release.field("owner")), ("orders:42", owner.as_str()));
    assert_eq!(release.seconds("held"), 7.0, "{release:?}");
}

#[tokio::test(start_paused = true)]
async fn renewal_batch_is_logged_with_its_number_of_holds() {
    let (notes, _taking) = Notes::taken();
    let _guard = World::new().lock.acquire().await.unwrap();
    sleep(secs(15)).await;
    let renew = notes.one("renewal batch completed");
    let fields = (renew.field("holds"), renew.field("renewed"), renew.field("failed"));
    assert_eq!(fields, ("1", "1", "0"));
}

#[tokio::test(start_paused = true)]
async fn hold_in_doubt_is_logged_once_for_each_outage() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    for times in 1..=2 {
        // given renewals that fail repeatedly
        world.store.fail("LOADING");
        sleep(secs(20)).await;
        let doubts = notes.of("renewal of this hold failed");
        assert_eq!(doubts.len(), times, "{doubts:?}");
        doubts[0].is_about(&guard);
        let failing = notes.of("renewals failed").pop().unwrap();
        assert_eq!((failing.level, failing.field("lock")), (Level::WARN, "orders:42"));

        // and then renewals that succeed
        world.store.heal();
        sleep(secs(20)).await;
    }
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn task_that_waits_for_itself_is_logged_at_each_renewal() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    sleep(secs(15)).await;
    assert!(world.lock.acquire_within(secs(20)).await.is_err());
    let reported = notes.of("self-wait detected: this client waits for a lock that it holds");
    // When a waiter comes and at each renewal, the client checks whether a task waits for its own
    // hold.
    assert_eq!(reported.len(), 2, "{reported:?}");
    for (reported, held) in reported.iter().zip([15.0, 25.0]) {
        reported.is_about(&guard);
        assert_eq!((reported.level, reported.seconds("held")), (Level::WARN, held));
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_logged_as_a_warning_with_its_reason() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    world.store.lose("orders:42");
    assert_eq!(guard.lost().await, LostReason::NotOwned);
    let lost = notes.one("hold lost");
    lost.is_about(&guard);
    assert_eq!(lost.level, Level::WARN);
    assert_eq!(lost.field("reason"), LostReason::NotOwned.to_string());
}

#[tokio::test(start_paused = true)]
async fn released_hold_is_not_logged_as_lost() {
    let (notes, _taking) = Notes::taken();
    let lock = World::new().lock;
    drop(lock.acquire().await.unwrap());
    sleep(secs(1)).await;
    assert_eq!(lock.acquire().await.unwrap().release().await.unwrap(), Release::Released);
    assert!(notes.of("hold lost").is_empty(), "{:?}", notes.all());
}

#[tokio::test(start_paused = true)]
async fn release_of_a_lost_lock_is_logged_as_a_warning() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    world.store.lose("orders:42");
    assert!(matches!(guard.release().await.unwrap(), Release::NotHeld { .. }));
    let warned: Vec<_> = notes.all().into_iter().filter(|seen| seen.level <= Level::WARN).collect();
    assert_eq!(warned.len(), 1, "{:?}", notes.all());
    assert_eq!(warned[0].field("lock"), "orders:42");
}

#[tokio::test(start_paused = true)]
async fn abandoned_release_is_logged_as_a_warning() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    world.store.fail("NOPERM no permission");
    drop(guard);
    sleep(secs(1)).await;
    let given_up = notes.one("release abandoned");
    assert_eq!(given_up.level, Level::WARN);
    let fields = format!("{:?}", given_up.fields);
    assert!(fields.contains("orders:42") && fields.contains("NOPERM"), "{fields}");
}

#[tokio::test(start_paused = true)]
async fn waiters_log_an_unreachable_store() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    world.store.fail("LOADING the dataset");
    assert!(world.lock.acquire_within(secs(1)).await.is_err());
    let warned = notes.of("acquisition request failed").remove(0);
    assert_eq!((warned.level, warned.field("lock")), (Level::WARN, "orders:42"));
    assert!(warned.field("failure").contains("LOADING"), "{warned:?}");
}

#[tokio::test(start_paused = true)]
async fn normal_operation_logs_no_warning() {
    let world = World::new();
    let (notes, _taking) = Notes::taken();
    let guard = world.lock.acquire().await.unwrap();
    let again = guard.reenter().await.unwrap();
    sleep(secs(60)).await;
    assert!(world.elsewhere.try_acquire().await.unwrap().is_none());
    drop((again, guard));
    world.client.shutdown(secs(1)).await;
    let loud: Vec<_> = notes.all().into_iter().filter(|seen| seen.level < Level::DEBUG).collect();
    assert!(loud.is_empty(), "{loud:?}");
}

mod stats {
    use leasehold::Stats;
    use tokio::time::timeout;

    use super::*;

    /// Asserts that `stats` counts every hold once.
    #[track_caller]
    fn adds_up(stats: &Stats) {
        let lost =
            stats.lost_expired + stats.lost_not_owned + stats.lost_max_hold + stats.lost_shut_down;
        let ended = stats.released + stats.releases_unanswered + lost;
        assert_eq!(stats.granted, stats.held + ended, "{stats:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn releases_that_were_cancelled_are_counted() {
        // given forty holds, six of which are released in time
        let world = World::new();
        for n in 0..40 {
            let guard = world.client.lock(format!("{n}")).unwrap().acquire().await.unwrap();
            if n < 6 {
                assert_eq!(guard.release().await.unwrap(), Release::Released);
                continue;
            }

            // and the other 34 holds are released while the store hangs, by callers that do not
            // wait for the reply
            world.store.stall();
            assert!(timeout(Duration::from_millis(10), guard.release()).await.is_err());
            adds_up(&world.client.stats());
            world.store.resume();
        }

        // then the counters contain each hold once
        let stats = world.client.stats();
        let counted = (stats.granted, stats.released, stats.releases_unanswered, stats.held);
        assert_eq!(counted, (40, 6, 34, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn hold_counts_as_held_until_its_release_is_confirmed() {
        let world = World::new();
        let guard = world.lock.acquire().await.unwrap();
        world.store.stall();
        let (released, ()) = tokio::join!(guard.release(), async {
            sleep(secs(1)).await;
            assert_eq!(world.client.stats().held, 1);
            adds_up(&world.client.stats());
            world.store.resume();
        });
        assert_eq!(released.unwrap(), Release::Released);
        assert_eq!((world.client.stats().held, world.client.stats().released), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn counters_add_up_however_a_hold_ends() {
        let world = World::new();
        let (client, lock) = (&world.client, &world.lock);
        let granted = async || lock.acquire().await.unwrap();

        drop(granted().await);
        let (next, released) = tokio::join!(lock.acquire(), granted().await.release());
        assert!(next.unwrap().release().await.is_ok() && released.is_ok());
        adds_up(&client.stats());

        let guard = granted().await;
        world.store.fail("NOPERM no permission");
        assert!(guard.release().await.is_err());
        world.store.heal();
        adds_up(&client.stats());

        world.store.lose_everything();
        let (reported, found) = (granted().await, client.lock("other").unwrap().acquire().await);
        world.store.lose_everything();
        assert!(matches!(found.unwrap().release().await, Ok(Release::NotHeld { .. })));
        assert_eq!(reported.lost().await, LostReason::NotOwned);
        drop(reported);
        adds_up(&client.stats());

        let bounded = lock.clone().max_hold(secs(1)).acquire().await.unwrap();
        assert_eq!(bounded.lost().await, LostReason::MaxHold);
        drop(bounded);
        let leased = lock.clone().lease(secs(1)).acquire().await.unwrap();
        assert_eq!(leased.lost().await, LostReason::Expired);
        assert!(leased.release().await.is_ok());
        let taken = granted().await;
        assert_eq!(client.shutdown(secs(1)).await.revoked, 1);
        drop(taken);

        let stats = client.stats();
        adds_up(&stats);
        assert_eq!((stats.held, stats.releases_unanswered, stats.handed_off), (0, 1, 1));
        assert_eq!((stats.lost_max_hold, stats.lost_expired, stats.lost_shut_down), (1, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn prometheus_page_has_every_metric() {
        let world = World::new();
        let _guard = world.lock.acquire().await.unwrap();
        let stats = world.client.stats();
        let page = stats.prometheus();
        let values = || page.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(values().count(), format!("{stats:?}").matches(": ").count(), "{page}");
        let ones: Vec<_> = values().filter(|line| line.ends_with(" 1")).collect();
        let granted = "leasehold_acquire_duration_seconds_count{outcome=\"granted\"} 1";
        assert_eq!(ones, ["leasehold_hold_active 1", granted]);
    }
}

mod debug {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn guard_debug_output_shows_its_lock_and_its_owner() {
        let guard = World::new().lock.acquire().await.unwrap();
        let text = format!("{guard:?}");
        assert!(text.contains("orders:42") && text.contains(guard.owner().as_str()), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn guard_debug_output_is_short_and_shows_only_its_own_hold() {
        // given a client with many locks
        let client = Client::in_memory();
        let mut guards = Vec::new();
        for n in 0..100 {
            guards.push(client.lock(format!("seat {n}")).unwrap().acquire().await.unwrap());
        }

        // then the text of a guard shows only its own hold
        let text = format!("{:?}", guards[7]);
        assert!(!text.contains("seat 8"), "{} bytes", text.len());
        assert!(text.len() < 500, "{} bytes", text.len());
    }

    #[tokio::test(start_paused = true)]
    async fn debug_output_of_a_client_and_a_lock_works_while_a_task_waits() {
        let world = World::new();
        let held = world.elsewhere.acquire().await.unwrap();
        let lock = world.lock.clone();
        let waiter = tokio::spawn(async move { lock.acquire().await });
        sleep(secs(1)).await;
        assert!(format!("{:?}", world.client).contains(world.client.id()));
        assert!(format!("{:?}", world.lock).contains("orders:42"));
        drop(held);
        assert!(waiter.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn no_debug_output_shows_a_password() {
        let builder = Client::builder().credentials("billing", "topsecret");
        assert!(!format!("{builder:?}").contains("topsecret"), "{builder:?}");
        let builder = Client::builder().password("topsecret");
        assert!(!format!("{builder:?}").contains("topsecret"), "{builder:?}");
        let builder = Client::builder().sentinel_credentials("eye", "topsecret");
        assert!(!format!("{builder:?}").contains("topsecret"), "{builder:?}");

        // and the text shows no password when the client cannot connect
        let (notes, _taking) = Notes::taken();
        for url in [
            "redis://billing:topsecret@127.0.0.1:1/",
            "redis://:topsecret@127.0.0.1:x/",
            "redis://billing:topsecret@127.0.0.1:1,127.0.0.1:2/",
            "redis-cluster://billing:topsecret@127.0.0.1:1,127.0.0.1:2",
            "redis-cluster://:topsecret@127.0.0.1:1,127.0.0.1:x",
            "redis-sentinel://:topsecret@127.0.0.1:1/mymaster?sentinel_password=topsecret",
            "redis-sentinel://:topsecret@127.0.0.1:1/mymaster?sentinelPassword=topsecret",
            "redis-sentinel://127.0.0.1:1?sentinel_password=topsecret",
        ] {
            let connecting = Client::builder().connect_timeout(Duration::from_millis(300));
            let error = connecting.connect(url).await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("topsecret"), "{text}");
        }
        let seen = format!("{:?}", notes.all());
        assert!(!seen.contains("topsecret"), "{seen}");
    }
}
