//! Whether the targets were met.

use super::{
    board::{Better, Case, LIMIT, OURS, RIVALS},
    target::Target,
};

/// The result for the targets of a case: `pass`, or every target that was missed.
pub(super) fn verdict(case: &Case) -> String {
    if case.targets.is_empty() {
        return String::new();
    }
    let misses: Vec<_> = case.targets.iter().filter_map(|target| miss(case, *target)).collect();
    match misses.is_empty() {
        true => "pass".to_owned(),
        false => format!("**miss**: {}", misses.join("; ")),
    }
}

fn miss(case: &Case, target: Target) -> Option<String> {
    let Some(ours) = case.value(OURS) else { return Some("not measured".to_owned()) };
    match target {
        Target::AtMost(most) | Target::NeverAbove(most) => {
            (ours > most).then(|| format!("more than {most}"))
        }
        Target::Never => (ours > 0.0).then(|| "never must happen".to_owned()),
        Target::AtLeastOf(column, part) => compared(case, ours, column, |it| it >= part, "<", part),
        Target::AtMostOf(column, part) => compared(case, ours, column, |it| it <= part, ">", part),
        Target::BeatsRivals => beaten(case, ours),
    }
}

fn compared(
    case: &Case,
    ours: f64,
    column: &str,
    is_met: impl Fn(f64) -> bool,
    sign: &str,
    part: f64,
) -> Option<String> {
    let Some(other) = case.value(column) else {
        return Some(format!("{column} was not measured"));
    };
    let of = if column == LIMIT { "the limit" } else { column };
    let ratio = ours / other;
    (!is_met(ratio)).then(|| format!("{ratio:.3} {sign} {part} × {of}"))
}

fn beaten(case: &Case, ours: f64) -> Option<String> {
    let is_better = |rival: &f64| match case.better {
        Better::Less => *rival <= ours,
        Better::More => *rival >= ours,
    };
    let better = RIVALS.into_iter().filter(|name| case.value(name).as_ref().is_some_and(is_better));
    let better: Vec<_> = better.collect();
    (!better.is_empty()).then(|| format!("not better than {}", better.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{super::board::Board, *};

    #[test]
    fn verdict_is_pass_up_to_the_target_and_miss_above() {
        let case = || Case::less("g", "c", "µs").target(Target::AtMostOf(LIMIT, 1.1));
        assert_eq!(verdict(&with(case(), &[(OURS, 11.0), (LIMIT, 10.0)])), "pass");
        let missed = verdict(&with(case(), &[(OURS, 12.0), (LIMIT, 10.0)]));
        assert_eq!(missed, "**miss**: 1.200 > 1.1 × the limit");
    }

    #[test]
    fn verdict_names_the_faster_library() {
        let case = Case::more("g", "c", "per s").target(Target::BeatsRivals);
        let case = with(case, &[(OURS, 5.0), ("rlock", 4.0), ("rslock", 6.0)]);
        assert_eq!(verdict(&case), "**miss**: not better than rslock");
    }

    #[test]
    fn verdict_is_miss_for_an_unmeasured_case() {
        let case = Case::less("g", "c", "%").target(Target::AtMost(3.0));
        assert_eq!(verdict(&with(case, &[(LIMIT, 1.0)])), "**miss**: not measured");
        let case = Case::less("g", "c", "%").target(Target::AtMostOf("Redisson", 0.6));
        assert_eq!(verdict(&with(case, &[(OURS, 1.0)])), "**miss**: Redisson was not measured");
    }

    fn with(case: Case, figures: &[(&'static str, f64)]) -> Case {
        let mut board = Board::default();
        for (column, value) in figures {
            board.note(case.clone(), column, *value);
        }
        board.cases.remove(0)
    }
}
