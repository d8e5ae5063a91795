//! Metrics and traces for OpenTelemetry, sent to a collector by OTLP.
//!
//! ```text
//! export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318    # a collector; this is the default
//! cargo run --bin telemetry               # without Redis; or set REDIS_URL=redis://127.0.0.1/
//! ```
//!
//! Leasehold records metrics to the facade `metrics`, and spans and events to `tracing`. The crates
//! `metrics-opentelemetry` and `tracing-opentelemetry` forward both to OpenTelemetry.

use std::{error, time::Duration};

use leasehold::{Client, Error, Lock, metrics::BUCKETS};
use metrics_opentelemetry::{OpenTelemetryMetrics, OpenTelemetryRecorder};
use opentelemetry::{metrics::MeterProvider, trace::TracerProvider};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, trace::SdkTracerProvider};
use tokio::time::sleep;
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    // The recorder must be installed before the first client is created, because each new client
    // describes the metrics to the recorder.
    let telemetry = Telemetry::start("orders")?;
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect(&url).await?,
        Err(_) => Client::in_memory(),
    };
    let lock = client.lock("orders:42")?;
    let (one, other) = tokio::join!(work("one", &lock), work("other", &lock));
    client.shutdown(Duration::from_secs(5)).await;
    // Sends the metrics and spans that are still buffered.
    telemetry.shut_down()?;
    println!("all sent");
    Ok(one.and(other)?)
}

async fn work(worker: &str, lock: &Lock) -> Result<(), Error> {
    for _ in 0..3 {
        let span = info_span!("close order", worker);
        lock.run(async |_held| sleep(Duration::from_millis(50)).await).instrument(span).await?;
    }
    Ok(())
}

struct Telemetry {
    meters: SdkMeterProvider,
    tracers: SdkTracerProvider,
}

impl Telemetry {
    fn start(service: &'static str) -> Result<Self, Box<dyn error::Error>> {
        let resource = Resource::builder().with_service_name(service).build();
        let meters = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_periodic_exporter(MetricExporter::builder().with_http().build()?)
            .build();
        let tracers = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_batch_exporter(SpanExporter::builder().with_http().build()?)
            .build();

        let metrics = OpenTelemetryMetrics::new(meters.meter("leasehold"));
        let mut recorder = OpenTelemetryRecorder::new(metrics);
        for (name, bounds) in BUCKETS {
            recorder.set_histogram_bounds_mut([name].into_iter(), bounds);
        }
        metrics::set_global_recorder(recorder)?;

        // Leasehold's spans have the level `DEBUG`. Without a filter, the exporter would trace
        // itself.
        let filter = Targets::new()
            .with_target("leasehold", Level::DEBUG)
            .with_target(module_path!(), Level::INFO);
        let spans = tracing_opentelemetry::layer().with_tracer(tracers.tracer("leasehold"));
        tracing_subscriber::registry().with(spans.with_filter(filter)).init();
        Ok(Self { meters, tracers })
    }

    fn shut_down(self) -> Result<(), Box<dyn error::Error>> {
        self.tracers.shutdown()?;
        Ok(self.meters.shutdown()?)
    }
}
