//! The plots, and the cases that each plot shows.

use super::{
    board::{LIMIT, OURS, RIVALS},
    results::{Entry, Results},
    svg::{Plot, Scale, Series},
};

/// The plots of the measured cases, each with the name of its file.
pub(super) fn all(results: &Results) -> Vec<(&'static str, String)> {
    PLOTS.iter().filter_map(|about| Some((about.name, about.draw(results)?))).collect()
}

struct About {
    name: &'static str,
    title: &'static str,
    x: &'static str,
    limit: &'static str,
    scale: Scale,
}

const PLOTS: [About; 10] = [
    about("throughput", "Uncontended pairs per second", "tasks", "bare commands", Scale::Log),
    about("in-process", "Hand-overs per second in one process", "tasks", "tokio mutex", Scale::Log),
    about(
        "hand-over",
        "Hand-over between processes, median µs",
        "processes",
        "message + round trip",
        Scale::Log,
    ),
    about("hand-overs", "Hand-overs between processes per second", "processes", "", Scale::Log),
    about(
        "commands",
        "Server commands per hand-over between processes",
        "processes",
        "",
        Scale::Log,
    ),
    about(
        "watchdog-client",
        "Client CPU of keeping locks, % of a core",
        "locks held",
        "",
        Scale::Log,
    ),
    about(
        "watchdog-server",
        "Server CPU of keeping locks, % of a core",
        "locks held",
        "",
        Scale::Log,
    ),
    about("waiting", "Bytes per waiting task", "tasks", "tokio mutex", Scale::Log),
    about("names-1", "µs per pair, one task", "different names", "bare commands", Scale::Linear),
    about("names-16", "µs per pair, 16 tasks", "different names", "bare commands", Scale::Linear),
];

const fn about(
    name: &'static str,
    title: &'static str,
    x: &'static str,
    limit: &'static str,
    scale: Scale,
) -> About {
    About { name, title, x, limit, scale }
}

impl About {
    fn draw(&self, results: &Results) -> Option<String> {
        let cases: Vec<_> = results.results.iter().filter(|case| self.is_of(case)).collect();
        let columns = [OURS, LIMIT].into_iter().chain(RIVALS);
        let series: Vec<_> = columns.filter_map(|column| self.line(&cases, column)).collect();
        let plot = Plot { title: self.title, x: self.x, y: self.scale, series };
        (!plot.series.is_empty()).then(|| plot.draw())
    }

    fn is_of(&self, case: &Entry) -> bool {
        case.plot.as_ref().is_some_and(|(plot, _)| plot == self.name)
    }

    fn line(&self, cases: &[&Entry], column: &'static str) -> Option<Series> {
        let label = match column {
            OURS => "Leasehold",
            LIMIT => self.limit,
            rival => rival,
        };
        let point = |case: &&Entry| Some((case.plot.as_ref()?.1, case.value(column)?));
        let points: Vec<_> = cases.iter().filter_map(point).filter(|(_, y)| *y > 0.0).collect();
        let color = color(column);
        (!points.is_empty()).then(|| Series { label: label.to_owned(), color, points })
    }
}

/// Colours that most people can distinguish. They also differ in brightness, for a print in grey.
fn color(column: &str) -> &'static str {
    match column {
        OURS => "#c1121f",
        LIMIT => "#888888",
        "Redisson" => "#0b3c8c",
        "rslock" => "#e08a00",
        "rlock" => "#6a994e",
        "redsync" => "#7b2cbf",
        _ => "#00a6b4",
    }
}
