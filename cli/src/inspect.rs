//! `leasehold show` and `leasehold ls`: the objects in Redis.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    io::{self, IsTerminal, Write},
    time::{Duration, SystemTime},
};

use leasehold::{Client, Error, ForcedRelease, Holder, Inspection, Name, NameCursor, ObjectKind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    args::{List, Server, Show},
    exit::{ABSENT, Exit, UNAVAILABLE, on_one_line, say},
    progress::Progress,
    server,
};

/// The number of objects that are read at the same time.
const AT_ONCE: usize = 64;

/// The highest number of holders, and of waiters, that the library reads of one object.
const MOST: usize = 1_000;

pub(crate) async fn show(server: &Server, show: &Show) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    let name = &show.name;
    let found = client.inspect(name).await?;
    let forced = records_of(&client, name).await;
    print(&match show.json {
        true => {
            let absent = || json!({ "name": name, "kind": null });
            let mut json = found.as_ref().map_or_else(absent, as_json);
            json["forced"] = forced.iter().map(record_as_json).collect();
            format!("{json}\n")
        }
        false => {
            let forced = records(&forced, None);
            let forced: String = forced.iter().map(|it| format!("  forced      {it}\n")).collect();
            found.as_ref().map(as_text).unwrap_or_default() + &forced
        }
    })?;
    match found {
        Some(_) => Ok(0),
        None => Err(Exit::new(
            ABSENT,
            format!(
                "show `{name}`: no client holds this name or waits for it, and an empty queue, \
                 map or set has no key; use `leasehold ls` to see all names"
            ),
        )),
    }
}

/// Returns the last releases of `name` by force. If the Redis user may not read the records of
/// these releases, returns an empty list.
async fn records_of(client: &Client, name: &str) -> Vec<ForcedRelease> {
    match client.forced_releases().await {
        Ok(forced) => forced.into_iter().filter(|it| it.name == name).collect(),
        Err(Error::Forbidden { .. }) => vec![],
        Err(error) => {
            say(&format!("show `{name}`: releases by force are not shown: {error}"));
            vec![]
        }
    }
}

/// Returns a line for each release by force of `name`, or of all locks.
pub(crate) fn records(all: &[ForcedRelease], name: Option<&str>) -> Vec<String> {
    let of_name = all.iter().filter(|it| name.is_none_or(|name| it.name == name));
    let line = |it: &ForcedRelease| {
        on_one_line(&format!("{} `{}` of {} by {}", it.time(), it.name, it.owner, it.by))
    };
    of_name.map(line).collect()
}

fn record_as_json(forced: &ForcedRelease) -> Value {
    let at = forced.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    json!({ "at_ms": at as u64, "owner": forced.owner, "by": forced.by })
}

pub(crate) async fn list(server: &Server, list: &List) -> Result<u8, Exit> {
    let mut progress = Progress::new();
    let client = server::connect(server).await?;
    let (mut lines, mut unreadable) = (BTreeMap::new(), 0);
    let ended = read_all(&client, &list.pattern, &mut progress, |name, found| {
        unreadable += usize::from(found.is_err());
        if let Some(line) = line(list, &name, found) {
            lines.insert(name, line);
        }
    })
    .await;
    drop(progress);
    let (count, pattern) = (lines.len(), &list.pattern);
    let columns = !list.json && io::stdout().is_terminal();
    print(&lines_of(lines.into_values().collect(), columns))?;
    let failed = match ended {
        Err(error) => format!("{error}; the list is incomplete"),
        Ok(()) if unreadable > 0 => {
            format!("{unreadable} of {count} objects cannot be read; their lines have the errors")
        }
        Ok(()) => return Ok(0),
    };
    Err(Exit::new(UNAVAILABLE, format!("list `{pattern}`: {failed}")))
}

/// Returns the text of `lines`. If `columns` is set, a person reads the text, so aligned
/// columns replace the tabs.
fn lines_of(lines: Vec<String>, columns: bool) -> String {
    let cells = lines.iter().map(|line| line.split('\t').map(|cell| cell.chars().count()));
    let mut widths = vec![];
    for cells in cells.filter(|_| columns) {
        for (column, width) in cells.enumerate() {
            widths.resize(widths.len().max(column + 1), 0);
            widths[column] = width.max(widths[column]);
        }
    }
    let padded = |line: &String| {
        let cells = line.split('\t').zip(&widths).filter(|(_, width)| **width > 0);
        let padded: Vec<_> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    match columns {
        true => lines.iter().map(padded).collect(),
        false => lines.into_iter().map(|line| line + "\n").collect(),
    }
}

/// Reads all objects whose names match `pattern`, in any order. Stops if Redis does not reply.
pub(crate) async fn read_all(
    client: &Client,
    pattern: &str,
    progress: &mut Progress,
    mut seen: impl FnMut(Name, Result<Option<Inspection>, Error>),
) -> Result<(), Error> {
    let names = names(client, pattern, progress).await?;
    let (all, mut done, mut names) = (names.len(), 0, names.into_iter());
    let mut reads = JoinSet::new();
    loop {
        progress.read(done, all);
        done += 1;
        while reads.len() < AT_ONCE
            && let Some(name) = names.next()
        {
            reads.spawn(read(client.clone(), name));
        }
        match reads.join_next().await {
            None => return Ok(()),
            Some(Ok((_, Err(error @ Error::Unavailable { .. })))) => return Err(error),
            Some(Ok((name, found))) => seen(name, found),
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

/// Returns the names of all objects that match `pattern`.
async fn names(
    client: &Client,
    pattern: &str,
    progress: &mut Progress,
) -> Result<BTreeSet<Name>, Error> {
    let (mut names, mut cursor) = (BTreeSet::new(), NameCursor::default());
    while !cursor.is_done() {
        names.extend(client.next_names(pattern, &mut cursor).await?);
        progress.found(names.len());
    }
    Ok(names)
}

async fn read(client: Client, name: Name) -> (Name, Result<Option<Inspection>, Error>) {
    let found = client.inspect(&name).await;
    (name, found)
}

/// Returns the line of `ls` for a name, or `None` if the object is not listed.
fn line(list: &List, name: &Name, found: Result<Option<Inspection>, Error>) -> Option<String> {
    match found {
        Ok(found) => {
            let found = found.filter(|found| match found.kind {
                ObjectKind::Number => list.numbers,
                _ => list.data || !found.may_be_foreign(),
            })?;
            Some(if list.json { as_json(&found).to_string() } else { as_line(&found) })
        }
        Err(error) if list.json => {
            Some(json!({ "name": name.as_str(), "error": error.to_string() }).to_string())
        }
        Err(error) => Some(format!("{name}\tunreadable: {error}")),
    }
}

/// Writes to stdout. If the reader, such as `head`, closes the pipe, that is not a failure.
pub(crate) fn print(text: &str) -> Result<(), Exit> {
    match write(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Exit::os("write", "stdout", &error)),
    }
}

/// Writes to stdout and flushes it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

pub(crate) fn as_text(found: &Inspection) -> String {
    let mut text = format!("{}: {}\n", found.name, found.kind);
    let mut line = |title: &str, value: &dyn Display| text += &format!("  {title:<12}{value}\n");
    for holder in &found.holders {
        let lease = lease(holder.remaining());
        match found.kind {
            ObjectKind::Queue => line("claimed by", &format!("{}, {lease}", holder.owner())),
            ObjectKind::Barrier => line("inside", &format!("{}, {lease}", holder.owner())),
            _ => line("held by", &format!("{} ×{}, {lease}", holder.owner(), holder.count())),
        }
        if let Some(client) = holder.client() {
            line("", &format!("{client}{}", held_for(holder)));
        }
        if let Some(reason) = holder.reason() {
            line("", &format!("reason {reason:?}"));
        }
    }
    for waiter in &found.waiters {
        let waited = waiter.waited.map(|waited| format!(", for {}", seconds(waited)));
        let overdue = if waiter.is_overdue { ", overdue" } else { "" };
        line("waiter", &format!("{}{}{overdue}", waiter.owner, waited.unwrap_or_default()));
    }
    if found.waiters.len() >= MOST {
        line("waiters", &at_least(found.waiters.len()));
    }
    if !matches!(found.kind, ObjectKind::Map | ObjectKind::Set) {
        line("subscribers", &found.subscribers);
    }
    if let Some(size) = found.size {
        line("size", &size);
    }
    if found.set_aside > 0 {
        line("set aside", &found.set_aside);
    }
    if let Some(collection) = found.key_of() {
        line("key of", &on_one_line(collection));
    }
    if let Some(number) = found.number {
        line(number_title(found.kind), &number);
    }
    if let Some(token) = found.token {
        line("token", &token);
    }
    if let Some(left) = found.next_start_in {
        line("once per", &format!("has started, may start again in {}", short(left)));
    }
    odd(found).iter().for_each(|odd| line("odd", &odd.text));
    text
}

/// Returns the process and the reason of a holder, if its client publishes them.
pub(crate) fn process(holder: &Holder) -> Option<String> {
    let reason = holder.reason().map(|reason| format!(", reason {reason:?}"));
    Some(format!("{}{}", holder.client()?, reason.unwrap_or_default()))
}

/// Returns for how long `holder` has held the object, as its client reports.
fn held_for(holder: &Holder) -> String {
    let since = holder.held_since().and_then(|since| since.elapsed().ok());
    since.map(|held| format!(", for {}", seconds(held))).unwrap_or_default()
}

fn as_line(found: &Inspection) -> String {
    let holders = match found.holders.as_slice() {
        [] => "free".to_owned(),
        [holder] => {
            let process = process(holder).map(|it| format!(" {it}")).unwrap_or_default();
            format!("{}{process}, {}", holder.owner(), lease(holder.remaining()))
        }
        holders => format!("{} holders", at_least(holders.len())),
    };
    let number = found.number.map(|number| format!("{} {number}", number_title(found.kind)));
    let number = number.or_else(|| Some(format!("size {}", found.size?))).unwrap_or_default();
    let next = found.next_start_in.map(|left| format!("may start in {}", short(left)));
    let next = next.unwrap_or_default();
    let odd: Vec<_> = odd(found).iter().map(|odd| odd.text).collect();
    let odd = if odd.is_empty() { String::new() } else { format!("odd: {}", odd.join(", ")) };
    let (name, kind, waiting) = (&found.name, found.kind, waiting(found));
    let waiters = if waiting == "1" { "waiter" } else { "waiters" };
    format!("{name}\t{kind}\t{holders}\t{waiting} {waiters}\t{number}\t{next}\t{odd}")
}

/// Returns what the number of an object of this kind means, as a title.
fn number_title(kind: ObjectKind) -> &'static str {
    if kind == ObjectKind::Barrier { "generation" } else { "number" }
}

fn as_json(found: &Inspection) -> Value {
    let millis = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
    let holders = found.holders.iter().map(|holder| {
        let lease = millis(holder.remaining());
        let client = holder.client().map(|client| {
            let since = holder.held_since();
            let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
            json!({
                "application": client.application, "version": client.version,
                "host": client.host, "pid": client.pid, "held_since_ms": millis(since),
                "reason": holder.reason(),
            })
        });
        let owner = holder.owner().as_str();
        json!({ "owner": owner, "count": holder.count(), "lease_ms": lease, "client": client })
    });
    let waiters = found.waiters.iter().map(|waiter| {
        let waited = millis(waiter.waited);
        json!({ "owner": waiter.owner.as_str(), "waited_ms": waited, "overdue": waiter.is_overdue })
    });
    json!({
        "name": found.name.as_str(),
        "kind": found.kind.to_string(),
        "holders": holders.collect::<Vec<_>>(),
        "waiters": waiters.collect::<Vec<_>>(),
        "subscribers": found.subscribers,
        "waiting": found.waiting(),
        "number": found.number,
        "size": found.size,
        "set_aside": found.set_aside,
        "key_of": found.key_of(),
        "token": found.token,
        "expires_ms": millis(found.expires_in),
        "next_start_ms": millis(found.next_start_in),
        "odd": odd(found).iter().map(|odd| odd.text).collect::<Vec<_>>(),
    })
}

/// A state of an object that an operator should check.
#[derive(Debug)]
pub(crate) struct Odd {
    pub(crate) text: &'static str,
    /// The caller replaces `NAME` by the name of the object. For a queue, the caller replaces
    /// `ASIDE` by the key of the elements that were set aside.
    pub(crate) remedy: &'static str,
}

pub(crate) fn odd(found: &Inspection) -> Vec<Odd> {
    let expires = !matches!(found.kind, ObjectKind::Semaphore | ObjectKind::Number);
    let is_endless = found.holders.iter().any(|holder| holder.remaining().is_none());
    let all = [
        (
            expires && is_endless,
            "hold never expires",
            "if the holder is gone, release the lock: leasehold unlock --force -- NAME",
        ),
        (
            found.is_left_over,
            "nobody holds it, but its key exists",
            "no writer can acquire it before the key expires: delete the key",
        ),
        (
            found.waiters.first().is_some_and(|it| it.is_overdue),
            "the first waiter is overdue",
            "the next request of any waiter removes the overdue one; if no client waits, delete \
             the queue",
        ),
        (
            found.kind == ObjectKind::Queue
                && found.holders.iter().any(|it| it.remaining() == Some(Duration::ZERO)),
            "the lease of a claim is over",
            "the next claim of any client puts the element back",
        ),
        (
            found.set_aside > 0,
            "elements were set aside",
            "a worker could not read these elements, or they are too long; to read them: \
             redis-cli LRANGE ASIDE 0 9; to put the first one back: \
             redis-cli LMOVE ASIDE NAME LEFT RIGHT",
        ),
        (
            found.number.is_some_and(|it| it < 0),
            "the number is below 0",
            "if the number belongs to a semaphore, set it while no client holds a permit",
        ),
    ];
    let found = all.into_iter().filter(|(is_so, ..)| *is_so);
    found.map(|(_, text, remedy)| Odd { text, remedy }).collect()
}

fn lease(remaining: Option<Duration>) -> String {
    match remaining {
        Some(Duration::ZERO) => "lease is over".into(),
        Some(left) => format!("lease ends in {}", seconds(left)),
        None => "lease never ends".into(),
    }
}

/// Returns the number of waiters: the queue entries, or the subscribers if there are more of these.
fn waiting(found: &Inspection) -> String {
    match found.waiting() {
        queued if queued == found.waiters.len() => at_least(queued),
        subscribed => subscribed.to_string(),
    }
}

/// Returns a number of holders or waiters, with a `+` if the object may have more.
fn at_least(count: usize) -> String {
    if count < MOST { count.to_string() } else { format!("{count}+") }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Returns a time in at most seven characters.
pub(crate) fn short(time: Duration) -> String {
    match time.as_secs() {
        ..60 => seconds(time),
        secs @ 60..3_600 => format!("{}m {:02}s", secs / 60, secs % 60),
        secs @ 3_600..86_400 => format!("{}h {:02}m", secs / 3_600, secs / 60 % 60),
        secs => format!("{}d {:02}h", secs / 86_400, secs / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_aligned_columns_only_on_a_terminal() {
        let lines = || vec!["door\tlock\t\tfree".to_owned(), "tür:7\tsemaphore".to_owned()];
        assert_eq!(lines_of(lines(), true), "door   lock       free\ntür:7  semaphore\n");
        assert_eq!(lines_of(lines(), false), "door\tlock\t\tfree\ntür:7\tsemaphore\n");
    }
}
