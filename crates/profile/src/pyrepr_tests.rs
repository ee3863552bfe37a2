use super::*;
use proptest::prelude::*;

fn ints(numbers: &[i128]) -> Value {
    Value::List(numbers.iter().map(|number| Value::Int(*number)).collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn cells_of_real_reports() {
    // Forms of shared facts, section 3.1.
    assert_eq!(parse("((8944, 1024), (1024, 2816))"), Ok(Value::List(vec![ints(&[8944, 1024]), ints(&[1024, 2816])])));
    assert_eq!(parse("(33,)"), Ok(ints(&[33])));
    assert_eq!(parse("()"), Ok(ints(&[])));
    assert_eq!(
        parse("(((16, 32), (16, 32)), ())"),
        Ok(Value::List(vec![Value::List(vec![ints(&[16, 32]), ints(&[16, 32])]), ints(&[])]))
    );
    assert_eq!(parse("[[1024], []]"), Ok(Value::List(vec![ints(&[1024]), ints(&[])])));
    assert_eq!(
        parse("('c10::BFloat16', '', \"it's\")"),
        Ok(Value::List(vec![text("c10::BFloat16"), text(""), text("it's")]))
    );
    assert_eq!(
        parse("[{'name': 'k', 'count': 48, 'total_duration_us': np.float64(5308.273)}]"),
        Ok(Value::List(vec![Value::Map(vec![
            ("name".into(), text("k")),
            ("count".into(), Value::Int(48)),
            ("total_duration_us".into(), Value::Float(5308.273)),
        ])]))
    );
}

#[test]
fn numbers_words_and_wrappers() {
    for (source, value) in [
        ("None", Value::None),
        (" True ", Value::Bool(true)),
        ("-17", Value::Int(-17)),
        ("9.9999999999999995e-07", Value::Float(1e-06)),
        ("1e+3", Value::Float(1000.0)),
        ("-inf", Value::Float(f64::NEG_INFINITY)),
        ("np.int64(-3)", Value::Int(-3)),
        ("array([1, 2], dtype=int32)", ints(&[1, 2])),
        ("torch.Size([4])", ints(&[4])),
        ("torch.bfloat16", text("torch.bfloat16")),
        ("{1, 2}", ints(&[1, 2])),
        ("{}", Value::Map(vec![])),
        ("{3: None}", Value::Map(vec![("3".into(), Value::None)])),
        ("(7)", Value::Int(7)),
        ("set()", ints(&[])),
        // 2^130 does not fit 128 bits.
        ("1361129467683753853853498429727072845824", Value::Float(1361129467683753853853498429727072845824.0)),
    ] {
        assert_eq!(parse(source), Ok(value), "{source}");
    }
    assert!(matches!(parse("nan"), Ok(Value::Float(number)) if number.is_nan()));
    assert!(matches!(parse("np.float64(nan)"), Ok(Value::Float(number)) if number.is_nan()));
}

#[test]
fn escapes_are_pythons() {
    // Values by CPython 3.11 `ast.literal_eval` of the same text.
    for (source, value) in [
        (r"'a\'b'", "a'b"),
        (r#""a\"b""#, "a\"b"),
        (r"'\n\t\\'", "\n\t\\"),
        (r"'\x41\u00b5\U0001F600'", "Aµ😀"),
        (r"'\101\0'", "A\0"),
        (r"'\q'", "\\q"),
        (r"'\ud800'", "\u{fffd}"),
        (r"b'ab'", "ab"),
    ] {
        assert_eq!(parse(source), Ok(text(value)), "{source}");
    }
}

#[test]
fn errors_have_a_position() {
    for (source, offset) in [
        ("", 0),
        ("(1, 2", 5),
        ("(1 2)", 3),
        ("'abc", 0),
        ("{'a' 1}", 5),
        ("[1] x", 4),
        ("1.2.3", 0),
        ("f(1, 2)", 6),
        ("{[1]: 2}", 5),
        (r"'\xZZ'", 1),
        ("(,)", 1),
        ("?", 0),
    ] {
        match parse(source) {
            Err(error) => assert_eq!(error.offset, offset, "{source}: {error}"),
            Ok(value) => panic!("{source} gave {value:?}"),
        }
    }
}

#[test]
fn hostile_cells_are_bounded() {
    assert_eq!(parse(&"(".repeat(1 << 20)).map_err(|error| error.reason), Err("nested too deeply"));
    assert_eq!(parse(&"{1:".repeat(1 << 20)).map_err(|error| error.reason), Err("nested too deeply"));
    assert_eq!(parse(&"f(".repeat(1 << 20)).map_err(|error| error.reason), Err("nested too deeply"));
    let many = format!("[{}]", "0,".repeat(MAX_VALUES));
    assert_eq!(parse(&many).map_err(|error| error.reason), Err("too many values in one cell"));
}

/// Writes a value as CPython's `repr` would, with tuples or lists for lists.
fn repr(value: &Value, tuples: bool) -> String {
    let quoted = |text: &str| {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut out = String::from(quote);
        for letter in text.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                letter if letter == quote => out.extend(['\\', letter]),
                letter if letter.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
                letter => out.push(letter),
            }
        }
        out.push(quote);
        out
    };
    match value {
        Value::None => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => format!("np.float64({number:?})"),
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let inner: Vec<String> = items.iter().map(|item| repr(item, tuples)).collect();
            match (tuples, items.len()) {
                (true, 1) => format!("({},)", inner[0]),
                (true, _) => format!("({})", inner.join(", ")),
                (false, _) => format!("[{}]", inner.join(", ")),
            }
        }
        Value::Map(pairs) => {
            let inner: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}: {}", quoted(key), repr(value, tuples))).collect();
            format!("{{{}}}", inner.join(", "))
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| Value::Int(number.into())),
        prop::num::f64::NORMAL.prop_map(Value::Float),
        "\\PC{0,12}".prop_map(Value::Text),
        any::<String>().prop_map(Value::Text),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::vec(("[a-zA-Z_ ']{0,8}", inner), 0..4).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn what_repr_writes_is_read_back(value in values(), tuples in any::<bool>()) {
        prop_assert_eq!(parse(&repr(&value, tuples)), Ok(value));
    }

    #[test]
    fn any_text_is_a_value_or_an_error(text in "[\\[\\](){}'\",:.a-f0-9 \\\\+-]{0,80}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.offset <= text.len());
        }
    }
}

/// A few bytes of a real-looking cell changed, doubled, dropped or swapped, `count` times.
fn mutate_and_parse(count: u64) {
    const SEEDS: [&str; 4] = [
        "[{'name': 'Cijk_Alik', 'stream': 0, 'count': 48, 'total_duration_us': np.float64(5308.273), 'x': [1, (2,)]}]",
        "{'M': 8944, 'bias': False, 'stride_A': (1024, 1), 'dtype_A_B': ('c10::BFloat16', None), 'q': -1.5e-07}",
        "(((16, 16, 559, 32), (16, 16)), (), \"it's \\x41\", array([1, 2], dtype=int64), nan, -inf)",
        "('', '0.', 'True', '[-1]', \"a\\\"b\", '\\u00b5', 123456789012345678901234567890)",
    ];
    const BYTES: &[u8] = b"()[]{}'\"\\,:.=e+-0n\xc2\xb5 ";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut accepted = 0;
    for round in 0..count {
        let mut bytes = SEEDS[round as usize % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = BYTES[random(BYTES.len())],
                1 => bytes.insert(at, BYTES[random(BYTES.len())]),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        accepted += u64::from(parse(&String::from_utf8_lossy(&bytes)).is_ok());
    }
    // Some mutations leave a value whole and most do not: the loop exercises both ways out.
    assert!(accepted > count / 1000 && accepted < count, "{accepted} of {count} accepted");
}

#[test]
fn mutated_cells_do_not_panic() {
    mutate_and_parse(50_000);
}

#[test]
#[ignore = "a million mutated cells take some seconds"]
fn a_million_mutated_cells_do_not_panic() {
    mutate_and_parse(1_000_000);
}
