//! The names of keys and channels, as Redisson has them.

use crate::domain::{Claim, Name, Place};

/// Where releases of `name` are announced.
pub(super) fn channel(name: &Name) -> String {
    prefixed("redisson_lock__channel", name)
}

/// Where those who queue for `name` listen, beside the channel of its releases. Who
/// listens there only does not queue.
pub(super) fn queuers(name: &Name) -> String {
    prefixed("leasehold_lock__channel", name)
}

/// Where the queue for `name` lies.
pub(super) fn queue(name: &Name) -> String {
    prefixed("leasehold_lock__queue", name)
}

/// How a place in a queue is written.
pub(super) fn place(claim: &Claim, Place { number, offer }: Place) -> String {
    format!("{}|{number}|{}", claim.owner, offer.as_millis().max(1))
}

/// What the channel of a client begins with.
pub(super) const CLIENTS: &str = "leasehold_client:";

/// Where a client hears what is meant for it alone.
pub(super) fn client(id: &str) -> String {
    format!("{CLIENTS}{id}")
}

/// Redisson's `prefixName`: the name becomes the hash tag unless it has one.
fn prefixed(prefix: &str, name: &Name) -> String {
    let name = name.as_str();
    match name.contains('{') {
        true => format!("{prefix}:{name}"),
        false => format!("{prefix}:{{{name}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_named_as_redisson_names_it() {
        let of = |name| channel(&Name::new(name).unwrap());
        assert_eq!(of("orders:42"), "redisson_lock__channel:{orders:42}");
        assert_eq!(of("{tenant}:orders"), "redisson_lock__channel:{tenant}:orders");
        assert_eq!(of("a b\n"), "redisson_lock__channel:{a b\n}");
    }

    #[test]
    fn a_name_and_its_channel_lie_in_one_slot() {
        for name in ["orders", "{t}:orders", "a{b}c", "a{b}c{d", "{a}}", "{{a}", "ключ"] {
            let name = Name::new(name).unwrap();
            for key in [channel(&name), queuers(&name), queue(&name)] {
                assert_eq!(tag(name.as_str()), tag(&key), "{name}");
            }
        }
    }

    /// What Redis hashes: the text in the first braces unless it is empty.
    fn tag(key: &str) -> &str {
        let Some((_, after)) = key.split_once('{') else { return key };
        match after.split_once('}') {
            Some((tag, _)) if !tag.is_empty() => tag,
            _ => key,
        }
    }
}
