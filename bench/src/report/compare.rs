//! Regressions compared with the committed results.

use super::{
    board::{Better, LIMIT},
    markdown::figure,
    results::{Entry, Results},
};

/// A figure that is worse by more than this factor is reported.
const WORSE: f64 = 1.1;

/// Returns a line for each case of `now` that is worse by more than a tenth.
///
/// Machines differ, and are not always equally fast. So each figure is divided by the lower limit
/// of the same run, or by Redisson's figure. If there is neither, the figure is compared directly.
#[must_use]
pub fn fallen(before: &Results, now: &Results) -> Vec<String> {
    let pairs = now.results.iter().filter_map(|entry| Some((before.entry(&entry.case)?, entry)));
    pairs.filter_map(|(before, now)| fell(before, now)).collect()
}

fn fell(before: &Entry, now: &Entry) -> Option<String> {
    let both = |column: &&str| before.value(column).is_some() && now.value(column).is_some();
    let beside = [LIMIT, "Redisson"].into_iter().find(both);
    let score = |entry: &Entry| Some(entry.ours? / beside.map_or(Some(1.0), |it| entry.value(it))?);
    let (was, is) = (score(before)?, score(now)?);
    let worse = match now.better {
        Better::Less => is / was,
        Better::More => was / is,
    };
    let of = match beside {
        Some(LIMIT) => "× the limit".to_owned(),
        Some(rival) => format!("× {rival}"),
        None => now.unit.clone(),
    };
    let (is, was) = (figure(is), figure(was));
    let by = figure((worse - 1.0) * 100.0);
    // If there is no earlier figure, the quotient is not finite.
    let reported = worse > WORSE && worse.is_finite();
    reported.then(|| format!("{}: {is} {of}, was {was}: {by} % worse", now.case))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            board::{Case, OURS},
            results::tests::one,
        },
        *,
    };

    #[test]
    fn comparison_reports_a_change_above_ten_percent() {
        let rate = |ours| one(Case::more("g", "rate", "per s"), &[(OURS, ours)]);
        assert_eq!(fallen(&rate(100.0), &rate(91.0)), [""; 0]);
        let reported = fallen(&rate(100.0), &rate(80.0));
        assert_eq!(reported, ["g: rate: 80.0 per s, was 100: 25.0 % worse"]);
        assert_eq!(fallen(&rate(80.0), &rate(100.0)), [""; 0]);

        let time = |ours| one(Case::less("g", "time", "µs"), &[(OURS, ours)]);
        assert_eq!(fallen(&time(100.0), &time(109.0)), [""; 0]);
        assert_eq!(fallen(&time(100.0), &time(120.0)).len(), 1);
    }

    #[test]
    fn comparison_reports_no_regression_on_a_slower_machine() {
        let time = |ours, limit| one(Case::less("g", "t", "µs"), &[(OURS, ours), (LIMIT, limit)]);
        assert_eq!(fallen(&time(10.0, 10.0), &time(30.0, 30.0)), [""; 0]);
        let reported = fallen(&time(10.0, 10.0), &time(30.0, 20.0));
        assert_eq!(reported, ["g: t: 1.50 × the limit, was 1.00: 50.0 % worse"]);
    }

    #[test]
    fn comparison_ignores_an_earlier_figure_that_is_zero_or_missing() {
        let count = |ours| one(Case::less("g", "count", "count"), &[(OURS, ours)]);
        assert_eq!(fallen(&count(0.0), &count(1.0)), [""; 0]);
        assert_eq!(fallen(&count(0.0), &count(0.0)), [""; 0]);
        let other = one(Case::less("g", "another", "count"), &[(OURS, 1.0)]);
        assert_eq!(fallen(&other, &count(1.0)), [""; 0]);
    }
}
