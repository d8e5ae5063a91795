//! Numbers as Redis reads and writes them.

/// Parses an integer as Redis does: without a plus sign or leading zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let odd = (digits.starts_with('0') && text != "0") || digits.is_empty();
    (plain && !odd).then(|| text.parse().ok()).flatten()
}

/// Parses a double as Redis does.
pub(super) fn double(text: &[u8]) -> Option<f64> {
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Writes a number with 17 digits, as `printf("%.17g")` does. The text has an exponent only if 17
/// digits do not suffice.
pub(super) fn written(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if number.is_nan() {
        return "nan".into();
    }
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(16 - exponent) {
        Ok(precision) if exponent >= -4 => trimmed(&format!("{number:.precision$}")).into(),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
        }
    }
}

/// Returns `number` without the zeros at the end of its fraction.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Casts a double to a long as C does.
pub(super) fn truncated(number: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    match (-BEYOND..BEYOND).contains(&number) {
        #[allow(clippy::cast_possible_truncation)]
        true => number as i64,
        false => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_is_written_with_up_to_seventeen_digits() {
        let numbers = [
            (0.1, "0.10000000000000001"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e-9, "1.5e-09"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (0.0001, "0.0001"),
        ];
        for (number, text) in numbers {
            assert_eq!(written(number), text);
        }
        assert_eq!(written(f64::INFINITY), "inf");
        assert_eq!(written(f64::NEG_INFINITY), "-inf");
    }

    #[test]
    fn integer_that_is_not_in_canonical_form_is_refused() {
        for odd in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808"] {
            assert_eq!(integer(odd.as_bytes()), None, "{odd:?}");
        }
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"0"), Some(0));
    }

    #[test]
    fn double_out_of_range_becomes_the_smallest_integer() {
        assert_eq!(truncated(2.9), 2);
        assert_eq!(truncated(-1.5), -1);
        assert_eq!(truncated(1e30), i64::MIN);
        assert_eq!(truncated(f64::NAN), i64::MIN);
    }
}
