//! The metrics that a recorder of the facade `metrics` receives.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use leasehold::{Client, LostReason, MemoryStore, Rate, metrics::BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::{runtime::Builder, time::sleep};

/// Runs `work` in virtual time, and returns its metrics in the text format of Prometheus.
fn page_of(work: impl AsyncFnOnce()) -> String {
    let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, buckets) in BUCKETS {
        let name = Matcher::Full(name.to_owned());
        exporter = exporter.set_buckets_for_metric(name, buckets).unwrap();
    }
    let recorder = exporter.build_recorder();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    recorder.handle().render()
}

/// The value of the series `name` that has exactly these labels.
fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: BTreeSet<_> = labels.iter().map(|(key, it)| format!("{key}=\"{it}\"")).collect();
    let is_it = |series: &str| {
        let (of, rest) = series.split_once('{').unwrap_or((series, "}"));
        let found = rest.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        of == name && found.map(str::to_owned).collect::<BTreeSet<_>>() == labels
    };
    let mut found = page.lines().filter_map(|line| line.rsplit_once(' '));
    let found = found.find(|(series, _)| is_it(series));
    found.unwrap_or_else(|| panic!("no {name} {labels:?} in\n{page}")).1.parse().unwrap()
}

const SOON: Duration = Duration::from_millis(100);

/// Uses two clients, so that the recorder receives values of most metrics.
async fn everything() {
    let store = MemoryStore::new();
    let [client, other] = [(); 2].map(|()| Client::with_store(&store));
    let door = client.lock("door").unwrap();
    let guard = door.acquire().await.unwrap();
    assert!(other.lock("door").unwrap().acquire_within(SOON).await.is_err());
    assert!(other.lock("door").unwrap().try_acquire().await.unwrap().is_none());
    sleep(Duration::from_secs(30)).await;
    store.lose("door");
    assert_eq!(guard.lost().await, LostReason::NotOwned);

    let gate = client.lock("gate").unwrap();
    let guard = gate.acquire().await.unwrap();
    let (next, released) = tokio::join!(gate.acquire(), guard.release());
    released.unwrap().into_result().unwrap();
    next.unwrap().release().await.unwrap().into_result().unwrap();

    let fenced = client.fenced_lock("fenced").unwrap().acquire().await.unwrap();
    store.stall();
    assert!(fenced.release().await.is_err());
    store.resume();

    let rate = Rate::per(1, Duration::from_secs(60));
    let limiter = client.rate_limiter("api").unwrap();
    limiter.set_if_absent(rate).await.unwrap();
    limiter.try_acquire(1).await.unwrap();
    limiter.try_acquire(1).await.unwrap_err();
}

#[test]
fn recorder_receives_waits_holds_and_losses() {
    let page = page_of(everything);
    let acquired = "leasehold_acquire_duration_seconds";
    let of = |name: &str, kind, outcome| {
        value(&page, name, &[("leasehold_kind", kind), ("outcome", outcome)])
    };
    let (count, sum) = (format!("{acquired}_count"), format!("{acquired}_sum"));
    assert_eq!(of(&count, "lock", "granted"), 3.0);
    assert_eq!(of(&count, "fenced", "granted"), 1.0);
    assert_eq!((of(&count, "lock", "timed_out"), of(&count, "lock", "busy")), (1.0, 1.0));
    assert!((0.1..0.11).contains(&of(&sum, "lock", "timed_out")), "{page}");
    let held = "leasehold_hold_duration_seconds";
    let (count, sum) = (format!("{held}_count"), format!("{held}_sum"));
    assert_eq!(of(&count, "lock", "released"), 2.0);
    assert_eq!((of(&count, "lock", "not_owned"), of(&count, "fenced", "unanswered")), (1.0, 1.0));
    assert!((30.0..45.0).contains(&of(&sum, "lock", "not_owned")), "{page}");
    let lost = [("leasehold_kind", "lock"), ("reason", "not_owned")];
    assert_eq!(value(&page, "leasehold_losses_total", &lost), 1.0);
    for (kind, unanswered) in [("lock", false), ("fenced", true)] {
        let kind = [("leasehold_kind", kind)];
        assert_eq!(value(&page, "leasehold_hold_active", &kind), 0.0);
        assert_eq!(value(&page, "leasehold_wait_active", &kind), 0.0);
        if unanswered {
            assert_eq!(value(&page, "leasehold_release_unanswered_total", &kind), 1.0);
        }
    }
    assert_eq!(value(&page, "leasehold_handoffs_total", &[("leasehold_kind", "lock")]), 1.0);
    assert!(value(&page, "leasehold_renewals_total", &[("outcome", "ok")]) >= 1.0);
    for outcome in ["allowed", "limited"] {
        let decided = [("outcome", outcome)];
        assert_eq!(value(&page, "leasehold_rate_limit_decisions_total", &decided), 1.0);
    }
    let asked = "leasehold_command_duration_seconds_count";
    assert!(value(&page, asked, &[("script", "acquire")]) >= 4.0, "{page}");
    assert!(!page.contains("door"), "the name of a lock is not a label: {page}");
}

#[test]
fn cancelled_acquisition_is_recorded_as_cancelled() {
    let page = page_of(async || {
        let store = MemoryStore::new();
        let [client, other] = [(); 2].map(|()| Client::with_store(&store));
        let _guard = other.lock("door").unwrap().acquire().await.unwrap();
        let door = client.lock("door").unwrap();
        assert!(tokio::time::timeout(SOON, door.acquire()).await.is_err());
        client.shutdown(Duration::ZERO).await;
        assert!(door.acquire().await.is_err());
    });
    let count = |labels: &[(&str, &str)]| {
        let kind = [("leasehold_kind", "lock")];
        let labels = [&kind, labels].concat();
        value(&page, "leasehold_acquire_duration_seconds_count", &labels)
    };
    assert_eq!(count(&[("outcome", "cancelled")]), 1.0);
    assert_eq!(count(&[("outcome", "failed"), ("error_type", "shut_down")]), 1.0);
}

/// If the names of locks were labels, each lock would create a series.
#[test]
fn lock_label_of_a_metric_is_chosen_by_the_program() {
    let page = page_of(async || {
        leasehold::metrics::label_locks(|name| name.starts_with("dear:").then_some("dear:*"));
        let client = Client::in_memory();
        for name in ["dear:1", "dear:2", "cheap"] {
            drop(client.lock(name).unwrap().acquire().await.unwrap());
        }
    });
    let held = |labels: &[_]| value(&page, "leasehold_hold_active", labels);
    assert_eq!(held(&[("leasehold_kind", "lock"), ("leasehold_lock", "dear:*")]), 0.0);
    assert_eq!(held(&[("leasehold_kind", "lock")]), 0.0);
    let granted =
        [("leasehold_kind", "lock"), ("leasehold_lock", "dear:*"), ("outcome", "granted")];
    assert_eq!(value(&page, "leasehold_acquire_duration_seconds_count", &granted), 2.0);
}

/// The names and types of the metric families of a page.
fn families(page: &str) -> BTreeSet<(String, String)> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    // A histogram without values is exported as a summary, so both count as a histogram.
    pairs.map(|(name, kind)| (name.to_owned(), kind.replace("summary", "histogram"))).collect()
}

#[test]
fn stats_and_recorder_use_the_same_names() {
    let recorded = families(&page_of(everything));
    let counted = families(&Client::in_memory().stats().prometheus());
    let only_counted: Vec<_> = counted.difference(&recorded).map(|(name, _)| &**name).collect();
    // The recorder received no value of these three metrics. The recorder has no metric of
    // reconnects, because it counts lost connections instead. For the other two metrics,
    // `everything` causes no event.
    let expected = [
        "leasehold_reconnects_total",
        "leasehold_release_abandoned_total",
        "leasehold_wake_ups_total",
    ];
    assert_eq!(only_counted, expected);
}

/// An alert on a metric that does not exist never fires.
#[test]
fn every_metric_in_contrib_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let source = read("src/metrics.rs");
    let declared = source.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(" = describe_")?.1.split_once("(\"")?;
        let (name, unit) = rest.split_once("\", ")?;
        let mut name = name.replace('.', "_");
        name += if unit.starts_with("Seconds") { "_seconds" } else { "" };
        name += if kind == "counter" { "_total" } else { "" };
        Some(name)
    });
    let declared: BTreeSet<_> = declared.collect();
    assert!(declared.len() > 10, "{declared:?}");
    let mut found = 0;
    for file in ["grafana-dashboard.json", "prometheus-alerts.yml", "prometheus-alerts.test.yml"] {
        let text = read(&format!("contrib/{file}"));
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        for (at, _) in text.match_indices("leasehold_") {
            let name: String = text[at..].chars().take_while(|c| is_part(*c)).collect();
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .fold(&*name, |name, suffix| name.strip_suffix(suffix).unwrap_or(name));
            let is_label = ["leasehold_kind", "leasehold_lock"].contains(&name);
            assert!(is_label || declared.contains(name), "{file} names {name}");
            found += usize::from(!is_label);
        }
    }
    assert!(found > 15, "{found}");
}
