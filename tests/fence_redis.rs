//! Fenced writes that a plain client of the crate `redis` sends to a real Redis.

use crate::common::{client, hash, keys, stopped_and_next};
use leasehold::fence::{
    Gate,
    redis::{Call, delete, hset, script, set},
};
use redis::{Connection, FromRedisValue, RedisError, RedisResult, cmd};
use testkit::Redis;

/// The key of the data, and the key of the highest token that has written the data.
const TOTAL: &str = "orders:42:total";
const FENCE: &str = "leasehold_fence:{orders:42:total}";

/// The two highest possible tokens.
const NEWEST: u64 = (1 << 53) - 1;
const OLDER: u64 = NEWEST - 1;

/// A client that has no code for locks.
struct Plain(Connection);

impl Plain {
    fn of(server: &Redis) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        Self(client.get_connection().unwrap())
    }

    fn send<T: FromRedisValue>(&mut self, call: &Call) -> RedisResult<(u64, Option<T>)> {
        self.command("EVAL", call.source(), call)
    }

    fn command<T: FromRedisValue>(
        &mut self,
        name: &str,
        text: &str,
        call: &Call,
    ) -> RedisResult<T> {
        let mut command = cmd(name);
        command.arg(text).arg(call.keys().len()).arg(call.keys()).arg(call.args());
        command.query(&mut self.0)
    }

    /// Sends a call that the server rejects, and returns the rejection.
    fn refusal(&mut self, call: &Call) -> RedisError {
        self.command::<redis::Value>("EVAL", call.source(), call).unwrap_err()
    }

    /// Sends a call with the highest token, which the fence accepts.
    fn pass<T: FromRedisValue>(&mut self, call: &Call) -> T {
        let reply = self.send(call).expect("the server executes the call");
        call.read(reply).expect("the token is the highest").expect("the reply has a value")
    }

    /// Sends a call with a token that is too low, and returns the higher token of the fence.
    fn late(&mut self, call: &Call) -> u64 {
        let reply = self.send::<redis::Value>(call).expect("the server replies");
        call.read(reply).expect_err("the token is too low").newest()
    }
}

fn get(server: &Redis, key: &str) -> String {
    server.command(&["GET", key]).text().to_owned()
}

#[tokio::test]
async fn fence_rejects_the_late_write_of_a_stopped_holder() {
    // given a holder that was paused, and the next holder, which writes
    let server = Redis::start();
    let (stopped, next) = stopped_and_next(&server).await;
    let (mut a, mut b) = (Plain::of(&server), Plain::of(&server));
    assert_eq!(b.pass::<String>(&set(TOTAL, "15", next)), "OK");

    // when the paused holder continues and writes late, then the fence rejects the write and
    // nothing is written
    let late = set(TOTAL, "11", stopped);
    let reply = a.send::<String>(&late).unwrap();
    let stale = late.read(reply).unwrap_err();
    assert_eq!((stale.resource(), stale.token(), stale.newest()), (TOTAL, stopped, next));
    assert_eq!(get(&server, TOTAL), "15");

    // when a write has no fence, then the newer value is lost
    cmd("SET").arg(TOTAL).arg("11").exec(&mut a.0).unwrap();
    assert_eq!(get(&server, TOTAL), "11");
}

#[tokio::test]
async fn hold_may_write_repeatedly_with_every_kind_of_fenced_call() {
    // given a hold
    let server = Redis::start();
    let lock = client(&server).await.fenced_lock("orders:42").unwrap();
    let guard = lock.acquire().await.unwrap();
    let token = guard.token();
    let mut plain = Plain::of(&server);

    // when the holder writes repeatedly, then all of its writes happen
    assert_eq!(plain.pass::<String>(&set(TOTAL, "1", token)), "OK");
    assert_eq!(plain.pass::<String>(&set(TOTAL, "2", token)), "OK");
    assert_eq!(get(&server, TOTAL), "2");
    assert_eq!(plain.pass::<u32>(&delete(TOTAL, token)), 1);
    assert_eq!(plain.pass::<u32>(&hset(TOTAL, [("net", "3"), ("tax", "1")], token)), 2);
    let text = "return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";
    let add = script(text, [TOTAL], ["net", "4"], token).unwrap();
    assert_eq!(plain.pass::<i64>(&add), 7);
    guard.release().await.unwrap().into_result().unwrap();

    // and the key of the fence has the token of the hold
    assert_eq!(get(&server, FENCE), token.to_string());
    assert_eq!(server.command(&["PTTL", FENCE]).number(), -1, "the key does not expire");
}

#[test]
fn older_holds_write_nothing_with_any_kind_of_fenced_call() {
    // given data of a hold, and two tokens that Lua would print as the same float
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    plain.pass::<u32>(&hset(TOTAL, [("net", "3")], NEWEST));

    // when an older hold writes
    let text = "return redis.call('DEL', KEYS[1])";
    let calls = [
        set(TOTAL, "0", OLDER),
        hset(TOTAL, [("net", "0"), ("tax", "0")], OLDER),
        delete(TOTAL, OLDER),
        script(text, [TOTAL], [""; 0], OLDER).unwrap(),
    ];
    for call in &calls {
        // then the fence rejects the write, and the data is unchanged
        assert_eq!(plain.late(call), NEWEST, "{call:?}");
        assert_eq!(hash(&server, TOTAL), [("net".into(), "3".into())], "{call:?}");
        assert_eq!(get(&server, FENCE), "9007199254740991", "{call:?}");
    }
}

#[test]
fn tokens_are_compared_as_exact_64_bit_numbers() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    for (newest, older) in
        [(10, 9), (100, 99), (NEWEST, OLDER), (1 << 53, NEWEST), (u64::MAX, u64::MAX - 1)]
    {
        assert_eq!(plain.pass::<String>(&set(TOTAL, newest.to_string(), newest)), "OK");
        assert_eq!(plain.late(&set(TOTAL, "late", older)), newest);
        assert_eq!(get(&server, TOTAL), newest.to_string());
    }
}

#[test]
fn late_write_is_refused_after_the_data_is_deleted() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    plain.pass::<String>(&set(TOTAL, "15", 2));
    assert_eq!(plain.pass::<u32>(&delete(TOTAL, 2)), 1);

    assert_eq!(plain.late(&set(TOTAL, "11", 1)), 2);
    assert_eq!(keys(&server), [FENCE], "only the key of the fence is left");
}

#[test]
fn fenced_read_rejects_late_writes_of_older_holds() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    plain.pass::<String>(&set(TOTAL, "10", 1));
    let read = script("return redis.call('GET', KEYS[1])", [TOTAL], [""; 0], 2).unwrap();
    assert_eq!(plain.pass::<String>(&read), "10");

    assert_eq!(plain.late(&set(TOTAL, "11", 1)), 2);
    assert_eq!(plain.pass::<String>(&set(TOTAL, "15", 2)), "OK");
}

#[test]
fn each_key_has_a_fence_of_its_own() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    for (key, token) in [("a", 9), ("{a}", 8), (":{a}", 7), ("{a}b", 6)] {
        assert_eq!(plain.pass::<String>(&set(key, "1", token)), "OK", "{key}");
    }
}

#[test]
fn documented_permissions_suffice_for_fenced_writes() {
    let server = Redis::start();
    let rights = ["~orders:*", "~leasehold_fence:*", "+eval", "+evalsha", "+get", "+set"];
    let url = server.user("writer", &rights);
    let mut plain = Plain(redis::Client::open(url).unwrap().get_connection().unwrap());
    assert_eq!(plain.pass::<String>(&set(TOTAL, "15", 7)), "OK");
    assert_eq!(plain.late(&set(TOTAL, "11", 6)), 7);
}

/// Asserts `WRONGTYPE`. Before Redis 7, an error starts with the position in the script, and the
/// error code follows.
fn is_wrong_type(refusal: &RedisError) {
    assert!(refusal.to_string().contains("WRONGTYPE"), "{refusal}");
}

#[test]
fn invalid_fence_is_an_error_and_writes_nothing() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    server.command(&["SET", TOTAL, "15"]);

    // given a fence whose key has another type
    server.command(&["RPUSH", FENCE, "1"]);
    is_wrong_type(&plain.refusal(&set(TOTAL, "16", 7)));
    assert_eq!(server.command(&["LRANGE", FENCE, "0", "-1"]).texts(), ["1"]);

    // or a fence whose text is not a token
    for text in ["", "1e+15", "-1", "07", " 7", "7.0", "0x7", "x", "100000000000000000000"] {
        server.command(&["SET", FENCE, text]);
        let refusal = plain.refusal(&set(TOTAL, "16", 7)).to_string();
        assert!(
            refusal.contains("the value of the fence key is not a token"),
            "{text:?}: {refusal}"
        );
        assert_eq!(get(&server, FENCE), text);
    }
    assert_eq!(get(&server, TOTAL), "15");
}

#[test]
fn guarded_script_sees_only_its_own_keys_and_arguments() {
    // given a script that returns its keys and arguments, and ends in a comment
    let text = "local seen = {unpack(KEYS)}\n\
        for _, arg in ipairs(ARGV) do seen[#seen + 1] = arg end\n\
        return {#KEYS, #ARGV, table.concat(seen, ' ')} -- all";
    let server = Redis::start();
    let mut plain = Plain::of(&server);

    // when the script runs behind a fence
    let call = script(text, ["{a}1", "{a}2"], ["x", "y", "z"], 7).unwrap();
    let seen: (u32, u32, String) = plain.pass(&call);

    // then the script sees its own arguments, and the key of the fence has the hash tag of the
    // first key
    assert_eq!(seen, (2, 3, "{a}1 {a}2 x y z".into()));
    assert_eq!(keys(&server), ["leasehold_fence::{a}1"]);

    // and the script sees no variables of the library: if it uses the name of such a variable, the
    // error has the line number in the script
    for name in ["token", "fence", "newest", "write"] {
        let call = script(&format!("local one = 1\nreturn {name}"), ["a"], [""; 0], 7).unwrap();
        let refusal = plain.refusal(&call).to_string();
        assert!(refusal.contains(name) && refusal.contains("user_script:2"), "{refusal}");
    }
}

#[test]
fn fenced_script_may_return_any_reply() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    for text in ["", "return nil", "return false"] {
        let call = script(text, ["a"], [""; 0], 7).unwrap();
        let reply = plain.send::<redis::Value>(&call).unwrap();
        assert_eq!(call.read(reply), Ok(None), "{text}");
    }
    // An error replaces the whole reply. Within a list, a client might read the error as a value.
    let call = script("return redis.error_reply('MINE no')", ["a"], [""; 0], 7).unwrap();
    let reply = server.command(&["EVAL", call.source(), "2", "a", "leasehold_fence:{a}", "7"]);
    assert_eq!(reply.error(), "MINE no");
}

#[test]
fn failed_script_keeps_its_writes_and_its_token() {
    // given a script that writes, and then sends a command that fails
    let text = "redis.call('SET', KEYS[1], 'half')\nredis.call('HSET', KEYS[1], 'a', 'b')";
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    plain.pass::<String>(&set(TOTAL, "whole", 1));

    // when the script runs, then its first write stays
    let broken = script(text, [TOTAL], [""; 0], 3).unwrap();
    is_wrong_type(&plain.refusal(&broken));
    assert_eq!(get(&server, TOTAL), "half");

    // and the fence rejects older holds, and accepts this hold again
    assert_eq!(plain.late(&set(TOTAL, "late", 2)), 3);
    assert_eq!(plain.pass::<String>(&set(TOTAL, "whole again", 3)), "OK");
}

#[test]
fn fence_refuses_a_key_of_another_type_and_keeps_it() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    plain.pass::<String>(&set(TOTAL, "15", 1));
    is_wrong_type(&plain.refusal(&hset(TOTAL, [("a", "b")], 2)));
    assert_eq!(get(&server, TOTAL), "15");
    assert_eq!(get(&server, FENCE), "2");
}

#[test]
fn fenced_hash_write_accepts_20000_fields_of_any_bytes() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    let field = |number: u32| [&[0, 255, 10], number.to_be_bytes().as_slice()].concat();
    let fields = (0..20_001).map(|number| (field(number), field(number + 1)));
    assert_eq!(plain.pass::<u32>(&hset(TOTAL, fields, 1)), 20_001);
    let last: Vec<u8> = cmd("HGET").arg(TOTAL).arg(field(20_000)).query(&mut plain.0).unwrap();
    assert_eq!(last, field(20_001));
}

#[test]
fn fenced_call_by_hash_works_after_its_text_was_sent() {
    let server = Redis::start();
    let mut plain = Plain::of(&server);
    let call = script("return redis.call('INCR', KEYS[1])", ["n"], [""; 0], 7).unwrap();
    let by_hash = |plain: &mut Plain| plain.command("EVALSHA", &call.sha1(), &call);

    // given a server that does not know the script
    let unknown: RedisResult<(u64, Option<i64>)> = by_hash(&mut plain);
    assert_eq!(unknown.unwrap_err().code(), Some("NOSCRIPT"));

    // when a call has sent the text of the script, then later calls of the same kind need only
    // the hash
    assert_eq!(plain.pass::<i64>(&call), 1);
    assert_eq!(by_hash(&mut plain).unwrap(), (7, Some(2)));
}

#[test]
fn concurrent_writes_leave_the_value_with_the_highest_token() {
    // given tokens in mixed order, each written by a separate client
    let server = Redis::start();
    std::thread::scope(|scope| {
        for first in 0..4_u64 {
            let server = &server;
            scope.spawn(move || {
                let mut plain = Plain::of(server);
                for round in 0..100 {
                    let token = (first + round * 7) % 100 * 4 + first;
                    let call = set(TOTAL, token.to_string(), token);
                    let reply = plain.send::<String>(&call).unwrap();
                    if let Err(stale) = call.read(reply) {
                        assert!(stale.newest() > token, "{stale}");
                    }
                }
            });
        }
    });
    assert_eq!(get(&server, TOTAL), "399");
}

/// If the counter is not raised, receivers reject each new holder until its token is higher than
/// the highest token that they have seen.
#[tokio::test(flavor = "multi_thread")]
async fn raise_token_lifts_a_lost_counter_above_tokens_of_receivers() {
    const COUNTER: &str = "redisson_lock_token:{orders:42}";
    let server = Redis::start();
    let [one, other] = [client(&server).await, client(&server).await];
    let [lock, raiser] = [one, other].map(|client| client.fenced_lock("orders:42").unwrap());
    // given a receiver that has seen a token, and a server that has lost the counter
    let gate = Gate::new();
    assert!(gate.pass("orders:42", 1041).is_ok());
    server.command(&["DEL", COUNTER]);
    let held = lock.acquire().await.unwrap();
    assert!(gate.pass("orders:42", held.token()).is_err());

    // when the counter is raised while the lock is held, then receivers accept the next hold
    assert_eq!(raiser.raise_token(1041).await.unwrap(), 1041);
    assert_eq!((held.token(), held.is_held()), (1, true));
    held.release().await.unwrap().into_result().unwrap();
    let next = lock.acquire().await.unwrap();
    assert_eq!(next.token(), 1042);
    assert!(gate.pass("orders:42", next.token()).is_ok());
    next.release().await.unwrap().into_result().unwrap();

    // and no call lowers the counter, and the counter has no TTL
    assert_eq!(raiser.raise_token(7).await.unwrap(), 1042);
    assert_eq!(server.command(&["PTTL", COUNTER]).number(), -1);
    for odd in ["many", "9007199254740992"] {
        server.command(&["SET", COUNTER, odd]);
        let refused = raiser.raise_token(7).await.unwrap_err();
        assert!(refused.to_string().contains("not a counter of fencing tokens"), "{refused}");
        assert_eq!(get(&server, COUNTER), odd);
    }
}
