//! Fenced writes to data in Redis, sent by your own Redis client.
//!
//! [`set`], [`hset`] and [`delete`] create a [`Call`]: a script, its keys and its arguments, for
//! EVAL or EVALSHA. [`script`] creates a `Call` for any other write. The server executes a `Call`
//! in one step: it compares the token with the newest token that has passed. If the token is older,
//! the server rejects the call. Otherwise the server stores the token and writes the data.
//!
//! ```no_run
//! use leasehold::fence::{self, redis::Call};
//!
//! /// Sends a call with the crate `redis`. Other clients have the same commands.
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
//! call.read(reply)?; // `Stale` if a newer hold has written, so this call wrote nothing
//! # Ok(()) }
//! ```
//!
//! # Where the newest token is stored
//!
//! For data in the key `KEY`, the key `leasehold_fence:{KEY}` has the newest token, in decimal.
//! This second key is called the fence. Its braces are a hash tag, so a cluster keeps both keys in
//! one slot. If `KEY` itself contains a `{`, the fence is `leasehold_fence::KEY`, such as
//! `leasehold_fence::{tenant-7}:total`. If the braces in `KEY` are not a hash tag, the fence is in
//! another slot, and a cluster rejects the call (`CROSSSLOT`).
//!
//! - **The fence stays** when the data is [deleted](delete) or expires. Otherwise a late write
//!   would pass. So each data key that was ever written leaves a small key in Redis. Delete a fence
//!   by hand when no holder of an older token can still run.
//! - The fence stops a late write only if the write uses this module, and a token of the same lock
//!   as other writes. Nothing checks a plain `SET`.
//! - `maxmemory-policy` has to be `noeviction`, as for locks: if Redis evicts the fence, a late
//!   write passes. A late write also passes after a restart or a failover that loses the fence.
//! - The Redis user needs the ACL permissions for `leasehold_fence:*`, `+eval`, `+evalsha`, `+get`,
//!   `+set`, and for the data.
//! - Do not use the key of the lock as the key of the data.
//!
//! # Read, decide, write
//!
//! The server rejects an old token only after a newer token has reached the fence. So if a holder
//! reads the data, decides and then writes, it must also read with a fenced call. Otherwise a late
//! write of an earlier holder may change the data after the read.
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
//! Redis does not roll back. The script stores the token before it writes. So if the write fails
//! half way, the token and the first changes stay. The fence then rejects tokens of earlier holds,
//! and the current holder may write again. If the key has another type than a hash, [`hset`] stores
//! the token and writes nothing. If the fence is not a string with a token, the server returns an
//! error and writes nothing.

use std::fmt;

use super::Stale;

/// A fenced write, which a Redis client sends with EVAL or EVALSHA.
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

/// Methods that return the parts of the command, and read its reply.
impl Call {
    /// Returns the text of the script, for EVAL. Each of the functions [`set`], [`hset`] and
    /// [`delete`] always uses the same text.
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

    /// Returns the SHA-1 hash of the script, for EVALSHA. If the server replies `NOSCRIPT`, send
    /// the text of the script with EVAL.
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

    /// Returns the keys of the data, followed by the key of the fence.
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

    /// Returns the arguments of the write, followed by the token.
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

    /// Returns the reply of the write, unless the server rejected the token.
    ///
    /// The server replies with two elements: the newest token that has passed, and the reply of the
    /// write. The second element is nil if the server rejected the token. So let your client
    /// convert the reply to `(u64, Option<…>)`.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer token has passed. In this case, nothing was written.
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

/// Leaves the written data out, because it may be secret.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Call");
        shown.field("resource", &self.resource()).field("token", &self.token);
        shown.finish_non_exhaustive()
    }
}

/// Creates a call that sets `key` to `value`, by SET. The reply of the write is `OK`.
///
/// SET removes an earlier TTL of the key.
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

/// Creates a call that writes fields of a hash, by HSET. The reply of the write is the number of
/// new fields.
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

/// Creates a call that deletes `key`, by DEL. The reply of the write is 1 if the key existed, and 0
/// otherwise.
///
/// The fence of the key stays.
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

/// Creates a call that runs your own Lua script. The reply of the write is the result of the
/// script.
///
/// In the script, `KEYS` are `keys`, and `ARGV` are `args`.
///
/// All keys share one fence, which belongs to the **first key**. So scripts that write the same
/// data must have the same first key. The text becomes the body of a Lua function, so its local
/// variables are separate from the variables of the fence. Errors have the line numbers of your
/// text.
///
/// If the script fails half way, its first writes and the token stay: see [when a write
/// fails](self#when-a-write-fails).
///
/// # Errors
///
/// [`InvalidScript`] if the text begins with `#!`, or if `keys` is empty.
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

/// Why [`script`] rejects a script.
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
    /// The text begins with `#!`. Redis accepts such a line only at the beginning of a whole
    /// script, and here the text is the body of a function. Remove the line.
    #[error("a script behind a fence must not begin with `#!`; remove that line")]
    Shebang,
    /// The list of keys is empty. The name of the key with the newest token needs the first key.
    #[error(
        "a script behind a fence needs a key: the newest token is stored next to the first \
         key; pass a key"
    )]
    NoKey,
}

/// Creates a script from the function `write` and from `pass.lua`.
///
/// The function comes before `pass.lua`, so it cannot see the local variables of `pass.lua`. Its
/// body begins on the first line of the script, so errors have the line numbers of the caller's
/// text.
fn call(write: &str, mut keys: Vec<Vec<u8>>, mut args: Vec<Vec<u8>>, token: u64) -> Call {
    let pass = include_str!("lua/pass.lua");
    let source = format!("local write = function(KEYS, ARGV) {write}\nend\n{pass}");
    keys.extend(keys.first().map(|key| fence(key)));
    args.push(token.to_string().into_bytes());
    Call { source, keys, args, token }
}

/// Returns the fence of `key`. Both keys are in the same slot of a cluster. No two keys have the
/// same fence.
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
    fn each_data_key_has_a_fence_key_of_its_own() {
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
    fn fenced_call_returns_the_sha1_of_its_script() {
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
    fn debug_output_of_a_fenced_call_hides_the_written_data() {
        let shown = format!("{:?}", set("key", "secret", 7));
        assert_eq!(shown, "Call { resource: \"key\", token: 7, .. }");
    }
}
