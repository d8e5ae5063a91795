//! The state of the server, as the page reads it.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::watch::{
    Sample,
    table::{Event, Order, Row},
};

/// The highest number of rows, and of holders and waiters in each row.
const ROWS: usize = 500;
const OWNERS: usize = 20;

pub(super) fn state(sample: &Sample, interval: Duration, may_force: bool) -> Value {
    let mut rows: Vec<_> = sample.rows.iter().collect();
    Order::Trouble.sort(&mut rows);
    let started = sample.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = |time: Duration| millis(started + time);
    let history =
        sample.history.iter().map(|bin| json!([at(bin.at), bin.granted, bin.released, bin.lost]));
    json!({
        "at": at(sample.now),
        "interval_ms": millis(interval),
        "sample_ms": millis(sample.took),
        "pass_ms": sample.pass.map(millis),
        "server": sample.server,
        "error": sample.error,
        "hazards": sample.hazards,
        "may_force": may_force,
        "keys": sample.tally.names,
        "kinds": sample.tally.kinds,
        "held": sample.tally.held,
        "waiting": sample.tally.waiting,
        "odd": sample.tally.odd,
        "lost": sample.lost,
        "grants_per_s": sample.rate(),
        "rows": rows.into_iter().take(ROWS).map(row).collect::<Vec<_>>(),
        "events": sample.events.iter().rev().map(|it| event(it, &at)).collect::<Vec<_>>(),
        "history": history.collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    let holders = row.holders.iter().take(OWNERS).map(|it| {
        let held = millis(row.read_at.saturating_sub(it.since));
        json!({
            "owner": it.owner,
            "process": it.process,
            "lease_ms": it.remaining.map(millis),
            "held_ms": held,
            "exact": it.is_exact,
        })
    });
    let waiters = row.waiters.iter().take(OWNERS).map(|it| {
        json!({
            "owner": it.owner,
            "waited_ms": it.waited.map(millis),
            "overdue": it.is_overdue,
        })
    });
    json!({
        "name": row.name.as_str(),
        "kind": row.kind,
        "held": row.held,
        "holders": holders.collect::<Vec<_>>(),
        "waiting": row.waiting,
        "waiters": waiters.collect::<Vec<_>>(),
        "number": row.number,
        "token": row.token,
        "grants_per_s": row.rate,
        "odd": row.odd,
        "error": row.error,
    })
}

fn event(event: &Event, at: &impl Fn(Duration) -> u64) -> Value {
    json!({
        "at": at(event.at),
        "name": event.name.as_str(),
        "change": event.change.text(),
        "owner": event.owner,
        "held_ms": event.held.map(millis),
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
