//! Whether two ways of writing a number mean exactly the same one.

/// A decimal number without loss: `digits` × 10^`exponent`, in the one form without zeros at either end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a JSON number. `None` when its exponent is beyond an `i64`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let trailing = all.len() - all.trim_end_matches('0').len();
        let exponent = exponent
            .checked_sub(i64::try_from(fraction.len()).ok()?)?
            .checked_add(i64::try_from(trailing).ok()?)?;
        Some(Self { negative, digits: digits.to_owned(), exponent })
    }

    /// The number, when it is whole and an `i64` holds it.
    pub(crate) fn to_i64(&self) -> Option<i64> {
        // More zeros than an i64 has digits cannot fit, and are not written out.
        let zeros = usize::try_from(self.exponent).ok().filter(|zeros| *zeros < 19)?;
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}0{}{}", self.digits, "0".repeat(zeros)).parse().ok()
    }

    /// Whether both texts are numbers, and the same.
    pub(crate) fn same(a: &str, b: &str) -> bool {
        Self::parse(a).is_some_and(|a| Some(a) == Self::parse(b))
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn whole_numbers_that_fit_are_integers() {
        for (text, number) in [
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("-9223372036854775808.00", Some(i64::MIN)),
            ("922337203685477580.7e1", Some(i64::MAX)),
            ("9223372036854775808.0", None),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", None),
            ("1e999999999", None),
            ("-0.0", Some(0)),
            ("1.5", None),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().to_i64(), number, "{text}");
        }
    }

    #[test]
    fn only_the_value_counts() {
        for (a, b) in [("1.10", "1.1"), ("100", "1e2"), ("0.001", "1E-3"), ("-0.0", "0"), ("12.5e1", "125")] {
            assert!(Decimal::same(a, b), "{a} {b}");
        }
        for (a, b) in [("1", "-1"), ("1.1", "1.11"), ("10", "1"), ("1e400", "1e401"), ("0", "1e-400")] {
            assert!(!Decimal::same(a, b), "{a} {b}");
        }
        assert!(!Decimal::same("1e99999999999999999999", "1e99999999999999999999"));
        assert!(!Decimal::same("1e-9223372036854775808", "0.1e-9223372036854775808"));
    }
}
