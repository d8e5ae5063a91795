//! Records counters, gauges and histograms through the facade crate `metrics`.
//!
//! Install a recorder, such as `metrics-exporter-prometheus`, **before the first client**, because
//! each new client describes the metrics to the recorder. Without a recorder, the library records
//! nothing.
//!
//! The names follow OpenTelemetry. An exporter for Prometheus turns `leasehold.acquire.duration`
//! into `leasehold_acquire_duration_seconds`, and `leasehold.losses` into `leasehold_losses_total`.
//! [`Stats::prometheus`](crate::Stats::prometheus) uses the same names, and works without this
//! feature.
//!
//! | attribute | value |
//! |---|---|
//! | `leasehold.kind` | `lock`, `fenced`, `fair`, `read`, `write`, `permits`, `semaphore`, `latch`, `election`, `barrier`, `double_barrier`, `queue` |
//! | `leasehold.lock` | the text from the function that [`label_locks`] sets; never the name itself, because a process may use any number of names |
//! | `outcome`, `reason` | see each metric |
//! | `error.type` | the cause of a failure: `unavailable`, `forbidden`, `not_ready`, `shut_down`, `unanswered`, `unreachable`, `refused`, or `_OTHER` |
//!
//! # Examples
//!
//! ```
//! use leasehold::metrics::BUCKETS;
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
//! for (name, buckets) in BUCKETS {
//!     exporter = exporter.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
//! }
//! let page = exporter.install_recorder()?;
//! let client = leasehold::Client::in_memory();
//! assert!(!page.render().contains("leasehold_hold_active"), "there was no hold yet");
//! # Ok(()) }
//! ```

use std::{future::Future, sync::OnceLock, time::Duration};

use ::metrics::{Label, Unit, counter, gauge, histogram};
use tokio::time::Instant;

use crate::{
    domain::{Claim, Ended, Failure, Kind, Name, Object},
    error::Error,
};

/// Defines a public constant for each metric, and the function `describe`. The doc comment of the
/// constant is also the description of the metric.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $name:ident = $kind:ident($text:literal, $unit:ident);)+) => {
        $($(#[doc = $help])+ pub const $name: &str = $text;)+

        /// Describes every metric to the recorder.
        pub(crate) fn describe() {
            $(::metrics::$kind!($name, Unit::$unit, concat!($($help),+).trim());)+
        }
    };
}

metrics! {
    /// How long acquisitions took, by `outcome`: `granted`, `timed_out`, `cancelled`, `failed`, or
    /// `busy` for a `try_acquire` that found the object held.
    ACQUIRE_DURATION = describe_histogram("leasehold.acquire.duration", Seconds);
    /// How long holds lasted, by `outcome`: `released`, `unanswered` (the release got no reply),
    /// `expired`, `not_owned`, `max_hold`, `shut_down`.
    HOLD_DURATION = describe_histogram("leasehold.hold.duration", Seconds);
    /// Current holds, by kind. For an election, the number is 1 in the process of the leader.
    HOLD_ACTIVE = describe_gauge("leasehold.hold.active", Count);
    /// Callers that currently wait.
    WAIT_ACTIVE = describe_gauge("leasehold.wait.active", Count);
    /// Holds that ended before their release, by `reason`: `expired`, `not_owned`, `max_hold`,
    /// `shut_down`.
    LOSSES = describe_counter("leasehold.losses", Count);
    /// Holds that began without a request: by a hand-off within the process, or because a reader
    /// joined the hold of another reader of the client.
    HANDOFFS = describe_counter("leasehold.handoffs", Count);
    /// Renewals of leases, by `outcome`: `ok`, or `failed` (the client retries the renewal).
    RENEWALS = describe_counter("leasehold.renewals", Count);
    /// The delay of the last renewal behind its schedule, or 0 after two minutes without a renewal.
    RENEWAL_LAG = describe_gauge("leasehold.renewal.lag", Seconds);
    /// The maximum delay of a renewal behind its schedule, since the client was created.
    RENEWAL_LAG_MAX = describe_gauge("leasehold.renewal.lag.max", Seconds);
    /// Releases that the store did not confirm in time.
    RELEASE_UNANSWERED = describe_counter("leasehold.release.unanswered", Count);
    /// Background releases that failed until their leases had ended.
    RELEASE_ABANDONED = describe_counter("leasehold.release.abandoned", Count);
    /// Notifications that woke a waiter, or arrived while the request of the waiter was in flight.
    WAKE_UPS = describe_counter("leasehold.wake_ups", Count);
    /// Lost connections to a server, by `server.address`, and by `traffic`: commands, messages,
    /// or acknowledgements of replicas.
    CONNECTION_LOSSES = describe_counter("leasehold.connection.losses", Count);
    /// How long requests to Redis took, by `script`: the file name of a script, or a plain command.
    COMMAND_DURATION = describe_histogram("leasehold.command.duration", Seconds);
    /// Decisions of rate limiters and throttles, by `outcome`: `allowed`, `limited`.
    RATE_LIMIT_DECISIONS = describe_counter("leasehold.rate_limit.decisions", Count);
}

/// Recommended buckets of the histograms, in seconds. The default buckets of exporters do not suit
/// the times of locks.
pub const BUCKETS: [(&str, &[f64]); 3] = [
    (
        ACQUIRE_DURATION,
        &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    ),
    (
        HOLD_DURATION,
        &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0],
    ),
    (
        COMMAND_DURATION,
        &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5],
    ),
];

type Labelling = Box<dyn Fn(&str) -> Option<&'static str> + Send + Sync>;

static LABELLING: OnceLock<Labelling> = OnceLock::new();

/// Sets the function that returns the attribute `leasehold.lock` for the name of a lock.
///
/// The function must return one of a few texts, such as `orders:*`. For the same name, it must
/// always return the same text. If it returns `None`, the metric has no attribute `leasehold.lock`.
///
/// Call `label_locks` before the first acquisition. The function then labels the metrics of the
/// whole process. Returns whether this call was the first one. A later call changes nothing.
///
/// # Examples
///
/// ```
/// leasehold::metrics::label_locks(|name| name.starts_with("orders:").then_some("orders:*"));
/// ```
pub fn label_locks(of: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static) -> bool {
    LABELLING.set(Box::new(of)).is_ok()
}

/// Returns the attributes of an object.
fn labels(object: &Object, fenced: bool) -> Vec<Label> {
    let kind = match object.kind {
        Kind::Lock if fenced => "fenced",
        Kind::Lock => "lock",
        Kind::Fair => "fair",
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Semaphore => "semaphore",
        Kind::Latch => "latch",
        Kind::Permits => "permits",
        Kind::Election => "election",
        Kind::Barrier => "barrier",
        Kind::DoubleBarrier => "double_barrier",
        Kind::Queue => "queue",
    };
    let mut labels = Vec::with_capacity(4);
    labels.push(Label::from_static_parts("leasehold.kind", kind));
    labels.extend(lock_label(&object.name));
    labels
}

fn labels_of(claim: &Claim) -> Vec<Label> {
    labels(&claim.object, claim.tokens() > 0)
}

fn lock_label(name: &Name) -> Option<Label> {
    let label = LABELLING.get()?(name.as_str())?;
    Some(Label::from_static_parts("leasehold.lock", label))
}

fn with(mut labels: Vec<Label>, key: &'static str, value: &'static str) -> Vec<Label> {
    labels.push(Label::from_static_parts(key, value));
    labels
}

/// Records an acquisition when this value is dropped. Without a result, the acquisition counts as
/// cancelled.
#[derive(Debug)]
pub(crate) struct Acquisition {
    labels: Vec<Label>,
    since: Instant,
    waits: bool,
    outcome: (&'static str, Option<&'static str>),
}

impl Acquisition {
    /// Starts an acquisition that waits until `object` is free.
    pub(crate) fn waits(object: &Object, fenced: bool) -> Self {
        let mut begun = Self::tries(object, fenced);
        begun.waits = true;
        gauge!(WAIT_ACTIVE, begun.labels.clone()).increment(1);
        begun
    }

    /// Starts an acquisition that sends one request and does not wait.
    pub(crate) fn tries(object: &Object, fenced: bool) -> Self {
        let (labels, since) = (labels(object, fenced), Instant::now());
        Self { labels, since, waits: false, outcome: ("cancelled", None) }
    }

    /// Records the result of the acquisition.
    pub(crate) fn ended<T>(&mut self, result: &Result<T, Error>) {
        self.outcome = match result {
            Ok(_) => ("granted", None),
            Err(Error::TimedOut { .. }) => ("timed_out", None),
            Err(error) => ("failed", Some(error_type(error))),
        };
    }

    /// Records that another owner holds the object.
    pub(crate) fn is_busy(&mut self) {
        self.outcome = ("busy", None);
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        let mut labels = std::mem::take(&mut self.labels);
        if self.waits {
            gauge!(WAIT_ACTIVE, labels.clone()).decrement(1);
        }
        let (outcome, error) = self.outcome;
        labels = with(labels, "outcome", outcome);
        if let Some(error) = error {
            labels = with(labels, "error.type", error);
        }
        histogram!(ACQUIRE_DURATION, labels).record(self.since.elapsed());
    }
}

fn error_type(error: &Error) -> &'static str {
    match error {
        Error::Unavailable { .. } | Error::Connect { .. } => "unavailable",
        Error::Forbidden { .. } => "forbidden",
        Error::NotReady { .. } => "not_ready",
        Error::ShutDown => "shut_down",
        _ => "_OTHER",
    }
}

/// Records the beginning of a hold.
pub(crate) fn hold_began(claim: &Claim) {
    gauge!(HOLD_ACTIVE, labels_of(claim)).increment(1);
}

/// Records the end of a hold that lasted for `held`.
pub(crate) fn hold_ended(
    claim: &Claim,
    ended: Ended,
    outcome: &'static str,
    held: impl FnOnce() -> Duration,
) {
    let labels = labels_of(claim);
    gauge!(HOLD_ACTIVE, labels.clone()).decrement(1);
    match ended {
        Ended::Released => {}
        Ended::Unanswered => counter!(RELEASE_UNANSWERED, labels.clone()).increment(1),
        Ended::Lost(_) => counter!(LOSSES, with(labels.clone(), "reason", outcome)).increment(1),
    }
    histogram!(HOLD_DURATION, with(labels, "outcome", outcome)).record(held());
}

/// Records a hold that began without a request.
pub(crate) fn handed_off(claim: &Claim) {
    counter!(HANDOFFS, labels_of(claim)).increment(1);
}

/// Records how many renewals succeeded and failed.
pub(crate) fn renewed(ok: usize, failed: usize) {
    for (outcome, count) in [("ok", ok), ("failed", failed)] {
        if count > 0 {
            counter!(RENEWALS, "outcome" => outcome).increment(count as u64);
        }
    }
}

/// Records the delay of the last renewal, and the maximum delay of all renewals.
pub(crate) fn lagged(lag: Duration, max: impl FnOnce() -> Duration) {
    gauge!(RENEWAL_LAG).set(lag.as_secs_f64());
    gauge!(RENEWAL_LAG_MAX).set(max().as_secs_f64());
}

/// Records that the client stopped retrying a background release.
pub(crate) fn release_abandoned(claim: &Claim) {
    counter!(RELEASE_ABANDONED, labels_of(claim)).increment(1);
}

/// Records a notification that woke a waiter.
pub(crate) fn woken() {
    counter!(WAKE_UPS).increment(1);
}

/// Records the loss of a connection to `server` that carried this `traffic`.
pub(crate) fn connection_lost(server: &str, traffic: &'static str) {
    counter!(CONNECTION_LOSSES, "server.address" => server.to_owned(), "traffic" => traffic)
        .increment(1);
}

/// Records the decision of a rate limiter or a throttle.
pub(crate) fn decided<T>(result: Result<T, Error>) -> Result<T, Error> {
    let outcome = match &result {
        Ok(_) => Some("allowed"),
        Err(Error::RateLimited { .. }) => Some("limited"),
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        counter!(RATE_LIMIT_DECISIONS, "outcome" => outcome).increment(1);
    }
    result
}

/// Awaits the request `sent`, and records how long the reply took. A cancelled request is not
/// recorded.
pub(crate) async fn timed<T>(
    script: impl FnOnce() -> &'static str,
    sent: impl Future<Output = Result<T, Failure>>,
    is_refused: impl FnOnce(&T) -> bool,
) -> Result<T, Failure> {
    let since = Instant::now();
    let reply = sent.await;
    let mut labels = vec![Label::from_static_parts("script", script())];
    let error = match &reply {
        Ok(reply) => is_refused(reply).then_some("refused"),
        // In a cluster, a request gets this failure only if no other node can execute it.
        Err(Failure::Refused { .. }) => Some("refused"),
        Err(Failure::Unanswered(_)) => Some("unanswered"),
        Err(Failure::Unreachable(_)) => Some("unreachable"),
        Err(_) => Some("_OTHER"),
    };
    labels.extend(error.map(|error| Label::from_static_parts("error.type", error)));
    histogram!(COMMAND_DURATION, labels).record(since.elapsed());
    reply
}
