//! Statistics.

/// The quantile `q` of `values`, or 0 if there are no values.
#[must_use]
pub fn percentile(values: &mut [u64], q: f64) -> u64 {
    values.sort_unstable();
    let at = (values.len() as f64 * q) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// The median of `values`, or NaN if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Jain's fairness index. It is 1 if all shares are equal, and 1/n if one of n shares is
/// everything.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The largest deviation of `values` from their median, in percent of the median.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    let middle = median(values);
    values.iter().map(|value| (value / middle - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_one_of_the_measured_values() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut values, 0.5), 51);
        assert_eq!(percentile(&mut values, 0.99), 100);
        assert_eq!(percentile(&mut values, 0.0), 1);
        assert_eq!(percentile(&mut [7], 0.99), 7);
        assert_eq!(percentile(&mut [], 0.5), 0);
    }

    #[test]
    fn median_of_an_even_count_lies_between_the_middle_values() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn jain_index_is_one_for_equal_shares_and_less_otherwise() {
        assert_eq!(jain(&[5.0; 8]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }

    #[test]
    fn deviation_is_the_largest_distance_from_the_median() {
        assert_eq!(deviation(&[100.0, 100.0, 80.0]).round(), 20.0);
        assert_eq!(deviation(&[100.0, 130.0, 100.0]).round(), 30.0);
    }
}
