//! Dates and times as PostgreSQL keeps them: days and microseconds since 2000-01-01.
//!
//! Read are the forms of RFC 3339 and those that PostgreSQL itself writes (ISO): `2024-02-29`,
//! `2024-02-29 23:59:60.5+05:30`, `0044-03-15 BC`, `infinity`. Words such as `now` and names of months or zones
//! are not: they mean something else on another day or in another session.

const DAY_US: i64 = 86_400_000_000;
const SECOND_US: i64 = 1_000_000;

/// Days from 0000-03-01 to 2000-01-01 in the Gregorian calendar.
const EPOCH_DAYS: i64 = 730_425;
/// 1970-01-01, in milliseconds before the epoch.
const UNIX_BEFORE_MS: i64 = 946_684_800_000;

/// The first day: 4714-11-24 BC, the beginning of Julian days.
const DAY_MIN: i64 = -2_451_545;
/// The last day of a date: 5874897-12-31.
const DATE_MAX: i64 = 2_145_031_948;
/// The first microsecond behind the last timestamp: 294277-01-01.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// Zones are nearer than this to UTC.
const OFFSET_END_S: i64 = 16 * 3600;

/// Why a text is none of these.
pub(crate) type Why = &'static str;

/// A day, or a point that is before or behind all others.
fn infinite(text: &str) -> Option<(i32, i64)> {
    match text {
        "infinity" => Some((i32::MAX, i64::MAX)),
        "-infinity" => Some((i32::MIN, i64::MIN)),
        _ => None,
    }
}

/// Reads a `date`.
pub(crate) fn date(text: &str) -> Result<i32, Why> {
    if let Some((days, _)) = infinite(text) {
        return Ok(days);
    }
    let (text, is_bc) = before_christ(text);
    let (days, rest) = day(text, is_bc)?;
    if !rest.is_empty() {
        return Err("a date is written 2024-02-29, with nothing behind it");
    }
    i32::try_from(days).ok().filter(|_| days <= DATE_MAX).ok_or("it is beyond the range of dates")
}

/// Reads a `time`.
pub(crate) fn time(text: &str) -> Result<i64, Why> {
    let (us, rest) = clock(text)?;
    if rest.is_empty() { Ok(us) } else { Err("a time is written 23:59:59.5, with no zone") }
}

/// Reads a `timestamp`, which has no zone: of UTC the time is taken as it is, others would be lost.
pub(crate) fn timestamp(text: &str) -> Result<i64, Why> {
    if let Some((_, us)) = infinite(text) {
        return Ok(us);
    }
    match moment(text)? {
        (us, None | Some(0)) => in_range(us),
        _ => {
            Err("it has an offset, which a timestamp does not keep; write CAST(… AS timestamptz) around the \
                  parameter, or make the column a timestamptz")
        }
    }
}

/// Reads a `timestamptz`.
pub(crate) fn timestamptz(text: &str) -> Result<i64, Why> {
    if let Some((_, us)) = infinite(text) {
        return Ok(us);
    }
    match moment(text)? {
        (us, Some(offset_s)) => in_range(us - offset_s * SECOND_US),
        (_, None) => Err("it has no offset, such as Z or +02:00"),
    }
}

/// The same of milliseconds since 1970-01-01 UTC.
pub(crate) fn timestamptz_of_ms(ms: i64) -> Result<i64, Why> {
    let us = ms.checked_sub(UNIX_BEFORE_MS).and_then(|ms| ms.checked_mul(1000));
    us.map_or(Err("it is beyond the range of timestamps"), in_range)
}

fn in_range(us: i64) -> Result<i64, Why> {
    if (DAY_MIN * DAY_US..TIMESTAMP_END).contains(&us) {
        Ok(us)
    } else {
        Err("it is beyond the range of timestamps")
    }
}

fn before_christ(text: &str) -> (&str, bool) {
    text.strip_suffix(" BC").map_or((text, false), |text| (text, true))
}

/// A day, perhaps with a time, perhaps with an offset from UTC in seconds.
fn moment(text: &str) -> Result<(i64, Option<i64>), Why> {
    let (text, is_bc) = before_christ(text);
    let (days, rest) = day(text, is_bc)?;
    // Ten times the range of timestamps does not overflow.
    if !(DAY_MIN - 2..TIMESTAMP_END / DAY_US + 2).contains(&days) {
        return Err("it is beyond the range of timestamps");
    }
    if rest.is_empty() {
        return Ok((days * DAY_US, None));
    }
    let rest = rest.strip_prefix(['T', 't', ' ']).ok_or("a T or a space has to stand behind its date")?;
    let (us, rest) = clock(rest)?;
    Ok((days * DAY_US + us, offset(rest)?))
}

/// `2024-02-29`: days since the epoch, and what stands behind it.
fn day(text: &str, is_bc: bool) -> Result<(i64, &str), Why> {
    let form = "a date is written 2024-02-29";
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(form);
    };
    let (day, behind) = rest.split_at_checked(2).ok_or(form)?;
    if !(4..=7).contains(&year.len()) || month.len() != 2 {
        return Err(form);
    }
    let (year, month, day) =
        (number(year).ok_or(form)?, number(month).ok_or(form)?, number(day).ok_or(form)?);
    if year == 0 {
        return Err("there is no year 0; the one before 1 is 0001 BC");
    }
    let year = if is_bc { 1 - year } else { year };
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return Err("there is no such day");
    }
    let days = days_since_epoch(year, month, day);
    if days < DAY_MIN {
        Err("it is before 4714-11-24 BC, the first day there is")
    } else {
        Ok((days, behind))
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are counted from March, so that the day that is not always there is the last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_DAYS
}

/// `23:59`, `23:59:60`, `23:59:59.123456`: microseconds since midnight, and what stands behind it.
fn clock(text: &str) -> Result<(i64, &str), Why> {
    let form = "a time is written 23:59:59.5";
    let (hours, rest) = two(text).ok_or(form)?;
    let (minutes, mut rest) = rest.strip_prefix(':').and_then(two).ok_or(form)?;
    let (mut seconds, mut us) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (seconds, rest) = two(behind).ok_or(form)?;
        if let Some(behind) = rest.strip_prefix('.') {
            let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            let (fraction, behind) =
                behind.split_at_checked(digits).filter(|(f, _)| !f.is_empty()).ok_or(form)?;
            (us, rest) = (microseconds(fraction), behind);
        }
    }
    // A leap second is the first one of the next minute.
    let is_leap = seconds == 60 && us == 0;
    let all = ((hours * 60 + minutes) * 60 + seconds) * SECOND_US + us;
    if minutes > 59 || (seconds > 59 && !is_leap) || all > DAY_US {
        return Err("there is no such time of day");
    }
    Ok((all, rest))
}

/// Rounded to the nearest, halves to the even one: as the server does.
fn microseconds(fraction: &str) -> i64 {
    let (kept, cut) = fraction.split_at_checked(6).unwrap_or((fraction, ""));
    let us = (kept.len()..6).fold(number(kept).unwrap_or_default(), |us, _| us * 10);
    let rest = cut.trim_end_matches('0');
    let is_up = match rest.as_bytes() {
        [] => false,
        [b'5'] => us % 2 == 1,
        [first, ..] => *first >= b'5',
    };
    us + i64::from(is_up)
}

/// Nothing, `Z`, `+02`, `+0230`, `-02:30` or `+02:30:15`, also behind a space: seconds.
fn offset(text: &str) -> Result<Option<i64>, Why> {
    let form = "an offset is written Z or +02:00";
    let text = match text.strip_prefix(' ') {
        Some("") => return Err(form),
        Some(rest) => rest,
        None if text.is_empty() => return Ok(None),
        None => text,
    };
    if matches!(text, "Z" | "z") {
        return Ok(Some(0));
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').ok_or(form)?),
    };
    let (hours, mut rest) = two(rest).ok_or(form)?;
    let (mut minutes, mut seconds) = (0, 0);
    if !rest.is_empty() {
        let behind = rest.strip_prefix(':');
        (minutes, rest) = two(behind.unwrap_or(rest)).ok_or(form)?;
        if let (Some(_), Some(behind)) = (behind, rest.strip_prefix(':')) {
            (seconds, rest) = two(behind).ok_or(form)?;
        }
    }
    let all = (hours * 60 + minutes) * 60 + seconds;
    if !rest.is_empty() {
        return Err(form);
    }
    if minutes > 59 || seconds > 59 || all >= OFFSET_END_S {
        return Err("there is no such offset from UTC");
    }
    Ok(Some(sign * all))
}

/// Two digits, and what stands behind them.
fn two(text: &str) -> Option<(i64, &str)> {
    let (digits, rest) = text.split_at_checked(2)?;
    Some((number(digits)?, rest))
}

/// Digits and nothing else; few enough for an `i64`.
fn number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_microseconds_since_2000() {
        assert_eq!(date("2000-01-01"), Ok(0));
        assert_eq!(date("1999-12-31"), Ok(-1));
        assert_eq!(date("2000-03-01"), Ok(60));
        assert_eq!(date("0001-01-01"), Ok(-730_119));
        assert_eq!(date("0001-12-31 BC"), Ok(-730_120));
        assert_eq!(date("4714-11-24 BC"), Ok(-2_451_545));
        assert_eq!(date("5874897-12-31"), Ok(2_145_031_948));
        assert_eq!(date("-infinity"), Ok(i32::MIN));
        assert_eq!(time("24:00:00"), Ok(DAY_US));
        assert_eq!(time("01:02"), Ok(3_720_000_000));
        assert_eq!(time("23:59:60"), Ok(DAY_US));
        assert_eq!(time("00:00:00.0000005"), Ok(0));
        assert_eq!(time("00:00:00.0000015"), Ok(2));
        assert_eq!(time("00:00:00.00000051"), Ok(1));
        assert_eq!(time("00:00:00.9999995"), Ok(1_000_000));
        assert_eq!(timestamp("2000-01-01T00:00:00.000001Z"), Ok(1));
        assert_eq!(timestamp("1999-12-31 23:59:59.999999"), Ok(-1));
        assert_eq!(timestamp("infinity"), Ok(i64::MAX));
        assert_eq!(timestamptz("2000-01-01T02:00:00+02:00"), Ok(0));
        assert_eq!(timestamptz("2000-01-01 00:00:00 -0130"), Ok(5_400_000_000));
        assert_eq!(timestamptz("2000-01-01t00:00:00.5-00:00:01"), Ok(1_500_000));
        assert_eq!(timestamptz_of_ms(0), Ok(-946_684_800_000_000));
        assert_eq!(timestamptz_of_ms(i64::MAX), Err("it is beyond the range of timestamps"));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "2024",
            "2024-1-1",
            "24-01-01",
            "2024-02-30",
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "0000-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01x",
            "é024-01-01",
            "2024-01-0é",
            "today",
            "4714-11-23 BC",
            "5874898-01-01",
        ] {
            assert!(date(text).is_err(), "{text}");
        }
        for text in
            ["", "1:00", "24:00:01", "12:60", "12:00:61", "12:00:60.1", "12:00:00.", "12:00Z", "12é00"]
        {
            assert!(time(text).is_err(), "{text}");
        }
        for text in [
            "2024-01-01T00:00:00",
            "2024-01-01",
            "2024-01-01T00:00:00+16",
            "2024-01-01T00:00:00+1",
            "2024-01-01T00:00:00+01:60",
            "2024-01-01T00:00:00 ",
            "2024-01-01T00:00:00 UTC",
            "2024-01-01Z",
            "294277-01-01T00:00:00Z",
            "2024-01-01T00:00:00+010",
        ] {
            assert!(timestamptz(text).is_err(), "{text}");
        }
        assert!(timestamp("2024-01-01T00:00:00+01:00").unwrap_err().contains("offset"));
        assert!(timestamp("2024-01-01T00:00:00+00:00").is_ok());
    }
}
