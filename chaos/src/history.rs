//! The history of a run as a file for the external judge: a line of JSON for each event.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::orders::{Kind, Mode, Object};
use crate::record::{Hold, Record};
use crate::referee::windows;

/// Writes the events of these objects to the file `path`, with the windows in which holds may
/// overlap.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(
    path: &Path,
    (seed, on): (u64, &str),
    (record, objects): (&Record, &[Object]),
    ttl: Duration,
) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    // A latch has no holds. A hold of a multi-lock is recorded as holds of its members.
    let is_held = |it: &&Object| !matches!(it.kind, Kind::Latch | Kind::Multi);
    let held: Vec<_> = objects.iter().filter(is_held).collect();
    let header = json!({ "header": 1, "seed": seed, "on": on, "objects": held });
    let faults = record.faults.iter().filter(|it| !it.failover).map(
        |it| json!({ "op": "fault", "kind": it.fault.word(), "from": it.from, "to": it.healed }),
    );
    let failovers = windows(record, ttl)
        .into_iter()
        .map(|(from, to)| json!({ "op": "fault", "kind": "failover", "from": from, "to": to }));
    let deaths = record
        .deaths
        .iter()
        .map(|(process, at)| json!({ "op": "died", "process": process, "at": at }));
    let writes = record.writes.iter().map(|it| {
        json!({ "op": "write", "name": it.name, "token": it.token, "hold": it.hold,
            "at": it.at, "accepted": it.accepted })
    });
    let holds = record.holds.iter().filter(|(_, it)| it.mode != Mode::Pass);
    let holds = holds.flat_map(|(number, hold)| {
        let multi = objects.iter().find(|it| it.name == hold.name && !it.members.is_empty());
        let names = multi.map_or_else(|| vec![hold.name.clone()], |it| it.members.clone());
        let numbered = (0..).zip(names);
        let of = |(at, name): (u64, String)| operations(number + at * MEMBERS, name, hold);
        numbered.flat_map(of).collect::<Vec<_>>()
    });
    let lines = [header].into_iter().chain(faults).chain(failovers).chain(deaths);
    for line in lines.chain(holds).chain(writes) {
        writeln!(file, "{line}")?;
    }
    file.flush()
}

/// The lines for the start and the end of a hold. A hold that was not granted has no lines.
fn operations(number: u64, name: String, hold: &Hold) -> Vec<Value> {
    let Some(entered) = hold.entered else { return vec![] };
    let mut enter = json!({ "op": "enter", "hold": number, "process": hold.process,
        "name": name, "mode": hold.mode, "call": hold.call, "return": entered });
    if let Some(token) = hold.token {
        enter["token"] = token.into();
    }
    if let Some(element) = &hold.element {
        enter["element"] = element.as_str().into();
    }
    let end = match (hold.leaving, hold.left, hold.lost) {
        (Some(call), Some(answered), _) => {
            Some(json!({ "op": "leave", "hold": number, "call": call, "return": answered,
                "done": hold.done }))
        }
        (leaving, _, lost) => {
            let at = leaving.into_iter().chain(lost).min();
            at.map(|at| json!({ "op": "lost", "hold": number, "at": at }))
        }
    };
    [Some(enter), end].into_iter().flatten().collect()
}

/// In the history, a hold of a multi-lock is one hold of each member. The numbers of these holds
/// have this distance, which is more than the number of holds of any process.
const MEMBERS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::worker_event::WorkerEvent;

    #[test]
    fn history_records_a_multi_lock_as_holds_of_its_members() {
        let mut record = Record::default();
        let (name, mode) = ("both".to_owned(), Mode::Exclusive);
        record.note("rust-1", WorkerEvent::Ask { hold: 7, name, mode, call: 1 });
        record.note("rust-1", WorkerEvent::Enter { hold: 7, at: 2, token: None, element: None });
        record.note("rust-1", WorkerEvent::Leaving { hold: 7, at: 3 });
        record.note("rust-1", WorkerEvent::Left { hold: 7, at: 4 });
        let objects = [Object::multi("both", ["a", "b"].map(str::to_owned))];
        let path = std::env::temp_dir().join(format!("chaos-history-{}", std::process::id()));
        write(&path, (1, "single"), (&record, &objects), Duration::ZERO).unwrap();
        let lines = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let lines = lines.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let enters: Vec<_> = lines.filter(|it| it["op"] == "enter").collect();
        let names: Vec<_> = enters.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_ne!(enters[0]["hold"], enters[1]["hold"]);
    }
}
