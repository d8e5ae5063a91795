//! A small plot in SVG: lines over a logarithmic x axis.

use std::fmt::Write;

use super::markdown::figure;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scale {
    /// Linear, from zero.
    Linear,
    Log,
}

/// One line of a plot.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) color: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
}

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 100.0;
/// The margin on the right, which has space for the legend.
const RIGHT: f64 = 190.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

impl Plot {
    pub(super) fn draw(&self) -> String {
        let (x, y) = (self.x_axis(), self.y_axis());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        svg += &text(LEFT, 28.0, "start", 16, self.title);
        svg += &self.frame(&x, &y);
        for (at, series) in self.series.iter().enumerate() {
            svg += &line(series, &x, &y);
            svg += &legend(series, at);
        }
        svg + "</svg>\n"
    }

    fn x_axis(&self) -> Axis {
        let values = self.points().map(|(x, _)| x);
        let (least, greatest) = bounds(values);
        // A single point is put in the middle.
        let (least, greatest) =
            if least == greatest { (least / 2.0, greatest * 2.0) } else { (least, greatest) };
        Axis { scale: Scale::Log, from: least, to: greatest, start: LEFT, end: WIDTH - RIGHT }
    }

    fn y_axis(&self) -> Axis {
        let (least, greatest) = bounds(self.points().map(|(_, y)| y));
        let (from, to) = match self.y {
            Scale::Linear => (0.0, greatest * 1.15),
            Scale::Log => (10_f64.powf(least.log10().floor()), power_above(greatest)),
        };
        Axis { scale: self.y, from, to, start: HEIGHT - BOTTOM, end: TOP }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series.iter().flat_map(|series| series.points.iter().copied())
    }

    fn frame(&self, x: &Axis, y: &Axis) -> String {
        let mut svg = String::new();
        for value in y.ticks() {
            let at = y.place(value);
            svg += &stroke((LEFT, at), (WIDTH - RIGHT, at), "#dddddd");
            svg += &text(LEFT - 8.0, at + 4.0, "end", 13, &label(value));
        }
        for value in self.places() {
            let at = x.place(value);
            svg += &stroke((at, HEIGHT - BOTTOM), (at, HEIGHT - BOTTOM + 5.0), "#333333");
            svg += &text(at, HEIGHT - BOTTOM + 20.0, "middle", 13, &label(value));
        }
        svg += &stroke((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "#333333");
        svg + &text(f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 16.0, "middle", 13, self.x)
    }

    /// The measured x values, which are the ticks of the x axis.
    fn places(&self) -> Vec<f64> {
        let mut places: Vec<_> = self.points().map(|(x, _)| x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }
}

/// Maps values to positions in the plot.
#[derive(Debug)]
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).log10() / (self.to / self.from).log10(),
        };
        self.start + part * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.to);
                (0..).map(|n| f64::from(n) * step).take_while(|value| *value <= self.to).collect()
            }
            Scale::Log => {
                let power = |n| self.from * 10_f64.powi(n);
                (0..).map(power).take_while(|value| *value <= self.to * 1.001).collect()
            }
        }
    }
}

/// The distance between two ticks. It is 1, 2 or 5 times a power of ten, so that there are four to
/// ten ticks.
fn step(to: f64) -> f64 {
    let power = 10_f64.powf(to.log10().floor());
    match to / power {
        part if part < 2.0 => power / 5.0,
        part if part < 5.0 => power / 2.0,
        _ => power,
    }
}

fn power_above(value: f64) -> f64 {
    10_f64.powf((value * 1.05).log10().ceil())
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, greatest), it| (least.min(it), greatest.max(it)))
}

/// Returns the label of a tick. A whole number has no decimals. A fraction is rounded, because sums
/// of steps are not exact.
fn label(value: f64) -> String {
    match value.fract() == 0.0 {
        true if value < 100.0 => format!("{value:.0}"),
        true => figure(value),
        false => format!("{}", (value * 1e6).round() / 1e6),
    }
}

fn line(series: &Series, x: &Axis, y: &Axis) -> String {
    let places = series.points.iter().map(|(at, value)| (x.place(*at), y.place(*value)));
    let places: Vec<_> = places.collect();
    let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let (color, path) = (series.color, path.join(" "));
    let mut svg = format!(
        "<polyline points=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n"
    );
    for (x, y) in places {
        svg += &dot(x, y, color);
    }
    svg
}

fn legend(series: &Series, at: usize) -> String {
    let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 12.0 + at as f64 * 22.0);
    let mut svg = dot(x, y, series.color);
    svg += &text(x + 12.0, y + 4.0, "start", 13, &series.label);
    svg
}

fn dot(x: f64, y: f64, color: &str) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"/>\n")
}

fn stroke(from: (f64, f64), to: (f64, f64), color: &str) -> String {
    let ((x1, y1), (x2, y2)) = (from, to);
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"/>\n"
    )
}

fn text(x: f64, y: f64, anchor: &str, size: u32, words: &str) -> String {
    let mut svg = String::new();
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>"
    )
    .expect("writing to a string cannot fail");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axis_puts_powers_of_ten_at_equal_distances() {
        let axis = Axis { scale: Scale::Log, from: 1.0, to: 1000.0, start: 0.0, end: 300.0 };
        let places = [1.0, 10.0, 100.0, 1000.0].map(|value| axis.place(value).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn vertical_linear_axis_places_zero_at_the_bottom() {
        let axis = Axis { scale: Scale::Linear, from: 0.0, to: 50.0, start: 200.0, end: 0.0 };
        assert_eq!(axis.place(0.0), 200.0);
        assert_eq!(axis.place(25.0), 100.0);
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    }

    #[test]
    fn axis_ends_above_the_greatest_value() {
        assert_eq!(power_above(100.0), 1000.0);
        assert_eq!(power_above(90.0), 100.0);
    }

    #[test]
    fn plot_shows_each_line_and_its_name() {
        let series = Series { label: "one".into(), color: "red", points: vec![(1.0, 5.0)] };
        let plot = Plot { title: "t", x: "tasks", y: Scale::Log, series: vec![series] };
        let svg = plot.draw();
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert!(svg.contains(">one</text>") && !svg.contains("NaN"), "{svg}");
    }
}
