//! How long the long tests are.

use std::env::{self, VarError};

const VARIABLE: &str = "INBOX_TEST_SCALE";

/// A count of a long test (rounds, messages, kills), multiplied by the environment variable `INBOX_TEST_SCALE`, a
/// positive decimal such as `0.1` or `20` that is 1 when it is not set. The result is rounded down and at least 1.
///
/// # Panics
/// When the variable is anything else: a run must not be shorter than its operator believes.
pub fn scaled(count: u64) -> u64 {
    let scale = match env::var(VARIABLE) {
        Ok(scale) => scale,
        Err(VarError::NotPresent) => return count.max(1),
        Err(VarError::NotUnicode(scale)) => scale.to_string_lossy().into_owned(),
    };
    let product = times(count, &scale);
    product
        .unwrap_or_else(|| panic!("{VARIABLE} is '{scale}': set it to a positive decimal such as 0.1 or 20"))
}

/// In whole numbers, so that nothing is rounded but the result. `None` when the scale is no positive decimal.
fn times(count: u64, scale: &str) -> Option<u64> {
    let (whole, fraction) = scale.split_once('.').unwrap_or((scale, "0"));
    // What else parses as a number begins with a sign.
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let places = u32::try_from(fraction.len()).ok()?;
    let denominator = 10_u64.checked_pow(places)?;
    let numerator: u64 = format!("{whole}{fraction}").parse().ok()?;
    if numerator == 0 {
        return None;
    }
    // 64 bits times 64 bits fit.
    let product = u128::from(count) * u128::from(numerator) / u128::from(denominator);
    Some(u64::try_from(product).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_positive_decimal_multiplies() {
        for (count, scale, expected) in [
            (60, "1", 60),
            (60, "0.5", 30),
            (60, "2.50", 150),
            (7, "0.1", 1),
            (19, "0.1", 1),
            (20, "0.1", 2),
            (0, "3", 1),
            (u64::MAX, "1", u64::MAX),
            (u64::MAX, "2", u64::MAX),
        ] {
            assert_eq!(times(count, scale), Some(expected), "{count} times {scale}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for scale in [
            "", " 1", "0", "0.0", "-1", "+1", "1e3", "inf", "NaN", ".5", "5.", "1.2.3", "1,5", "one",
            "\u{0661}",
        ] {
            assert_eq!(times(60, scale), None, "{scale:?}");
        }
        assert_eq!(times(60, "99999999999999999999"), None, "more than there are numbers for");
    }

    /// Runs in a program of its own, since a variable belongs to a whole program.
    #[test]
    fn the_variable_is_read() {
        const EXPECTED: &str = "INBOX_TEST_SCALE_EXPECTED";
        if let Ok(expected) = env::var(EXPECTED) {
            assert_eq!(scaled(60).to_string(), expected);
            return;
        }
        let name = "scale::tests::the_variable_is_read";
        let run = |scale: Option<&str>, expected: &str| {
            let mut program = Command::new(env::current_exe().unwrap());
            program.args(["--exact", name]).env(EXPECTED, expected).env_remove(VARIABLE);
            if let Some(scale) = scale {
                program.env(VARIABLE, scale);
            }
            let output = program.output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        for (scale, expected) in [(None, "60"), (Some("0.25"), "15"), (Some("10"), "600")] {
            let (passed, said) = run(scale, expected);
            assert!(passed && said.contains("1 passed"), "{said}");
        }
        let (passed, said) = run(Some("fast"), "60");
        assert!(!passed);
        assert!(
            said.contains("INBOX_TEST_SCALE is 'fast': set it to a positive decimal such as 0.1 or 20"),
            "{said}"
        );
    }
}
