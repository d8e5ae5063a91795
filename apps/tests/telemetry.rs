//! The spans and metrics that the program `telemetry` sends to a collector.

use std::{
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use leasehold::metrics::{ACQUIRE_DURATION, BUCKETS, HOLD_ACTIVE};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data},
    trace::v1::Span,
};
use prost::Message;
use tokio::net::TcpListener;

#[derive(Debug, Default)]
struct Received {
    services: Vec<String>,
    spans: Vec<Span>,
    metrics: Vec<Metric>,
}

type Shared = Arc<Mutex<Received>>;

async fn traces(State(received): State<Shared>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut received = received.lock().unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap_or_default().attributes;
        received.services.extend(text(&attributes, "service.name"));
        received.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
}

async fn metrics(State(received): State<Shared>, body: Bytes) {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
    received.lock().unwrap().metrics.extend(scopes.flat_map(|scope| scope.metrics));
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// Runs the program with a collector of this test. Returns what the collector received.
async fn received() -> Received {
    let received = Shared::default();
    let app = Router::new()
        .route("/v1/traces", post(traces))
        .route("/v1/metrics", post(metrics))
        .with_state(received.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = tokio::spawn(async move { axum::serve(listener, app).await });
    let output = tokio::task::spawn_blocking(move || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_telemetry"));
        program.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env_remove("REDIS_URL");
        program.output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"all sent\n");
    collector.abort();
    std::mem::take(&mut received.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn collector_receives_spans_and_metrics() {
    let Received { services, spans, metrics } = received().await;
    assert!(!services.is_empty() && services.iter().all(|name| name == "orders"), "{services:?}");

    // The span of each acquisition is inside the span of its caller, and has the lock and the wait.
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let (orders, acquisitions) = (named("close order"), named("acquire"));
    assert_eq!((orders.len(), acquisitions.is_empty()), (6, false), "{spans:#?}");
    for span in &acquisitions {
        assert_eq!(text(&span.attributes, "lock").as_deref(), Some("orders:42"));
        assert!(orders.iter().any(|order| order.span_id == span.parent_span_id), "{span:#?}");
    }

    let metric = |name: &str| {
        let found = metrics.iter().rfind(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {metrics:#?}"))
    };
    let acquired = metric(ACQUIRE_DURATION);
    assert_eq!(acquired.unit, "s");
    assert!(acquired.description.starts_with("How long acquisitions took"));
    let Some(Data::Histogram(histogram)) = &acquired.data else { panic!("{acquired:#?}") };
    let point = &histogram.data_points[0];
    assert_eq!(point.count, 6);
    assert_eq!(point.explicit_bounds, BUCKETS[0].1);
    assert_eq!(text(&point.attributes, "leasehold.kind").as_deref(), Some("lock"));
    assert_eq!(text(&point.attributes, "outcome").as_deref(), Some("granted"));
    assert!(matches!(metric(HOLD_ACTIVE).data, Some(Data::Gauge(_))));
}
