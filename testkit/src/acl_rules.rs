//! The permissions of users in a Markdown document.

use crate::program;

/// Returns the rules of each command `ACL SETUSER user …` in a Markdown document. For a server older
/// than Redis 7, leaves out each `%R`, and returns `+memory` instead of `+memory|usage`, as the guide
/// says.
///
/// # Examples
///
/// ```
/// let text = "```console\n$ redis-cli ACL SETUSER app on '>secret' \\\n    '~app:*' +get\n```\n";
/// assert_eq!(testkit::acl_rules_in(text, "app"), [["on", ">secret", "~app:*", "+get"]]);
/// ```
pub fn acl_rules_in<'a>(text: &'a str, user: &str) -> Vec<Vec<&'a str>> {
    let begins = format!("ACL SETUSER {user} ");
    let commands = text.match_indices(&begins).map(|(at, it)| &text[at + it.len()..]);
    let mut commands: Vec<_> = commands.map(rules).collect();
    if program::redis_major() < 7 {
        commands.iter_mut().flatten().for_each(simplify);
    }
    commands
}

fn simplify(rule: &mut &str) {
    *rule = match *rule {
        "+memory|usage" => "+memory",
        other => other.strip_prefix("%R").unwrap_or(other),
    };
}

fn rules(from: &str) -> Vec<&str> {
    let (command, _) = from.split_once("```").unwrap_or((from, ""));
    let words = command.split_whitespace().filter(|word| *word != "\\");
    words.map(|word| word.trim_matches('\'')).collect()
}
