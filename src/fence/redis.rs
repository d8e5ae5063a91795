//! Fenced writes to a Redis that holds your data, sent by the client that you have.
//!
//! [`set`], [`hset`] and [`delete`], and [`script`] for everything else, make a [`Call`]: a text,
//! keys and arguments for EVAL or EVALSHA. In one step the server compares the token with the
//! newest one that has passed, refuses an older one, stores this one, and writes.
//!
//! ```no_run
//! use leasehold::fence::{self, redis::Call};
//!
//! /// Sends a call by the crate `redis`. Another client does it in the same way.
//! fn send<T: redis::FromRedisValue>(
//!     redis: &mut redis::Connection,
//!     call: &Call,
//! ) -> redis::RedisResult<T> {
//!     let command = |name: &str, script: &str| {
//!         let mut command = redis::cmd(name);
//!         command.arg(script).arg(call.keys().len()).arg(call.keys()).arg(call.args());
//!         command
//!     };
//!     match command("EVALSHA", &call.sha1()).query(redis) {
//!         Err(error) if error.code() == Some("NOSCRIPT") => {
//!             command("EVAL", call.source()).query(redis)
//!         }
//!         sent => sent,
//!     }
//! }
//!
//! # async fn demo(client: leasehold::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let mut redis = redis::Client::open("redis://127.0.0.1/")?.get_connection()?;
//! let guard = client.fenced_lock("orders:42")?.acquire().await?;
//!
//! let call = fence::redis::set("orders:42:total", "15", guard.token());
//! let reply: (u64, Option<String>) = send(&mut redis, &call)?;
//! call.read(reply)?; // or `Stale`: a newer hold has written, and this one nothing
//! # Ok(()) }
//! ```
//!
//! # Where the newest token is stored
//!
//! The key `leasehold_fence:{KEY}` has the token in decimal, for the data's `KEY`, so that both are
//! in one slot of a cluster. A key that contains a `{` follows a second colon without braces:
//! `leasehold_fence::{tenant-7}:total`. If its braces are not a hash tag, its fence is in another
//! slot, and a cluster rejects the call (`CROSSSLOT`).
//!
//! - **It stays**, also after a [`delete`] and after the data's TTL. Otherwise a late write would
//!   pass. This costs a small key for each key that was ever written. Delete it by hand when no
//!   holder of an older token can be left.
//! - It only protects against writes by this module, with tokens of one lock. A plain `SET` passes.
//! - `maxmemory-policy` has to be `noeviction`, as for locks: without its fence, a late write
//!   passes. The same holds after a restart or a failover that loses both keys.
//! - The user needs the ACL permissions for `leasehold_fence:*`, `+eval`, `+evalsha`, `+get`,
//!   `+set`, and for the data.
//! - Do not write to the key of the lock itself.
//!
//! # Read, decide, write
//!
//! A late write is rejected only after a newer token has reached the fence. So if a hold reads,
//! decides and then writes, it must also read by a fenced call. Otherwise a late write may come in
//! between.
//!
//! ```
//! use leasehold::fence::redis::script;
//! # let token = 7;
//! let text = "return redis.call('GET', KEYS[1])";
//! let read = script(text, ["orders:42:total"], [""; 0], token)?;
//! # Ok::<(), leasehold::fence::redis::InvalidScript>(())
//! ```
//!
//! # When a write fails
//!
//! Redis does not roll back. The token is stored before the write, so after a write that fails half
//! way, the token and the first changes stay. Older holds are still rejected, and this one may
//! write again. [`hset`] on a key of another type stores the token and writes nothing. If the fence
//! itself has another type or holds no token, the server returns an error, and nothing is written.

use std::fmt;

use super::Stale;

/// A fenced write, to send by EVAL or EVALSHA.
///
/// # Examples
///
/// ```
/// let call = leasehold::fence::redis::set("orders:42:total", "15", 7);
/// assert_eq!(call.keys(), ["orders:42:total".as_bytes(), b"leasehold_fence:{orders:42:total}"]);
/// assert_eq!(call.args(), [b"15".as_slice(), b"7"]);
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until a client sends it"]
pub struct Call {
    source: String,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    token: u64,
}

/// Methods that return the parts to send.
impl Call {
    /// The text of the script, for EVAL. It is the same for all calls of one kind.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::fence::redis::delete;
    /// assert_eq!(delete("a", 1).source(), delete("b", 2).source());
    /// ```
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The hash of the text, for EVALSHA. A server that does not know it says `NOSCRIPT`; then
    /// send the text.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::fence::redis::delete("a", 1).sha1().len(), 40);
    /// ```
    #[must_use]
    pub fn sha1(&self) -> String {
        sha1_smol::Sha1::from(&self.source).digest().to_string()
    }

    /// The keys of the data, then the key of the fence.
    ///
    /// # Examples
    ///
    /// ```
    /// let call = leasehold::fence::redis::delete("{tenant-7}:total", 1);
    /// assert_eq!(call.keys()[1], b"leasehold_fence::{tenant-7}:total");
    /// ```
    #[must_use]
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// The arguments of the write, then the token.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(leasehold::fence::redis::delete("a", 7).args(), [b"7"]);
    /// ```
    #[must_use]
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Reads the reply: two elements, the newest token that has passed and what the write
    /// replied, which is nil if the write was refused. So let the client make an
    /// `(u64, Option<…>)` of it.
    ///
    /// # Errors
    ///
    /// [`Stale`] if the token that has passed is another one: nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// let call = leasehold::fence::redis::delete("orders:42:total", 7);
    /// assert_eq!(call.read((7, Some(1))), Ok(Some(1)));
    /// assert_eq!(call.read((8, None::<u32>)).unwrap_err().newest(), 8);
    /// ```
    pub fn read<T>(&self, (newest, reply): (u64, T)) -> Result<T, Stale> {
        if newest == self.token {
            return Ok(reply);
        }
        Err(Stale { resource: self.resource(), token: self.token, newest })
    }

    fn resource(&self) -> String {
        let key = self.keys.first().map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(key).into_owned()
    }
}

/// Does not print the written data.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Call");
        shown.field("resource", &self.resource()).field("token", &self.token);
        shown.finish_non_exhaustive()
    }
}

/// SET of a value, of any length. Replies `OK`. An earlier TTL of the key is removed.
///
/// # Examples
///
/// ```
/// let call = leasehold::fence::redis::set("orders:42:total", 15.to_string(), 7);
/// let passed: Option<String> = call.read((7, Some("OK".into())))?;
/// # Ok::<(), leasehold::fence::Stale>(())
/// ```
pub fn set(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, token: u64) -> Call {
    call(include_str!("lua/set.lua"), vec![bytes(key)], vec![bytes(value)], token)
}

/// HSET of fields and their values. Replies how many fields were not there before.
///
/// # Examples
///
/// ```
/// let fields = [("total", "15"), ("state", "paid")];
/// let call = leasehold::fence::redis::hset("order-42", fields, 7);
/// assert_eq!(call.args()[..2], [b"total".as_slice(), b"15"]);
/// ```
pub fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
    key: impl AsRef<[u8]>,
    fields: impl IntoIterator<Item = (F, V)>,
    token: u64,
) -> Call {
    let fields = fields.into_iter().flat_map(|(field, value)| [bytes(field), bytes(value)]);
    call(include_str!("lua/hset.lua"), vec![bytes(key)], fields.collect(), token)
}

/// DEL of a key. Replies 1 if it existed, and 0 otherwise. Its fence stays.
///
/// # Examples
///
/// ```
/// let call = leasehold::fence::redis::delete("orders:42:total", 7);
/// assert_eq!(call.read((9, None::<u32>)).unwrap_err().resource(), "orders:42:total");
/// ```
pub fn delete(key: impl AsRef<[u8]>, token: u64) -> Call {
    call(include_str!("lua/delete.lua"), vec![bytes(key)], vec![], token)
}

/// A script of your own in Lua, with `KEYS` and `ARGV` as you give them. Replies what the script
/// returns.
///
/// The newest token is stored next to the **first key**, for all keys. So scripts that write the
/// same data must have the same first key. The text becomes the body of a function of `KEYS` and
/// `ARGV`: its local variables are its own, and errors name its lines as you count them.
///
/// A script that fails half way leaves what it has written, and the token: see
/// [above](self#when-a-write-fails).
///
/// # Errors
///
/// [`InvalidScript`] if the text begins with `#!`, or if there is no key.
///
/// # Examples
///
/// ```
/// use leasehold::fence::redis::script;
/// # fn demo() -> Result<(), leasehold::fence::redis::InvalidScript> {
/// let text = "return redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])";
/// let call = script(text, ["orders:42:total"], ["15", "3600"], 7)?;
/// # Ok(()) }
/// # demo().unwrap();
/// ```
pub fn script<K: AsRef<[u8]>, A: AsRef<[u8]>>(
    text: &str,
    keys: impl IntoIterator<Item = K>,
    args: impl IntoIterator<Item = A>,
    token: u64,
) -> Result<Call, InvalidScript> {
    let keys: Vec<_> = keys.into_iter().map(bytes).collect();
    if text.starts_with("#!") {
        return Err(InvalidScript::Shebang);
    }
    if keys.is_empty() {
        return Err(InvalidScript::NoKey);
    }
    Ok(call(text, keys, args.into_iter().map(bytes).collect(), token))
}

/// Why a script cannot be fenced.
///
/// # Examples
///
/// ```
/// use leasehold::fence::redis::{InvalidScript, script};
/// let refused = script("#!lua flags=no-writes\n", ["a"], [""; 0], 7).unwrap_err();
/// assert_eq!(refused, InvalidScript::Shebang);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScript {
    /// It begins with `#!`, which only a whole script may. Leave that line out, because its flags
    /// would not apply to the fence.
    #[error("a script behind a fence must not begin with `#!`; remove that line")]
    Shebang,
    /// It has no key next to which the newest token could be stored.
    #[error(
        "a script behind a fence needs a key: the newest token is stored next to the first \
         key; pass a key"
    )]
    NoKey,
}

/// Puts the write first, so that it sees no local variable of `pass.lua`, and on the first line, so
/// that its lines keep their numbers.
fn call(write: &str, mut keys: Vec<Vec<u8>>, mut args: Vec<Vec<u8>>, token: u64) -> Call {
    let pass = include_str!("lua/pass.lua");
    let source = format!("local write = function(KEYS, ARGV) {write}\nend\n{pass}");
    keys.extend(keys.first().map(|key| fence(key)));
    args.push(token.to_string().into_bytes());
    Call { source, keys, args, token }
}

/// Returns the key of the newest token of `key`: in the same slot, and different for each key.
fn fence(key: &[u8]) -> Vec<u8> {
    match key.contains(&b'{') {
        true => [b"leasehold_fence::", key].concat(),
        false => [b"leasehold_fence:{", key, b"}"].concat(),
    }
}

fn bytes(text: impl AsRef<[u8]>) -> Vec<u8> {
    text.as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_fence() {
        for (key, expected) in [
            ("orders", "leasehold_fence:{orders}"),
            ("{orders}", "leasehold_fence::{orders}"),
            (":{orders}", "leasehold_fence:::{orders}"),
            ("{t}:orders", "leasehold_fence::{t}:orders"),
            ("a b\n", "leasehold_fence:{a b\n}"),
        ] {
            assert_eq!(fence(key.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn sha1_is_that_of_the_script() {
        let call = Call { source: "return 1".into(), keys: vec![], args: vec![], token: 1 };
        assert_eq!(call.sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn keys_and_arguments_may_be_any_bytes() {
        let call = set([0, 255], [255, 0], u64::MAX);
        assert_eq!(call.keys()[1], b"leasehold_fence:{\0\xff}");
        assert_eq!(call.args(), [&[255, 0], b"18446744073709551615".as_slice()]);
    }

    #[test]
    fn invalid_fenced_script_is_refused_with_a_remedy() {
        let none = [""; 0];
        assert_eq!(script("#!lua\n", ["a"], none, 1).unwrap_err(), InvalidScript::Shebang);
        assert_eq!(script("return 1", none, none, 1).unwrap_err(), InvalidScript::NoKey);
        assert!(InvalidScript::Shebang.to_string().contains("remove that line"));
    }

    #[test]
    fn debug_of_a_call_hides_the_written_data() {
        let shown = format!("{:?}", set("key", "secret", 7));
        assert_eq!(shown, "Call { resource: \"key\", token: 7, .. }");
    }
}
