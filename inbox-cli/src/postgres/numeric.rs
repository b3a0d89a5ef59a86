//! Numbers as PostgreSQL's `numeric`, digit by digit: never by way of a double.

/// The sign words of the format.
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;

/// The most digits that a number may have before its point, and behind it.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;
/// The most groups of four digits that the server takes from a client.
const GROUPS_MAX: usize = 3_000;

/// Whether a text is a number: as in JSON, but that zeros and a plus sign may stand before it, and that either
/// side of the point may be empty.
pub(crate) fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits(whole)
        && are_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|digits| !digits.is_empty() && are_digits(digits))
}

/// Appends a number that [is one](is_number), in the binary format: groups of four digits.
pub(crate) fn push(text: &str, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (0, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let beyond = "it is beyond the range of numeric";
    // An exponent that no i64 holds is beyond every range, unless there is nothing to be moved.
    let exponent = match exponent.parse::<i64>() {
        Ok(exponent) => exponent,
        Err(_) if digits.is_empty() && !exponent.starts_with('-') => 0,
        Err(_) => return Err(beyond),
    };
    let scale = length(fraction).saturating_sub(exponent).max(0);
    if scale > SCALE_MAX {
        return Err("it has more than 16383 digits behind its point");
    }
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        push_words(out, &[0, 0, 0, word(scale)]);
        return Ok(());
    }
    // How many of the digits stand before the point; below zero, how many zeros stand behind it first.
    let before = length(whole)
        .saturating_add(exponent)
        .saturating_sub(length(&all) - length(all.trim_start_matches('0')));
    if before > WHOLE_DIGITS_MAX {
        return Err(beyond);
    }
    let weight = (before - 1).div_euclid(4);
    // The first group has the digits that are above the next multiple of four.
    let first = usize::try_from((before - 1).rem_euclid(4) + 1).unwrap_or(1);
    let mut groups = Vec::with_capacity(digits.len() / 4 + 2);
    let (head, mut rest) = digits.split_at(first.min(digits.len()));
    groups.push(group(head, first));
    while !rest.is_empty() {
        let (four, behind) = rest.split_at(rest.len().min(4));
        groups.push(group(four, 4));
        rest = behind;
    }
    if groups.len() > GROUPS_MAX {
        return Err("it has more than 12000 digits");
    }
    let count = u16::try_from(groups.len()).unwrap_or(u16::MAX);
    push_words(out, &[count, word(weight), sign, word(scale)]);
    push_words(out, &groups);
    Ok(())
}

/// Appends what is no number.
pub(crate) fn push_nan(out: &mut Vec<u8>) {
    push_words(out, &[0, 0, NOT_A_NUMBER, 0]);
}

/// The value of up to four digits, the first `width` of which the group has.
fn group(digits: &str, width: usize) -> u16 {
    let value = digits.bytes().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
    (digits.len()..width).fold(value, |value, _| value * 10)
}

/// The lower half of a number that has been checked to fit; of a negative one, its complement.
fn word(number: i64) -> u16 {
    let [.., high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}

fn push_words(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Result<Vec<u16>, &'static str> {
        assert!(is_number(text), "{text}");
        let mut out = Vec::new();
        push(text, &mut out)?;
        Ok(out.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
    }

    #[test]
    fn numbers_are_groups_of_four_digits() {
        let minus = |number: u16| number.wrapping_neg();
        for (text, expected) in [
            ("0", vec![0, 0, 0, 0]),
            ("-0.00", vec![0, 0, 0, 2]),
            ("1", vec![1, 0, 0, 0, 1]),
            ("-12345.678", vec![3, 1, NEGATIVE, 3, 1, 2345, 6780]),
            ("1e4", vec![1, 1, 0, 0, 1]),
            ("1.5e3", vec![1, 0, 0, 0, 1500]),
            ("+00120.0", vec![1, 0, 0, 1, 120]),
            ("0.00012", vec![2, minus(1), 0, 5, 1, 2000]),
            ("1e-5", vec![1, minus(2), 0, 5, 1000]),
            ("10000000000", vec![1, 2, 0, 0, 100]),
            ("0e999999999999999999999", vec![0, 0, 0, 0]),
            ("1e131071", vec![1, 32767, 0, 0, 1000]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_the_server_cannot_hold_is_refused() {
        for (text, why) in [
            ("1e131072", "beyond the range"),
            ("1e999999999999999999999", "beyond the range"),
            ("1e-16384", "behind its point"),
            ("0e-99999", "behind its point"),
            ("1e-999999999999999999999", "beyond the range"),
            (&"1".repeat(12_004), "12000"),
        ] {
            assert!(words(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_told() {
        for text in ["", "-", ".", "1.2.3", "1e", "1e+", "e1", " 1", "1 ", "0x1", "1_0", "١", "NaN", "--1"] {
            assert!(!is_number(text), "{text}");
        }
        for text in ["1", "-1", "+1", "1.", ".5", "007", "1E+3", "1e-3"] {
            assert!(is_number(text), "{text}");
        }
    }

    proptest! {
        /// Read back by another way: the groups one behind the other, and the point put in by the weight.
        #[test]
        fn no_digit_is_lost(text in r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e-?[0-9]{1,2})?") {
            let words = words(&text).unwrap();
            let digits: String = words[4..].iter().map(|group| format!("{group:04}")).collect();
            let exponent = (i64::from(words[1].cast_signed()) + 1) * 4 - digits.len() as i64;
            let sign = if words[2] == NEGATIVE { "-" } else { "" };
            let read = format!("{sign}0{digits}e{exponent}");
            prop_assert!(crate::decimal::Decimal::same(&read, &text), "{} became {}", text, read);
        }
    }
}
