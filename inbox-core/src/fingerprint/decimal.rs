//! One way to write each decimal number, with every digit.

use super::canonical::NotCanonical;
use std::io::Write as _;

/// Appends the value of a JSON number: its digits without leading and trailing zeros, as a whole number,
/// and the power of ten it is multiplied with, when that is not one. `1.50` becomes `15e-1`, `100`
/// becomes `1e2`, `-0` becomes `0`. Nothing is rounded, so numbers that `f64` cannot tell apart stay apart.
///
/// # Errors
/// [`NotCanonical::Exponent`] when the power of ten is out of reach.
pub(super) fn write(number: &str, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    let (negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Both are ASCII digits, as the document was checked before.
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        out.push(b'0');
        return Ok(());
    }
    let trailing_zeros = digits.len() - digits.trim_end_matches('0').len();
    let power = i128::from(exponent_of(exponent)?) + trailing_zeros as i128 - fraction.len() as i128;
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(significant.as_bytes());
    if power != 0 {
        // Writing to a vector does not fail.
        let _ = write!(out, "e{power}");
    }
    Ok(())
}

fn exponent_of(text: &str) -> Result<i64, NotCanonical> {
    text.parse().map_err(|_| NotCanonical::Exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: &str) -> String {
        let mut out = Vec::new();
        write(number, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_way_to_write_a_value_becomes_one() {
        for (one, ways) in [
            ("0", &["0", "-0", "0.0", "0e5", "-0.000e-9", "0e99999999999999999999999"][..]),
            ("1", &["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1e-0", "1e+0000"]),
            ("1e2", &["100", "1e2", "1E+2", "100.000", "0.001e5", "1e0002"]),
            ("-15e-1", &["-1.5", "-1.50", "-15e-1", "-0.15e1"]),
            ("5e-324", &["5e-324", "0.5e-323"]),
        ] {
            for way in ways {
                assert_eq!(written(way), one, "{way}");
            }
        }
    }

    #[test]
    fn values_that_floats_cannot_tell_apart_stay_apart() {
        assert_ne!(written("9007199254740993"), written("9007199254740992"));
        assert_ne!(written("0.1"), written("0.1000000000000000055511151231257827"));
        assert_ne!(written("1e400"), written("1e401"));
        assert_eq!(written("12345678901234567890.0100"), "1234567890123456789001e-2");
    }

    #[test]
    fn an_exponent_out_of_reach_is_an_error() {
        let mut out = Vec::new();
        for number in ["1e99999999999999999999", "1E-99999999999999999999"] {
            assert_eq!(write(number, &mut out), Err(NotCanonical::Exponent), "{number}");
        }
        assert!(write("1e9223372036854775807", &mut out).is_ok());
    }
}
