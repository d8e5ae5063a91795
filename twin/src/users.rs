//! The permissions of users for commands, keys and channels: the part of Redis's ACL that the tests
//! use.

use std::collections::BTreeSet;

use super::{
    glob::is_like,
    traits::{self, Traits},
};

/// A user and its permissions.
#[derive(Clone, Debug, Default)]
pub(super) struct User {
    enabled: bool,
    any_password: bool,
    passwords: BTreeSet<String>,
    keys: Vec<Vec<u8>>,
    channels: Vec<Vec<u8>>,
    /// The rules in order. The last rule that fits a command decides.
    commands: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    allowed: bool,
    subject: RuleSubject,
}

#[derive(Clone, Debug)]
enum RuleSubject {
    All,
    /// All commands with one of these traits.
    Category(Traits),
    /// A command with all of its subcommands, or `container|command`.
    Command(String),
}

/// A function that returns whether a command or a container of this name exists.
pub(super) type Exists<'a> = &'a dyn Fn(&str) -> bool;

impl User {
    /// Returns the default user.
    pub(super) fn everybody() -> Self {
        Self {
            enabled: true,
            any_password: true,
            passwords: BTreeSet::new(),
            keys: vec![b"*".to_vec()],
            channels: vec![b"*".to_vec()],
            commands: vec![Rule { allowed: true, subject: RuleSubject::All }],
        }
    }

    /// Changes the permissions as `ACL SETUSER` does, or returns the error.
    pub(super) fn apply(&mut self, rule: &str, exists: Exists<'_>) -> Result<(), &'static str> {
        match rule {
            "on" => self.enabled = true,
            "off" => self.enabled = false,
            "nopass" => self.take_passwords(true),
            "resetpass" => self.take_passwords(false),
            "reset" => *self = Self::default(),
            "resetkeys" => self.keys.clear(),
            "resetchannels" => self.channels.clear(),
            "allkeys" => return self.apply_to("~*", exists),
            "allchannels" => return self.apply_to("&*", exists),
            "allcommands" => return self.permit("@all", true, exists),
            "nocommands" => return self.permit("@all", false, exists),
            _ => return self.apply_to(rule, exists),
        }
        Ok(())
    }

    fn take_passwords(&mut self, any: bool) {
        self.passwords.clear();
        self.any_password = any;
    }

    fn apply_to(&mut self, rule: &str, exists: Exists<'_>) -> Result<(), &'static str> {
        let mut characters = rule.chars();
        let (first, rest) = (characters.next(), characters.as_str());
        match first {
            Some('>') => {
                self.any_password = false;
                self.passwords.insert(rest.into());
            }
            Some('<') if self.passwords.remove(rest) => {}
            Some('<') => {
                return Err("The password you are trying to remove from the user does not exist");
            }
            Some('~') => add(&mut self.keys, rest, KEYS_ARE_ALL)?,
            Some('&') => add(&mut self.channels, rest, CHANNELS_ARE_ALL)?,
            Some('+') => return self.permit(rest, true, exists),
            Some('-') => return self.permit(rest, false, exists),
            _ => return Err("Syntax error"),
        }
        Ok(())
    }

    fn permit(
        &mut self,
        what: &str,
        allowed: bool,
        exists: Exists<'_>,
    ) -> Result<(), &'static str> {
        let what = what.to_lowercase();
        let subject = match what.strip_prefix('@') {
            Some("all") => {
                self.commands.clear();
                RuleSubject::All
            }
            Some(category) => RuleSubject::Category(traits::category(category).ok_or(UNKNOWN)?),
            None if exists(&what) => RuleSubject::Command(what),
            None => return Err(UNKNOWN),
        };
        self.commands.push(Rule { allowed, subject });
        Ok(())
    }

    pub(super) fn admits(&self, password: &str) -> bool {
        self.enabled && (self.any_password || self.passwords.contains(password))
    }

    /// Returns whether this user needs no login.
    pub(super) fn is_open(&self) -> bool {
        self.enabled && self.any_password
    }

    pub(super) fn has_no_password(&self) -> bool {
        self.any_password
    }

    /// Returns whether the user may run the command called `name`, which may be
    /// `container|command`.
    pub(super) fn may_run(&self, name: &str, traits: Traits) -> bool {
        let container = name.split('|').next().unwrap_or(name);
        let fits = |rule: &&Rule| match &rule.subject {
            RuleSubject::All => true,
            RuleSubject::Category(category) => traits & category != 0,
            RuleSubject::Command(command) => command == name || command == container,
        };
        self.commands.iter().rev().find(fits).is_some_and(|rule| rule.allowed)
    }

    pub(super) fn may_touch(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|pattern| is_like(pattern, key))
    }

    pub(super) fn may_receive(&self, channel: &[u8]) -> bool {
        self.channels.iter().any(|pattern| is_like(pattern, channel))
    }
}

/// Adds a pattern. Fails with `all` if the list already contains the pattern for everything.
fn add(patterns: &mut Vec<Vec<u8>>, pattern: &str, all: &'static str) -> Result<(), &'static str> {
    match patterns.iter().any(|known| known == b"*") {
        true if pattern != "*" => Err(all),
        true => Ok(()),
        false => {
            patterns.push(pattern.into());
            Ok(())
        }
    }
}

const KEYS_ARE_ALL: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not \
    valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns";
const CHANNELS_ARE_ALL: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) \
    is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of \
    channels";
const UNKNOWN: &str = "Unknown command or category name in ACL";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traits::{READ, SCRIPTING};

    fn user(rules: &str) -> User {
        let mut user = User::default();
        for rule in rules.split(' ') {
            assert_eq!(user.apply(rule, &|_| true), Ok(()), "{rule}");
        }
        user
    }

    #[test]
    fn last_acl_rule_for_a_command_applies() {
        let user = user("on +@all -@scripting +eval -client +client|setname");
        assert!(user.may_run("get", READ));
        assert!(user.may_run("eval", SCRIPTING));
        assert!(!user.may_run("evalsha", SCRIPTING));
        assert!(!user.may_run("client|id", 0));
        assert!(user.may_run("client|setname", 0));
    }

    #[test]
    fn acl_rules_decide_about_keys_channels_and_passwords() {
        let user = user("on >secret ~a:* &b:*");
        assert!(user.admits("secret") && !user.admits("other") && !user.is_open());
        assert!(user.may_touch(b"a:1") && !user.may_touch(b"b:1"));
        assert!(user.may_receive(b"b:1") && !user.may_receive(b"a:1"));
        assert_eq!(User::default().apply("+nope", &|_| false), Err(UNKNOWN));
        assert_eq!(User::default().apply("foo", &|_| true), Err("Syntax error"));
    }
}
