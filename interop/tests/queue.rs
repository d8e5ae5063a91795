//! What Leasehold adds for its own waiters, beside a Java that knows nothing of it: the queue
//! between its processes, and the turns within one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::{Crowd, Java, Report, Rust, Setup, Way, measured, since, wake_up, woken};
use leasehold::{Client, LockGuard};
use testkit::{Connection, Redis, eventually};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, block_in_place};

// The queue.

#[test]
fn ours_are_granted_the_lock_one_by_one_in_the_order_of_their_coming() {
    // given three of ours in a queue, behind a holder that waited itself
    let scene = Scene::start(4);
    let holder = scene.holder_that_waited(0);
    let waiting = [1, 2, 3].map(|client| scene.queues(client));
    let places = scene.places();
    let owners: Vec<_> = places.iter().map(|it| it.split('|').next().unwrap()).collect();
    let monitor = scene.redis.monitor();
    // Long enough for the next to be first to be told of it.
    sleep(SECOND / 3);

    // when each gives it back in turn
    scene.release(holder);
    for (waiting, owner) in waiting.into_iter().zip(&owners) {
        let guard = scene.runtime.block_on(waiting).unwrap();
        assert_eq!(guard.owner().as_str(), *owner);
        // Long enough for the next one to have asked anew, if it was told to.
        sleep(SECOND / 10);
        scene.release(guard);
    }

    // then each was told on its own channel, and only the last one had nobody to give it to
    let (firsts, told): (Vec<_>, Vec<_>) =
        told(&monitor.stop()).into_iter().partition(|it| it.ends_with(" first door"));
    let [first, second, third, open] = &told[..] else { panic!("{told:#?}") };
    for (passes, (message, owner)) in (1..).zip([first, second, third].into_iter().zip(&owners)) {
        let client = owner.split(':').next().unwrap();
        let words: Vec<_> = message.split(' ').collect();
        assert_eq!(words[..2], [format!("leasehold_client:{client}").as_str(), "granted"]);
        assert!(words[2].parse::<u64>().unwrap() > 0, "{message}");
        assert_eq!(words[3..], [passes.to_string().as_str(), owner, "door"]);
    }
    assert_eq!(open, "redisson_lock__channel:{door} 0");

    // and who became the first after a while in the queue was told to ask anew
    assert!(!firsts.is_empty());
    for message in firsts {
        let next = |owner: &&str| message.contains(owner.split(':').next().unwrap());
        assert!(owners[1..].iter().any(next), "{message}");
    }
    scene.nothing_stays();
}

#[test]
fn a_place_in_the_queue_is_an_owner_a_number_and_a_lease() {
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let waiting = scene.queues(1);

    let places = scene.places();
    let [owner, number, lease] = places[0].split('|').collect::<Vec<_>>()[..] else {
        panic!("{places:?}")
    };
    assert!(owner.starts_with(scene.clients[1].id()), "{owner}");
    assert!(number.parse::<u64>().unwrap() > 0);
    assert_eq!(lease, "5000");
    // It stands since a moment of the server, and rests 15 s after the last question.
    let score = scene.redis.command(&["ZSCORE", QUEUE, &places[0]]);
    let now = scene.redis.command(&["TIME"]);
    let now = now.texts().iter().map(|it| it.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let age = now[0] * 1_000_000 + now[1] - score.text().parse::<u64>().unwrap();
    assert!(age < 5_000_000, "{age} µs");
    let rest = scene.redis.command(&["PTTL", QUEUE]).number();
    assert!((1..=15_000).contains(&rest), "{rest}");

    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();
    scene.release(guard);
    scene.nothing_stays();
}

#[test]
fn a_grant_is_a_short_lease_that_the_receiver_renews() {
    // given a client of ours that is granted the lock by the one before it
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let waiting = scene.queues(1);
    let monitor = scene.redis.monitor();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();

    // then the lease that came with it was one of 5 s
    let lines = monitor.lines();
    let leases = |lines: &[String]| -> Vec<String> {
        let of = lines.iter().filter_map(|it| it.split_once(r#"lua] "PEXPIRE" "door" ""#));
        of.map(|(_, lease)| lease.trim_end_matches('"').to_owned()).collect()
    };
    assert_eq!(leases(&lines)[0], "5000", "{lines:#?}");

    // and is made a whole one long before that is over
    sleep(SECOND * 6);
    assert!(guard.is_held());
    assert!(scene.redis.command(&["PTTL", "door"]).number() > 15_000);
    let leases = leases(&monitor.stop());
    assert!(leases[1..].iter().all(|lease| lease == "30000"), "{leases:?}");
    scene.release(guard);
    scene.nothing_stays();
}

#[test]
fn who_is_gone_is_passed_over_in_the_queue() {
    // given a process of ours that queues and is killed, and one behind it
    let scene = Scene::start(2);
    let holder = scene.holder_that_waited(0);
    let doomed = Rust::start(&Setup::new(scene.redis.url()));
    let forgotten = doomed.thread("T1").start_lock("door");
    eventually("it queues", SECOND * 5, || scene.places().len() == 1);
    let waiting = scene.queues(1);
    drop(forgotten);
    doomed.kill();
    eventually("it listens no more", SECOND * 5, || scene.listeners() == [2, 2]);

    // when the lock is given back, then the second has it at once
    let began = Instant::now();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    scene.release(guard);
    scene.nothing_stays();
}

// Java beside it.

#[test]
fn a_release_is_open_if_java_waits_though_ours_queue() {
    // given three of ours in a queue, and a Java thread that waits
    let scene = Scene::start(4);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let holder = scene.holder_that_waited(0);
    let mut waiting: Vec<_> = [1, 2, 3].map(|client| scene.queues(client)).into();
    let theirs = java.thread("T1").start_lock("door");
    // The more that listen to Redisson's channel than to ours is what Java is seen by.
    eventually("Java listens", SECOND * 5, || scene.listeners() == [5, 4]);
    sleep(SECOND / 5);
    let monitor = scene.redis.monitor();

    // when each of ours that gets it gives it back
    scene.release(holder);
    let mut before_java = 0;
    eventually("Java has it", SECOND * 5, || {
        if let Some(done) = waiting.iter().position(JoinHandle::is_finished) {
            before_java += 1;
            scene.release(scene.runtime.block_on(waiting.swap_remove(done)).unwrap());
        }
        theirs.is_done()
    });

    // then all it takes is the zero on Redisson's channel, each time
    assert!(theirs.wait(SECOND).acquired());
    let told = told(&monitor.stop());
    assert_eq!(told, vec!["redisson_lock__channel:{door} 0"; before_java + 1]);

    // and those of ours that are left have their turn when Java leaves
    assert!(java.thread("T1").unlock("door").is_true());
    while !waiting.is_empty() {
        let guard = scene.first_in(&mut waiting);
        scene.release(guard);
    }
    scene.nothing_stays();
}

#[test]
fn java_enters_by_message_among_clients_of_ours_that_queue_again_and_again() {
    // given four of ours that take the lock again as soon as they have given it back
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let rusts: Vec<_> = (0..4).map(|_| Rust::start(&setup)).collect();
    let java = Java::start(&setup);
    let crowd = Crowd::new("door", "counter", 1).at_most(10).hold(MILLI);
    let ours: Vec<_> = rusts.iter().map(|rust| rust.thread("crowd").start_crowd(&crowd)).collect();
    let counted = || redis.command(&["GET", "counter"]).text().parse::<u64>().unwrap();
    eventually("they count", SECOND * 5, || redis.command(&["EXISTS", "counter"]).number() == 1);
    eventually("they queue", SECOND * 5, || redis.command(&["ZCARD", QUEUE]).number() >= 2);

    // when a Java thread comes, again and again
    let thread = java.thread("T1");
    let (mut most, mut longest) = (0, Duration::ZERO);
    let began = Instant::now();
    let mut times = 0;
    while began.elapsed() < SECOND * 7 {
        let before = counted();
        let entered = thread.lock("door");
        (most, longest) = (most.max(counted() - before), longest.max(entered.waited()));
        assert!(thread.unlock("door").is_true());
        times += 1;
        sleep(MILLI * 20);
    }

    // then it never waits for as long as the shortest lease that it may have seen, of 5 s:
    // it was a message that let it in
    assert!(longest < SECOND * 4, "{longest:?}, {times} times");
    assert!(most < 2_000, "{most} of ours before it");
    let ours: u64 = ours.into_iter().map(|it| Report::read(&it.wait(SECOND * 20)).total).sum();
    assert_eq!(counted(), ours);
    let figure = format!("Java {times} times, {most} of ours before it at most");
    measured("queue: entries while four of ours queue", Way::RustToJava, &figure);
    woken("queue: longest wait while four of ours queue", Way::RustToJava, longest);
}

#[test]
fn javas_unlock_wakes_ours_that_queue_at_once() {
    // given a Java holder, and two of ours in the queue
    let scene = Scene::start(2);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        assert!(java.thread("T1").lock("door").acquired());
        let mut waiting = [0, 1].map(|client| scene.queues(client)).into();

        // when Java leaves
        let began = Instant::now();
        assert!(java.thread("T1").unlock("door").is_true());

        // then one of them is in at once, and the other when that one leaves
        let first = scene.first_in(&mut waiting);
        slowest = slowest.max(began.elapsed());
        scene.release(first);
        let second = scene.first_in(&mut waiting);
        scene.release(second);
        assert!(slowest < SECOND / 2, "woken after {slowest:?}");
    }
    woken("queue: Java's unlock wakes ours that queue (slowest of 5)", Way::JavaToRust, slowest);
    scene.nothing_stays();
}

#[test]
fn javas_force_lets_in_one_of_ours_that_queues_and_our_holder_is_told() {
    // given a holder of ours that was renewed each second, and one more of ours in the queue
    let redis = Redis::start();
    let setup = Setup::new(redis.url()).watchdog(SECOND * 3);
    let (rust, other) = (Rust::start(&setup), Rust::start(&setup));
    let java = Java::start(&setup);
    let (holder, waiter) = (rust.thread("T1"), other.thread("T1"));
    assert!(holder.lock("door").acquired());
    let lost = holder.start_lost("door");
    let waiting = waiter.start_lock("door");
    eventually("it queues", SECOND * 5, || redis.command(&["ZCARD", QUEUE]).number() == 1);

    // when Java takes the lock away
    let forced = java.thread("T1").force_unlock("door");
    assert!(forced.is_true());

    // then the one in the queue is in at once, and the holder is told by its next renewal
    let delay = wake_up(&forced, &waiting.wait(SECOND * 5));
    assert!(delay < SECOND / 2, "woken after {delay:?}");
    let told = lost.wait(SECOND * 5);
    assert_eq!(told.value(), "NotOurs");
    let known = since(forced.began_at(), told.at());
    assert!(known < SECOND * 2, "told after {known:?}");
    assert!(holder.unlock("door").failed_with("AlreadyGone"));
    assert!(waiter.is_held("door").is_true());
    assert!(waiter.unlock("door").is_true());
    woken("queue: Java's force lets in one of ours that queues", Way::JavaToRust, delay);
}

#[test]
fn java_sees_one_hold_with_a_lease_while_ours_pass_the_lock_on() {
    let (mut looks, mut passes) = (0, 0);
    let scene = Scene::start(3);
    let java = Java::start(&Setup::new(scene.redis.url()));
    let thread = java.thread("T1");
    let id = thread.id();
    for _ in 0..5 {
        // given three of ours that pass the lock on, less often than it goes to nobody once
        let passing = Passing::start(&scene, 60);
        let monitor = scene.redis.monitor();

        // when Java looks at it all the time, then it never sees it free or without a lease
        while passing.passed.load(Ordering::Relaxed) < 60 {
            assert!(thread.is_locked("door").is_true(), "{looks}");
            let ttl = thread.remain_time_to_live("door").number();
            assert!((1..=30_000).contains(&ttl), "{ttl}");
            assert!(!thread.is_held_by_thread("door", id).is_true());
            assert_eq!(thread.hold_count("door").number(), 0);
            assert!(!thread.try_lock("door").acquired());
            // what no method of Java's tells: the count of another holder
            let script = "return {redis.call('PTTL', KEYS[1]), redis.call('HVALS', KEYS[1])}";
            let seen = scene.redis.command(&["EVAL", script, "1", "door"]);
            assert!(seen.list()[0].number() > 0, "{seen:?}");
            assert_eq!(seen.list()[1].texts(), ["1"]);
            looks += 1;
        }
        let told = told(&monitor.stop());
        assert!(told.iter().all(|it| it.starts_with("leasehold_client:")), "{told:#?}");
        passes += told.iter().filter(|it| it.contains(" granted ")).count();
        passing.end(&scene);
    }
    assert!(passes >= 250, "{passes}");
    assert!(looks >= 50, "{looks}");
    measured(
        "queue: one hold with a lease whenever Java looks",
        Way::RustToJava,
        &format!("{looks} looks, {passes} times passed on"),
    );
    scene.nothing_stays();
}

#[test]
fn each_65th_time_the_lock_goes_to_nobody() {
    // given three of ours that pass the lock on
    let scene = Scene::start(3);
    let passing = Passing::start(&scene, 130);
    let monitor = scene.redis.monitor();
    eventually("they have passed it on", SECOND * 20, || {
        passing.passed.load(Ordering::Relaxed) == 130
    });

    // then after 64 grants in a row the first in the queue is told that it may ask
    let told = told(&monitor.stop());
    let passes = |message: &String| -> u32 {
        let mut words = message.split(' ').skip(1);
        match (words.next(), words.nth(1)) {
            (Some("granted"), Some(passes)) => passes.parse().unwrap(),
            // Who is faster than the first has not waited, and gives it back to all.
            (Some("first" | "0"), _) => 0,
            _ => panic!("{message}"),
        }
    };
    let passes: Vec<u32> = told.iter().map(passes).collect();
    assert!(passes.contains(&64), "{told:#?}");
    for pair in passes.windows(2) {
        assert!(pair[1] == (pair[0] + 1) % 65 || pair == [0, 0], "{told:#?}");
    }
    for (message, after) in told.iter().skip(1).zip(&passes) {
        assert!(*after != 64 || message.ends_with(" first door"), "{told:#?}");
    }
    passing.end(&scene);
}

/// It is a matter of luck: it asks each 128 ms in the end, and the lock is free for less than
/// a millisecond each 65th time.
#[test]
fn a_java_spin_lock_gets_in_while_ours_pass_the_lock_on() {
    // given three of ours that pass the lock on without a pause
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let rusts: Vec<_> = (0..3).map(|_| Rust::start(&setup)).collect();
    let java = Java::start(&setup);
    let crowd = Crowd::new("door", "counter", 1).at_most(200);
    let ours: Vec<_> = rusts.iter().map(|rust| rust.thread("crowd").start_crowd(&crowd)).collect();
    let counted = || redis.command(&["GET", "counter"]).text().parse::<u64>().unwrap_or(0);
    eventually("they queue", SECOND * 5, || redis.command(&["ZCARD", QUEUE]).number() > 0);

    // when a Java thread spins for it, then it gets in before ours have ended
    let before = counted();
    let thread = java.thread("T1").spin();
    let entered = thread.start_try_lock_within("door", SECOND * 180).wait(SECOND * 185);
    let ours_before = counted() - before;
    assert!(entered.acquired(), "{ours_before} of ours before it");
    assert!(thread.unlock("door").is_true());
    drop((ours, rusts));

    let figure = format!("{ours_before} of ours before it");
    measured("queue: a spin lock among ours that pass the lock on", Way::RustToJava, &figure);
    woken("queue: wait of that spin lock", Way::RustToJava, entered.waited());
}

// Turns within one process.

#[test]
fn java_has_its_part_beside_eight_tasks_of_one_client() {
    // given eight tasks of one client, and one Java thread, that want the lock without a pause
    let redis = Redis::start();
    let setup = Setup::new(redis.url());
    let (rust, java) = (Rust::start(&setup), Java::start(&setup));
    // What Java has never done takes it a second beside so busy a process.
    let (holder, waiter) = (rust.thread("T1"), java.thread("T1"));
    assert!(holder.lock("window").acquired());
    let waiting = waiter.start_lock("window");
    interop::until_asleep(&redis, "window", 1);
    assert!(holder.unlock("window").is_true());
    assert!(waiting.wait(SECOND * 5).acquired());
    let monitor = redis.monitor();
    let crowd = |threads| Crowd::new("door", "counter", threads).at_most(20);
    let ours = rust.thread("crowd").start_crowd(&crowd(8));
    let theirs = java.thread("crowd").start_crowd(&crowd(1));
    let (ours, theirs) =
        (Report::read(&ours.wait(SECOND * 50)), Report::read(&theirs.wait(SECOND * 50)));

    // then nothing is lost, and Java comes in each 10 ms: our next question lets it go first
    let counted: u64 = redis.command(&["GET", "counter"]).text().parse().unwrap();
    assert_eq!(counted, ours.total + theirs.total);
    assert!(theirs.total >= 100, "{theirs:?} {ours:?}");
    assert!(theirs.max_wait < SECOND * 2, "{theirs:?} {ours:?}");
    assert!(ours.max_wait < SECOND * 4, "{theirs:?} {ours:?}");
    let lines = monitor.stop();
    let grants = lines.iter().filter(|it| it.contains(r#"lua] "HSET" "door""#)).count();
    assert!(grants as u64 * 2 < ours.total, "{grants} grants for {} holds", ours.total);
    measured(
        "turns: one Java thread beside eight tasks of one client",
        Way::RustToJava,
        &format!("Java {} times beside {} in {grants} grants", theirs.total, ours.total),
    );
    woken("turns: longest wait beside eight tasks of one client", Way::RustToJava, theirs.max_wait);
}

#[test]
fn a_lock_that_stays_in_a_process_keeps_its_owner_in_redis() {
    // given two tasks of one client, one that holds and one that waits
    let scene = Scene::start(1);
    let lock = || scene.clients[0].lock("door").unwrap().local_turns(10, SECOND * 60);
    let holder = scene.runtime.block_on(lock().acquire()).unwrap();
    let waiting = scene.runtime.spawn({
        let lock = lock();
        async move { lock.acquire().await.unwrap() }
    });
    eventually("it listens", SECOND * 5, || scene.listeners() == [1, 1]);
    let before = scene.redis.command(&["HGETALL", "door"]);
    let monitor = scene.redis.monitor();

    // when the lock goes from the one to the other
    let owner = holder.owner().clone();
    scene.release(holder);
    let guard = scene.runtime.block_on(waiting).unwrap();

    // then Redis has not heard of it
    assert_eq!(*guard.owner(), owner);
    let lines = monitor.stop();
    assert!(!lines.iter().any(|line| line.contains("EVAL")), "{lines:#?}");
    assert_eq!(scene.redis.command(&["HGETALL", "door"]).texts(), before.texts());
    assert_eq!(before.texts(), [owner.as_str(), "1"]);
    scene.release(guard);
    scene.nothing_stays();
}

/// One Redis, and clients of ours in the test's own process.
struct Scene {
    redis: Redis,
    runtime: Runtime,
    clients: Vec<Client>,
}

impl Scene {
    fn start(clients: usize) -> Self {
        let redis = Redis::start();
        let runtime = Runtime::new().unwrap();
        let connect = || runtime.block_on(Client::connect(&redis.url())).unwrap();
        let clients = (0..clients).map(|_| connect()).collect();
        Self { redis, runtime, clients }
    }

    /// Who had to wait gives the lock to the queue; who did not has seen no queue.
    fn holder_that_waited(&self, client: usize) -> LockGuard {
        self.redis.command(&["HSET", "door", "somebody:1", "1"]);
        self.redis.command(&["PEXPIRE", "door", "30000"]);
        let waiting = self.queues(client);
        let script = "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0')";
        self.redis.command(&["EVAL", script, "1", "door", CHANNEL]);
        self.runtime.block_on(waiting).unwrap()
    }

    /// Begins to wait, and is in the queue.
    fn queues(&self, client: usize) -> JoinHandle<LockGuard> {
        let id = format!("{}:", self.clients[client].id());
        let lock = self.clients[client].lock("door").unwrap();
        let waiting = self.runtime.spawn(async move { lock.acquire().await.unwrap() });
        eventually("it queues", SECOND * 5, || {
            self.places().iter().any(|place| place.starts_with(&id))
        });
        waiting
    }

    /// The one of `waiting` that enters first, which it does at once.
    fn first_in(&self, waiting: &mut Vec<JoinHandle<LockGuard>>) -> LockGuard {
        let mut first = None;
        eventually("one of ours is in", SECOND, || {
            first = waiting.iter().position(JoinHandle::is_finished);
            first.is_some()
        });
        self.runtime.block_on(waiting.swap_remove(first.unwrap())).unwrap()
    }

    fn release(&self, guard: LockGuard) {
        let released = self.runtime.block_on(guard.release()).unwrap();
        assert_eq!(released, leasehold::Release::Released);
    }

    fn places(&self) -> Vec<String> {
        let places = self.redis.command(&["ZRANGE", QUEUE, "0", "-1"]);
        places.texts().into_iter().map(str::to_owned).collect()
    }

    /// How many listen to Redisson's channel, and to ours.
    fn listeners(&self) -> [i64; 2] {
        let counts = self.redis.command(&["PUBSUB", "NUMSUB", CHANNEL, QUEUERS]);
        [1, 3].map(|at| counts.list()[at].number())
    }

    /// Nothing but a client's own channel outlives the two to three seconds for which a name
    /// is listened to after its last waiter.
    fn nothing_stays(&self) {
        eventually("no key stays", SECOND * 16, || {
            self.redis.command(&["KEYS", "*"]).list().is_empty()
        });
        eventually("nobody listens", SECOND * 5, || self.listeners() == [0, 0]);
    }
}

/// Clients that pass a lock on, each only when another one queues.
struct Passing {
    tasks: Vec<JoinHandle<()>>,
    passed: Arc<AtomicU32>,
    last: Receiver<LockGuard>,
}

impl Passing {
    /// Passes it on `most` times; then the last one keeps it.
    fn start(scene: &Scene, most: u32) -> Self {
        let passed = Arc::new(AtomicU32::new(0));
        let (sender, last) = channel();
        let mut holds = Some(scene.holder_that_waited(0));
        let clients = scene.clients.iter();
        let tasks = clients.map(|client| {
            let (lock, mut holds) = (client.lock("door").unwrap(), holds.take());
            let (passed, sender, port) = (Arc::clone(&passed), sender.clone(), scene.redis.port());
            scene.runtime.spawn(async move {
                let mut redis = Connection::open(port);
                loop {
                    let guard = match holds.take() {
                        Some(guard) => guard,
                        None => lock.acquire().await.unwrap(),
                    };
                    tokio::time::sleep(MILLI * 5).await;
                    while block_in_place(|| redis.command(&["ZCARD", QUEUE])).number() == 0 {
                        tokio::time::sleep(MILLI).await;
                    }
                    if passed.load(Ordering::Relaxed) == most {
                        sender.send(guard).unwrap();
                        return;
                    }
                    passed.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(guard.release().await.unwrap(), leasehold::Release::Released);
                }
            })
        });
        Self { tasks: tasks.collect(), passed, last }
    }

    fn end(self, scene: &Scene) {
        let guard = self.last.recv_timeout(SECOND * 10).unwrap();
        for task in self.tasks {
            task.abort();
            _ = scene.runtime.block_on(task);
        }
        scene.release(guard);
        scene.nothing_stays();
    }
}

/// What was published, in the order in which it was: the channel and the message.
fn told(lines: &[String]) -> Vec<String> {
    let messages = lines.iter().filter_map(|line| line.split_once(r#"lua] "PUBLISH" ""#));
    messages.map(|(_, told)| told.trim_end_matches('"').replace(r#"" ""#, " ")).collect()
}

const QUEUE: &str = "leasehold_lock__queue:{door}";
const CHANNEL: &str = "redisson_lock__channel:{door}";
const QUEUERS: &str = "leasehold_lock__channel:{door}";
const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
