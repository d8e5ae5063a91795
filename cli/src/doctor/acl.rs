//! Which permissions for locks a user lacks, and the command that grants them.
//!
//! The required permissions are read from the ACL page of the guide, so there is only one list of
//! permissions. The client sends `ACL DRYRUN` to each server. `ACL DRYRUN` checks whether a user
//! may call another command, without executing that command.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::{Client, ObjectKind, ServerReport};

use super::{Finding, Severity, checks::is_cluster};
use crate::{args::Doctor, exit::Exit};

const PAGE: &str = include_str!("../../../docs/guide/acl.md");

/// The highest number of words in a checked command. No command for locks needs more words.
const MOST_WORDS: usize = 8;

/// The pattern of names in the example rules of `PAGE`.
const EXAMPLE: &str = "app:*";

pub(super) async fn check(
    client: &Client,
    doctor: &Doctor,
    reports: &[ServerReport],
) -> Result<Vec<Finding>, Exit> {
    let own = reports.iter().find_map(|report| report.user.clone());
    let Some(user) = doctor.user.clone().or(own) else {
        return Ok(vec![unchecked("the user is unknown")]);
    };
    if let Some(reason) = why_unchecked(client, &user).await? {
        return Ok(vec![unchecked(&reason)]);
    }
    let mut missing = BTreeMap::<String, BTreeSet<String>>::new();
    for rule in rules(reports.iter().any(is_cluster)) {
        let Some((rule, calls)) = calls(rule, doctor.name.as_deref()) else { continue };
        for server in denying(client, &user, &rule, &calls).await? {
            missing.entry(server).or_default().insert(rule.clone());
        }
    }
    if missing.is_empty() {
        let text = format!("{user} has all permissions for locks");
        return Ok(vec![Finding::new(Severity::Note, "acl", &user, text)]);
    }
    Ok(missing.iter().map(|(server, rules)| lacking(&user, server, rules)).collect())
}

/// Returns a note that permissions are not checked, because the object is not a lock.
pub(super) fn not_for(name: &str, kind: ObjectKind) -> Finding {
    let text = format!("permissions are checked only for locks, not for this {kind}");
    Finding::new(Severity::Note, "acl", name, text).remedy("see docs/guide/acl.md")
}

fn unchecked(reason: &str) -> Finding {
    let text = format!("permissions cannot be checked: {reason}");
    Finding::new(Severity::Note, "acl", "locks", text)
        .remedy("run doctor as an administrator of Redis 7 or newer, with --user")
}

fn lacking(user: &str, server: &str, rules: &BTreeSet<String>) -> Finding {
    let rules: Vec<_> = rules.iter().map(|rule| format!("'{rule}'")).collect();
    let text = format!("{user} lacks {} of the permissions for locks", rules.len());
    let line = format!("grant them: ACL SETUSER {user} {}", rules.join(" "));
    Finding::new(Severity::Error, "acl", server, text).remedy(line)
}

/// Returns why permissions cannot be checked, or `None` if they can be checked.
async fn why_unchecked(client: &Client, user: &str) -> Result<Option<String>, Exit> {
    let replies = client.dry_run(user, &["ping"]).await?;
    Ok(replies.into_values().find(|reply| reply != "OK" && !is_denial(reply)))
}

/// Returns whether `reply` denies a permission of the user. A denial of `ACL DRYRUN` itself does
/// not count.
fn is_denial(reply: &str) -> bool {
    reply.contains("no permissions to") && !reply.contains("'acl|dryrun'")
}

/// Returns the rules for locks on the page of the guide.
fn rules(is_cluster: bool) -> impl Iterator<Item = &'static str> {
    let of = |heading: &str| {
        let section = PAGE.split_once(heading).map_or("", |(_, rest)| rest);
        let command = section.split_once("ACL SETUSER").map_or("", |(_, rest)| rest);
        let command = command.split("```").next().unwrap_or_default();
        command.split_whitespace().map(|word| word.trim_matches('\''))
    };
    let cluster = of("\n## Cluster\n").filter(move |_| is_cluster);
    of("\n## Locks\n").chain(cluster).filter(|word| word.starts_with(['+', '~', '&']))
}

/// Returns `rule` for `name`, and calls that need this rule. In a rule about keys or channels, the
/// key or the channel of `name` replaces the example. Without a name, returns `None` for such a
/// rule. A rule about a command does not change. The function `denying` chooses the call that is
/// checked.
fn calls(rule: &str, name: Option<&str>) -> Option<(String, Vec<Vec<String>>)> {
    let (kind, pattern) = rule.split_at(1);
    if kind == "+" {
        let words = pattern.split('|').map(str::to_owned).collect();
        return Some((rule.to_owned(), vec![words]));
    }
    let key = key(pattern, name?);
    let verbs = if kind == "~" {
        &["pexpire", "set", "del", "hset"][..]
    } else {
        &["publish", "subscribe"]
    };
    let calls = verbs.iter().map(|verb| vec![(*verb).to_owned(), key.clone()]);
    Some((format!("{kind}{key}"), calls.collect()))
}

/// Returns the key or the channel of `name` that corresponds to `pattern` on the page.
fn key(pattern: &str, name: &str) -> String {
    let closed = pattern.contains('{');
    match (pattern.strip_suffix(&format!("{{{EXAMPLE}")), name.contains('{')) {
        (Some(prefix), true) if prefix.starts_with("leasehold_") => format!("{prefix}:{name}"),
        (Some(prefix), true) => format!("{prefix}{name}"),
        _ => pattern.replace(EXAMPLE, name) + if closed { "}" } else { "" },
    }
}

/// Returns the servers that deny the rule. Each server checks only the first of `calls` whose
/// command the user may run. If the user may run none of the commands, the server also denies the
/// rule.
async fn denying(
    client: &Client,
    user: &str,
    rule: &str,
    calls: &[Vec<String>],
) -> Result<BTreeSet<String>, Exit> {
    // A rule that starts with `+` is about a command. The key in the call is arbitrary, so a denied
    // key does not count.
    let counts = !rule.starts_with('+');
    let mut open = None;
    let mut denying = BTreeSet::new();
    for call in calls {
        let replies = dry_run(client, user, call).await?;
        let servers = open.get_or_insert_with(|| replies.keys().cloned().collect::<BTreeSet<_>>());
        for (server, reply) in &replies {
            if !reply.contains("to run the '")
                && servers.remove(server)
                && counts
                && is_denial(reply)
            {
                denying.insert(server.clone());
            }
        }
    }
    denying.extend(open.unwrap_or_default());
    Ok(denying)
}

/// Sends `ACL DRYRUN` to each server. A server does not check a command with too few arguments, so
/// this function adds arguments until there are enough.
async fn dry_run(
    client: &Client,
    user: &str,
    call: &[String],
) -> Result<BTreeMap<String, String>, Exit> {
    let mut words: Vec<_> = call.iter().map(String::as_str).collect();
    loop {
        let replies = client.dry_run(user, &words).await?;
        let lacks_some = replies.values().any(|it| it.contains("wrong number of arguments"));
        if !lacks_some || words.len() == MOST_WORDS {
            return Ok(replies);
        }
        words.push("0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acl_rules_match_the_rules_in_the_guide() {
        let single: Vec<_> = rules(false).collect();
        for rule in ["~app:*", "&redisson_lock__channel:{app:*", "+evalsha", "+pubsub|numsub"] {
            assert!(single.contains(&rule), "{rule}");
        }
        assert!(!single.contains(&"+cluster|slots"));
        assert!(rules(true).any(|rule| rule == "+cluster|slots"));
    }

    #[test]
    fn acl_patterns_expand_to_the_keys_of_a_name() {
        let queue = "leasehold_lock__queue:{app:*";
        assert_eq!(key("app:*", "orders"), "orders");
        assert_eq!(key(queue, "orders"), "leasehold_lock__queue:{orders}");
        assert_eq!(key(queue, "{7}:orders"), "leasehold_lock__queue::{7}:orders");
        let channel = "redisson_lock__channel:{app:*";
        assert_eq!(key(channel, "{7}:orders"), "redisson_lock__channel:{7}:orders");
    }

    #[test]
    fn denied_acl_dryrun_does_not_count_as_a_denied_command() {
        assert!(is_denial("User app has no permissions to run the 'hset' command"));
        assert!(!is_denial("NOPERM User app has no permissions to run the 'acl|dryrun' command"));
        assert!(!is_denial("OK"));
    }
}
