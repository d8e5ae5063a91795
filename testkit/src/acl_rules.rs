//! The permissions of users in a Markdown document.

/// Returns the rules of each command `ACL SETUSER user …` in a Markdown document.
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
    commands.map(rules).collect()
}

fn rules(from: &str) -> Vec<&str> {
    let (command, _) = from.split_once("```").unwrap_or((from, ""));
    let words = command.split_whitespace().filter(|word| *word != "\\");
    words.map(|word| word.trim_matches('\'')).collect()
}
