//! The history of a run as a file for the external judge: a line of JSON for each event.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::orders::{Kind, Mode, Object};
use crate::record::{Hold, Record};
use crate::referee::windows;

/// Writes the events of these objects.
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
    // A latch has no holds.
    let held: Vec<_> = objects.iter().filter(|it| it.kind != Kind::Latch).collect();
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
    let holds = holds.flat_map(|(number, hold)| operations(*number, hold));
    let lines = [header].into_iter().chain(faults).chain(failovers).chain(deaths);
    for line in lines.chain(holds).chain(writes) {
        writeln!(file, "{line}")?;
    }
    file.flush()
}

/// The start and the end of a hold, if there was a grant.
fn operations(number: u64, hold: &Hold) -> Vec<Value> {
    let Some(entered) = hold.entered else { return vec![] };
    let mut enter = json!({ "op": "enter", "hold": number, "process": hold.process,
        "name": hold.name, "mode": hold.mode, "call": hold.call, "return": entered });
    if let Some(token) = hold.token {
        enter["token"] = token.into();
    }
    let end = match (hold.leaving, hold.left, hold.lost) {
        (Some(call), Some(answered), _) => {
            Some(json!({ "op": "leave", "hold": number, "call": call, "return": answered }))
        }
        (leaving, _, lost) => {
            let at = leaving.into_iter().chain(lost).min();
            at.map(|at| json!({ "op": "lost", "hold": number, "at": at }))
        }
    };
    [Some(enter), end].into_iter().flatten().collect()
}
