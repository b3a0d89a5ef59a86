//! What one way of writing JSON has to keep together, and what it has to keep apart.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn form(document: &str) -> Result<String, NotCanonical> {
    canonical(document.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn documents_are_written_in_one_way() {
    for (document, one) in [
        (" null ", "null"),
        ("\t[ ]\n", "[]"),
        ("{ }", "{}"),
        (r#"{"b":1,"a":[true,false,{}]}"#, r#"{"a":[true,false,{}],"b":1}"#),
        (r#"{"a":1,"b":2,"\u0061":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"a":{"x":1},"a":{"y":2}}"#, r#"{"a":{"y":2}}"#),
        (r#"{"é":1,"z":2,"Z":3,"":4}"#, r#"{"":4,"Z":3,"z":2,"é":1}"#),
        (r#""\u00e9\/\u0000\u001F\n\t\"\\""#, r#""é/\u0000\u001f\n\t\"\\""#),
        (r#""\ud83d\ude00""#, "\"\u{1f600}\""),
        (r#"[1.0,100,-0,1e-2]"#, "[1,1e2,0,1e-2]"),
        (r#"["}","]",",",":"]"#, r#"["}","]",",",":"]"#),
        (r#"{"\\":"\\\\","\"":"\\\""}"#, r#"{"\"":"\\\"","\\":"\\\\"}"#),
    ] {
        assert_eq!(form(document).unwrap(), one, "{document}");
    }
}

#[test]
fn what_has_no_canonical_form_is_told() {
    for bad in ["", "{", "[1,]", "{\"a\":1,}", "nul", "1 2", "01", "\"\\ud800\"", "\u{feff}{}", "'a'", "+1"] {
        assert_eq!(form(bad), Err(NotCanonical::NotJson), "{bad:?}");
    }
    assert_eq!(canonical(b"\"\xff\""), Err(NotCanonical::NotJson));
    assert_eq!(form("[1e99999999999999999999]"), Err(NotCanonical::Exponent));
}

#[test]
fn deep_documents_are_an_error_and_not_a_crash() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(form(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(form(&nested(DEPTH_MAX + 1)), Err(NotCanonical::TooDeep));
    assert_eq!(form(&nested(1_000_000)), Err(NotCanonical::TooDeep));
    let objects = format!("{}1{}", "{\"a\":".repeat(200_000), "}".repeat(200_000));
    assert_eq!(form(&objects), Err(NotCanonical::TooDeep));
}

/// Any document; its numbers are whole, so that the model below can write them in other ways.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            proptest::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a document in a way of its own for each seed: whitespace, order of members, escapes, zeros
/// behind numbers, and members that a later one of the same name replaces.
fn write_somehow(value: &Value, random: &mut fastrand::Rng, out: &mut String) {
    let space = |random: &mut fastrand::Rng, out: &mut String| {
        for _ in 0..random.usize(0..3) {
            out.push(*random.choice(&[' ', '\t', '\n', '\r']).unwrap());
        }
    };
    space(random, out);
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => {
            let n = n.to_string();
            match random.u8(0..4) {
                0 => out.push_str(&n),
                1 => out.push_str(&format!("{n}.000")),
                2 => out.push_str(&format!("{n}00E-2")),
                _ => out.push_str(&format!("{n}.0e+00")),
            }
        }
        Value::String(s) => write_string_somehow(s, random, out),
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                write_somehow(item, random, out);
            }
            space(random, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            random.shuffle(&mut members);
            out.push('{');
            for (n, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                if random.bool() {
                    write_string_somehow(name, random, out);
                    out.push_str(":[\"replaced\"],");
                }
                space(random, out);
                write_string_somehow(name, random, out);
                space(random, out);
                out.push(':');
                write_somehow(value, random, out);
            }
            space(random, out);
            out.push('}');
        }
    }
    space(random, out);
}

fn write_string_somehow(text: &str, random: &mut fastrand::Rng, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if random.bool() || c < ' ' || c == '"' || c == '\\' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&if random.bool() {
                    format!("\\u{unit:04x}")
                } else {
                    format!("\\u{unit:04X}")
                });
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

/// A decimal of up to nineteen digits, with its exact value as digits and power of ten.
fn decimals() -> impl Strategy<Value = (i64, i8)> {
    (any::<i64>(), -30_i8..30)
}

/// The value with all zeros at the end moved into the power.
fn reduced((mut digits, power): (i64, i8)) -> (i64, i32) {
    let mut power = i32::from(power);
    while digits != 0 && digits % 10 == 0 {
        digits /= 10;
        power += 1;
    }
    if digits == 0 { (0, 0) } else { (digits, power) }
}

proptest! {
    #[test]
    fn the_form_does_not_depend_on_how_it_was_written(document in documents(), seed: u64) {
        let mut other = String::new();
        write_somehow(&document, &mut fastrand::Rng::with_seed(seed), &mut other);
        let one = form(&document.to_string()).unwrap();
        prop_assert_eq!(&one, &form(&other).unwrap());
        // It is JSON, and its own canonical form.
        prop_assert_eq!(&one, &form(&one).unwrap());
    }

    #[test]
    fn other_documents_have_other_forms(a in documents(), b in documents()) {
        prop_assert_eq!(a == b, form(&a.to_string()) == form(&b.to_string()));
    }

    #[test]
    fn decimals_are_equal_when_their_values_are(a in decimals(), b in decimals()) {
        let written = |(digits, power): (i64, i8)| form(&format!("{digits}e{power}")).unwrap();
        prop_assert_eq!(reduced(a) == reduced(b), written(a) == written(b));
    }

    #[test]
    fn decimals_written_with_a_point_are_the_same_value(digits in any::<u64>(), places in 1_usize..25) {
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        prop_assert_eq!(form(&format!("{whole}.{fraction}")), form(&format!("{digits}e-{places}")));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = canonical(&bytes);
    }
}
