//! `leasehold doctor`: checks a deployment, and prints findings with their remedies.
//!
//! `checks.rs` judges what the servers report, and `acl.rs` judges the permissions. This file
//! judges the rest: the health of the client, the latency, a trial lock, and the objects.

mod acl;
mod checks;

use std::{cmp::Reverse, time::Duration};

use leasehold::{Client, Error, Health, Inspection, Name, ObjectKind};
use serde_json::{Value, json};

use crate::{
    args::{Doctor, Server},
    exit::{Exit, is_hidden, on_one_line},
    inspect::{odd, print, read_all, records},
    progress::Progress,
    server,
};

/// The number of round trips that are measured.
const ROUND_TRIPS: usize = 10;

/// How bad a finding is. The worst finding decides the exit code.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Severity {
    Note,
    Warning,
    Error,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Debug)]
struct Finding {
    severity: Severity,
    check: &'static str,
    /// The server or the object.
    subject: String,
    text: String,
    remedy: Option<String>,
}

impl Finding {
    fn new(
        severity: Severity,
        check: &'static str,
        subject: &str,
        text: impl Into<String>,
    ) -> Self {
        Self { severity, check, subject: subject.into(), text: text.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn as_line(&self) -> String {
        let Self { severity, check, subject, text, remedy } = self;
        let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let line = format!("{:<8}{check:<13}{subject}: {text}{remedy}", severity.text());
        on_one_line(&line) + "\n"
    }

    fn as_json(&self) -> Value {
        let Self { severity, check, subject, text, remedy } = self;
        let severity = severity.text();
        json!({ "severity": severity, "check": check, "subject": subject, "text": text, "remedy": remedy })
    }
}

pub(crate) async fn doctor(server: &Server, doctor: &Doctor) -> Result<u8, Exit> {
    let client = server::connect(server).await?;
    let reports = client.server_reports().await?;
    let name = doctor.name.as_deref();
    let named = match name {
        Some(name) => Some((name, client.inspect(name).await)),
        None => None,
    };
    let other =
        named.as_ref().and_then(|(_, found)| other_than_lock(found.as_ref().ok()?.as_ref()?));
    let mut findings: Vec<Finding> = reports.iter().flat_map(checks::of_report).collect();
    let (health, round_trips) = measure(&client).await;
    findings.extend(checks::of_health(&health, &reports));
    findings.extend(checks::of_latency(&round_trips, doctor.ttl));
    findings.extend(checks::of_clients(&reports));
    findings.push(trial(&client, name, other).await);
    match (name, other) {
        (Some(name), Some(kind)) => findings.push(acl::not_for(name, kind)),
        _ => findings.extend(acl::check(&client, doctor, &reports).await?),
    }
    findings.extend(objects(&client, named).await);
    findings.extend(forced(&client, name).await);
    // The sort is stable, so each severity keeps the order of the checks.
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let worst = findings.iter().map(|it| it.severity).max().unwrap_or(Severity::Note);
    print(&match doctor.json {
        true => {
            let all: Vec<_> = findings.iter().map(Finding::as_json).collect();
            format!("{}\n", json!({ "worst": worst.text(), "findings": all }))
        }
        false => findings.iter().map(Finding::as_line).collect(),
    })?;
    Ok(worst as u8)
}

/// Returns the kind of an object that is not a lock. Users of such an object do not need the
/// permissions for locks.
fn other_than_lock(found: &Inspection) -> Option<ObjectKind> {
    use ObjectKind::{FairLock, Lock, ReadLock, WriteLock};
    let is_lock = matches!(found.kind, Lock | FairLock | ReadLock | WriteLock);
    (!is_lock).then_some(found.kind)
}

async fn measure(client: &Client) -> (Health, Vec<Duration>) {
    let mut health = client.health().await;
    let mut round_trips = vec![];
    for _ in 0..ROUND_TRIPS {
        health = client.health().await;
        round_trips.extend(health.round_trip);
    }
    round_trips.sort_unstable();
    (health, round_trips)
}

/// Acquires and releases a lock. This shows whether the user of the client may load and run the
/// scripts of locks. If the checked object is not a lock, `other` is its kind, and its users do not
/// need these permissions.
async fn trial(client: &Client, name: Option<&str>, other: Option<ObjectKind>) -> Finding {
    let name = name.map_or_else(String::new, |name| format!("{name}:")) + "leasehold-doctor";
    let tried = async {
        match client.lock(&name)?.try_acquire().await? {
            Some(guard) => guard.release().await?.into_result().map(|()| true),
            None => Ok(false),
        }
    };
    match tried.await {
        Ok(true) => Finding::new(Severity::Note, "lock", &name, "acquired and released"),
        Ok(false) => {
            Finding::new(Severity::Warning, "lock", &name, "not acquired: another client holds it")
                .remedy("run doctor again when this lock is free")
        }
        Err(error) => {
            let is_needed = other.is_none() || !matches!(error, Error::Forbidden { .. });
            let severity = if is_needed { Severity::Error } else { Severity::Note };
            Finding::new(severity, "lock", &name, error.to_string())
        }
    }
}

/// Returns the last releases by force of one object, or of all objects.
async fn forced(client: &Client, name: Option<&str>) -> Vec<Finding> {
    let note = |text| Finding::new(Severity::Note, "forced", name.unwrap_or("*"), text);
    match client.forced_releases().await {
        Ok(forced) => records(&forced, name).into_iter().map(note).collect(),
        Err(error) => vec![note(error.to_string())],
    }
}

/// Returns findings about the odd states of the `named` object. Without a name, checks all objects
/// except those that may belong to another program.
async fn objects(
    client: &Client,
    named: Option<(&str, Result<Option<Inspection>, Error>)>,
) -> Vec<Finding> {
    let name = named.as_ref().map(|(name, _)| *name);
    let (mut count, mut findings) = (0, vec![]);
    let mut look = |of: &str, found: Result<Option<Inspection>, Error>| match found {
        Ok(None) => {}
        Ok(Some(found)) if found.may_be_foreign() && name.is_none() => {}
        Ok(Some(found)) => {
            count += 1;
            findings.extend(odd(&found).into_iter().map(|odd| {
                let remedy = filled(odd.remedy, of);
                Finding::new(Severity::Warning, "objects", of, odd.text).remedy(remedy)
            }));
        }
        Err(error) => {
            findings.push(Finding::new(Severity::Warning, "objects", of, error.to_string()));
        }
    };
    match named {
        Some((name, found)) => look(name, found),
        None => {
            let mut progress = Progress::new();
            let seen = |name: Name, found| look(name.as_str(), found);
            let ended = read_all(client, "*", &mut progress, seen).await;
            ended.unwrap_or_else(|error| look("*", Err(error)));
        }
    }
    findings.sort_by(|one, other| one.subject.cmp(&other.subject));
    let counted = |number: usize, noun: &str| match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    };
    let text = format!("{} read, {}", counted(count, "object"), counted(findings.len(), "finding"));
    findings.insert(0, Finding::new(Severity::Note, "objects", name.unwrap_or("*"), text));
    findings
}

/// Replaces `NAME` in `remedy` by the name, and `ASIDE` by the key of the elements that were set
/// aside. `store/redis/keys.rs` builds this key in the same way.
fn filled(remedy: &str, name: &str) -> String {
    let aside = match name.contains('{') {
        true => format!("leasehold_queue__aside::{name}"),
        false => format!("leasehold_queue__aside:{{{name}}}"),
    };
    // The name may contain `ASIDE`, and the key may contain `NAME`. So the inserted texts are not
    // searched again.
    let parts = remedy.split("ASIDE").map(|part| part.replace("NAME", &quoted(name)));
    parts.collect::<Vec<_>>().join(&quoted(&aside))
}

/// Returns `name` as one word of a bash command line.
fn quoted(name: &str) -> String {
    let escaped = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_hidden(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    match name {
        it if it.contains(is_hidden) => {
            format!("$'{}'", name.chars().map(escaped).collect::<String>())
        }
        it if it.contains(|c: char| !c.is_alphanumeric() && !"%+,-./:=@_".contains(c)) => {
            format!("'{}'", name.replace('\'', r"'\''"))
        }
        plain => plain.to_owned(),
    }
}
