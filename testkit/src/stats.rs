//! The commands that the server executed, as the server counts them.
//!
//! The cost of an operation is the number of commands that it makes the server execute. The server
//! counts these commands. In addition to the `evalsha` that runs a script, the server counts the
//! commands that the script calls.

use std::collections::BTreeMap;
use std::fmt;

/// Commands that replicas send to their primary all the time.
const OF_REPLICAS: [&str; 2] = ["psync", "replconf"];

/// How often each command was called, by its name in lower case.
///
/// `Display` prints `evalsha: 1, hset: 1`.
#[derive(Clone, Eq, PartialEq)]
pub struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// Reads the reply of `INFO commandstats`, and subtracts `own` commands.
    pub(crate) fn read(info: &str, own: &BTreeMap<String, u64>) -> Self {
        let mut calls: BTreeMap<_, _> = info.lines().filter_map(read_line).collect();
        calls.retain(|command, _| !OF_REPLICAS.contains(&command.as_str()));
        for (command, count) in own {
            calls.entry(command.clone()).and_modify(|calls| *calls = calls.saturating_sub(*count));
        }
        Self::without_zeros(calls)
    }

    /// The calls since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = |(name, calls): (&String, &u64)| {
            let before = earlier.0.get(name).copied().unwrap_or(0);
            (name.clone(), calls.saturating_sub(before))
        };
        Self::without_zeros(self.0.iter().map(more).collect())
    }

    /// How often `command` was called.
    ///
    /// `config` counts all of its subcommands, and `config|get` counts only `GET`. Before Redis 7,
    /// the server counts subcommands together, so `config|get` also counts all subcommands.
    pub fn of(&self, command: &str) -> u64 {
        let command = command.to_lowercase();
        let container = |name: &str| name.split('|').next().map(str::to_owned);
        let is_meant = |name: &str| {
            name == command
                || container(name).as_ref() == Some(&command)
                || container(&command).as_deref() == Some(name)
        };
        self.0.iter().filter(|(name, _)| is_meant(name)).map(|(_, calls)| calls).sum()
    }

    /// The total number of calls.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The number of calls of each command, by its name.
    pub fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    fn without_zeros(mut calls: BTreeMap<String, u64>) -> Self {
        calls.retain(|_, count| *count > 0);
        Self(calls)
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no calls");
        }
        let shown: Vec<_> = self.0.iter().map(|(name, count)| format!("{name}: {count}")).collect();
        f.write_str(&shown.join(", "))
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Reads a line such as `cmdstat_get:calls=2,usec=9,…`.
fn read_line(line: &str) -> Option<(String, u64)> {
    let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = figures.split_once(',')?;
    Some((name.to_lowercase(), calls.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_difference_names_only_called_commands() {
        let before = calls(&[("get", 2), ("set", 1)]);
        let after = calls(&[("evalsha", 1), ("get", 5), ("set", 1)]);
        assert_eq!(after.since(&before).to_string(), "evalsha: 1, get: 3");
        assert_eq!(after.since(&after).to_string(), "no calls");
    }

    #[test]
    fn command_includes_its_subcommands() {
        let calls = calls(&[("config|get", 2), ("config|set", 1), ("configure", 9)]);
        assert_eq!(calls.of("CONFIG"), 3);
        assert_eq!(calls.of("config|get"), 2);
        assert_eq!(calls.of("get"), 0);
        assert_eq!(calls.of("configure|get"), 9);
    }

    #[test]
    fn commands_of_the_testkit_are_not_counted() {
        let info =
            "# Commandstats\r\ncmdstat_info:calls=3,usec=1\r\ncmdstat_auth:calls=2,usec=1\r\n";
        let own = BTreeMap::from([("info".into(), 2), ("auth".into(), 2)]);
        assert_eq!(Calls::read(info, &own).to_string(), "info: 1");
    }

    fn calls(counts: &[(&str, u64)]) -> Calls {
        Calls(counts.iter().map(|(name, count)| ((*name).into(), *count)).collect())
    }
}
