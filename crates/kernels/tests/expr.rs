//! The expression language against an independent evaluator, and against hostile text.
#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_kernels::expr::{Expr, Problem, Scope};
use kbench_kernels::{DeviceInfo, Symbols, TensorInfo, Value};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;

struct Case;

impl Symbols for Case {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "a" => Value::Int(7),
            "b" => Value::Int(-3),
            "c" => Value::Int(0),
            "d" => Value::Int(1 << 40),
            "ctx" => Value::List(Cow::Borrowed(&[5, 2, 9])),
            "empty" => Value::List(Cow::Borrowed(&[])),
            "causal" => Value::Bool(true),
            "routing" => Value::Word("zipf".into()),
            _ => return None,
        })
    }

    fn tensor(&self, name: &str) -> Option<TensorInfo> {
        match name {
            "q" => Some(TensorInfo { dims: vec![4, 8, 128], bits: 16 }),
            "packed" => Some(TensorInfo { dims: vec![3, 5], bits: 4 }),
            "huge" => Some(TensorInfo { dims: vec![u64::MAX; 3], bits: 8 }),
            _ => None,
        }
    }
}

fn eval(text: &str) -> Result<Value<'static>, String> {
    let device = DeviceInfo::of_arch("gfx942:sramecc+:xnack-", 304);
    let constants = BTreeMap::from([("PART".to_owned(), 256)]);
    let scope = Scope { symbols: &Case, constants: &constants, device: &device, local: None };
    let expr = Expr::parse(text).map_err(|error| error.to_string())?;
    expr.value(&scope).map_err(|error| error.to_string()).map(|value| match value {
        Value::Int(value) => Value::Int(value),
        Value::Float(value) => Value::Float(value),
        Value::Bool(value) => Value::Bool(value),
        Value::Word(word) => Value::Word(word.into_owned().into()),
        Value::List(values) => Value::List(values.into_owned().into()),
    })
}

#[test]
fn values() {
    // Expected values by hand; divisions as C99 6.5.5 defines them.
    let int = Value::Int;
    for (text, wanted) in [
        ("1 + 2 * 3", int(7)),
        ("(1 + 2) * 3", int(9)),
        ("10 - 4 - 3", int(3)),
        ("-7 / 2", int(-3)),
        ("-7 % 2", int(-1)),
        ("7 / -2", int(-3)),
        ("2 - -3", int(5)),
        ("0x10 + 1_000", int(1016)),
        ("ceil_div(1023, PART)", int(4)),
        ("ceil_div(0, 8)", int(0)),
        ("align_up(129, 64)", int(192)),
        ("min(3, 1, 2)", int(1)),
        ("max(ctx)", int(9)),
        ("min(ctx)", int(2)),
        ("sum(ctx)", int(16)),
        ("len(ctx)", int(3)),
        ("sum(4)", int(4)),
        ("next_pow2(65)", int(128)),
        ("next_pow2(64)", int(64)),
        ("next_pow2(0)", int(1)),
        ("log2(1)", int(0)),
        ("log2(1023)", int(9)),
        ("log2(1024)", int(10)),
        ("log2(0.5)", Value::Float(-1.0)),
        ("floor(-0.5)", int(-1)),
        ("ceil(2.1)", int(3)),
        ("sqrt(16)", Value::Float(4.0)),
        ("1 / sqrt(64)", Value::Float(0.125)),
        ("1 / 4", int(0)),
        ("1.0 / 4", Value::Float(0.25)),
        ("2.5e-1 * 2", Value::Float(0.5)),
        ("log2e", Value::Float(std::f64::consts::LOG2_E)),
        ("select(causal, 1, 1 / 0)", int(1)),
        ("false && 1 / 0 == 1", Value::Bool(false)),
        ("true || nothing", Value::Bool(true)),
        ("!causal || a > 6", Value::Bool(true)),
        ("routing == 'zipf' && arch == 'gfx942'", Value::Bool(true)),
        ("routing != 'zipf'", Value::Bool(false)),
        ("cu_count * wave_size", int(304 * 64)),
        ("lds_limit", int(65536)),
        ("bytes(q)", int(4 * 8 * 128 * 2)),
        ("len(q)", int(4096)),
        ("dim(q, 1)", int(8)),
        ("stride(q, 0)", int(2048)),
        ("stride(q, 2)", int(2)),
        ("bits(packed)", int(4)),
        ("bytes(packed)", int(8)),
        ("has(q) && has(a) && has(PART) && !has(bias)", Value::Bool(true)),
        ("1 == 1.0", Value::Bool(true)),
    ] {
        assert_eq!(eval(text), Ok(wanted), "{text}");
    }
}

#[test]
fn errors_name_the_column_and_the_remedy() {
    for (text, column, words) in [
        ("", 1, "empty"),
        ("1 +", 4, "the end where a number"),
        ("1 2", 3, "2 where an operator"),
        ("(1", 3, "`)`"),
        ("a @ b", 3, "'@' has no meaning"),
        ("'open", 1, "no closing quote"),
        ("12abc", 1, "`12abc` is no number"),
        ("1e999", 1, "is no number"),
        ("1 < 2 < 3", 7, "do not chain"),
        ("min", 1, "call it"),
        ("minimum(1)", 1, "no function `minimum`; there are ceil_div"),
        ("ceil_div(1)", 1, "takes 2 arguments, not 1"),
        ("dim(q)", 6, "number of a dimension"),
        ("dim(1, 2)", 5, "the name of a tensor"),
        ("1 + nothing", 5, "`nothing` is neither"),
        ("bytes(nothing)", 1, "no tensor `nothing`"),
        ("dim(q, 3)", 1, "3 dimensions, no dimension 3"),
        ("dim(q, -1)", 1, "no dimension -1"),
        ("stride(packed, 0)", 1, "no whole number of bytes"),
        ("bytes(huge)", 1, "does not fit 128 bits"),
        ("1 / c", 3, "division by zero"),
        ("1.5 % 0.0", 5, "division by zero"),
        ("ceil_div(1, c)", 1, "division by zero"),
        ("ceil_div(-1, 2)", 1, "a size and a positive unit"),
        ("ctx + 1", 1, "take max(..)"),
        ("ctx == 1", 5, "take max(..)"),
        ("max(empty)", 1, "an empty list"),
        ("causal + 1", 1, "a truth value where a number"),
        ("1 && true", 1, "a whole number where a truth value"),
        ("routing == 1", 9, "cannot be compared"),
        ("d * d * d * d", 11, "does not fit 128 bits"),
        ("sqrt(-1)", 1, "not negative"),
        ("log2(0)", 1, "a positive number"),
        ("1e308 * 10", 7, "not a finite number"),
        ("select(a, 1, 2)", 8, "truth value"),
    ] {
        let message = eval(text).unwrap_err();
        assert!(message.starts_with(&format!("column {column}: ")), "{text}: {message}");
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn nesting_and_length_are_bounded() {
    let deep = "(".repeat(900) + "1" + &")".repeat(900);
    assert_eq!(Expr::parse(&deep).unwrap_err().problem, Problem::TooDeep);
    assert!(Expr::parse(&("(".repeat(39) + "1" + &")".repeat(39))).is_ok());
    let negations = "-".repeat(1500) + "1";
    assert_eq!(Expr::parse(&negations).unwrap_err().problem, Problem::TooDeep);
    assert_eq!(Expr::parse(&"1".repeat(2001)).unwrap_err().problem, Problem::TooLong(2001));
    // A chain is as deep as it is long, but within the longest text.
    let chain = vec!["1"; 1000].join("+");
    assert_eq!(eval(&chain), Ok(Value::Int(1000)));
}

#[test]
fn narrow_types_are_checked() {
    let device = DeviceInfo::of_arch("gfx942", 304);
    let constants = BTreeMap::new();
    let scope = Scope { symbols: &Case, constants: &constants, device: &device, local: Some(("it", 5)) };
    assert_eq!(Expr::parse("it * 2").unwrap().fit::<u32>(&scope, "u32"), Ok(10));
    let error = Expr::parse("d").unwrap().fit::<u32>(&scope, "u32").unwrap_err();
    assert_eq!(error.problem, Problem::Range { value: 1 << 40, wanted: "u32" });
    assert!(Expr::parse("b").unwrap().fit::<u64>(&scope, "u64").is_err());
    assert!(Expr::parse("0.5").unwrap().int(&scope).is_err());
    assert_eq!(Expr::parse("1").unwrap().float(&scope), Ok(1.0));
}

/// An expression as a tree, evaluated here on its own.
#[derive(Clone, Debug)]
enum Tree {
    Int(i64),
    Name(&'static str, i128),
    Negate(Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
    CeilDiv(Box<Tree>, Box<Tree>),
    Min(Vec<Tree>),
    Select(&'static str, Box<Tree>, Box<Tree>, Box<Tree>, Box<Tree>),
}

impl Tree {
    fn value(&self) -> Option<i128> {
        match self {
            Tree::Int(value) => Some((*value).into()),
            Tree::Name(_, value) => Some(*value),
            Tree::Negate(tree) => tree.value()?.checked_neg(),
            Tree::Binary(op, a, b) => {
                let (a, b) = (a.value()?, b.value()?);
                match *op {
                    "+" => a.checked_add(b),
                    "-" => a.checked_sub(b),
                    "*" => a.checked_mul(b),
                    "/" => a.checked_div(b),
                    "%" => a.checked_rem(b),
                    _ => unreachable!(),
                }
            }
            Tree::CeilDiv(a, b) => {
                let (a, b) = (a.value()?, b.value()?);
                if a < 0 || b <= 0 {
                    return None;
                }
                // The other formula: the smallest count whose product reaches a.
                let floor = a.div_euclid(b);
                Some(if floor * b == a { floor } else { floor + 1 })
            }
            Tree::Min(trees) => {
                let values: Option<Vec<i128>> = trees.iter().map(Tree::value).collect();
                values?.into_iter().reduce(|a, b| if b < a { b } else { a })
            }
            Tree::Select(op, a, b, yes, no) => {
                let (a, b) = (a.value()?, b.value()?);
                let holds = match *op {
                    "<" => a < b,
                    ">=" => a >= b,
                    "==" => a == b,
                    "!=" => a != b,
                    _ => unreachable!(),
                };
                if holds { yes.value() } else { no.value() }
            }
        }
    }

    /// With only the parentheses that C's precedence and left association need.
    fn text(&self, out: &mut String, outer: u8) {
        match self {
            Tree::Int(value) if *value < 0 => out.push_str(&format!("(0 - {})", value.unsigned_abs())),
            Tree::Int(value) => out.push_str(&value.to_string()),
            Tree::Name(name, _) => out.push_str(name),
            Tree::Negate(tree) => {
                out.push('-');
                tree.text(out, 3);
            }
            Tree::Binary(op, a, b) => {
                let level = if matches!(*op, "+" | "-") { 1 } else { 2 };
                let open = level < outer;
                if open {
                    out.push('(');
                }
                a.text(out, level);
                out.push_str(op);
                b.text(out, level + 1);
                if open {
                    out.push(')');
                }
            }
            Tree::CeilDiv(a, b) => Self::call(out, "ceil_div", &[a, b]),
            Tree::Min(trees) => Self::call(out, "min", &trees.iter().collect::<Vec<_>>()),
            Tree::Select(op, a, b, yes, no) => {
                out.push_str("select(");
                a.text(out, 0);
                out.push_str(op);
                b.text(out, 0);
                out.push(',');
                yes.text(out, 0);
                out.push(',');
                no.text(out, 0);
                out.push(')');
            }
        }
    }

    fn call(out: &mut String, name: &str, arguments: &[&Tree]) {
        out.push_str(name);
        for (index, argument) in arguments.iter().enumerate() {
            out.push_str(if index == 0 { " ( " } else { " , " });
            argument.text(out, 0);
        }
        out.push(')');
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let name = prop::sample::select(vec![("a", 7i128), ("b", -3), ("c", 0), ("d", 1 << 40), ("PART", 256)]);
    let leaf = prop_oneof![
        (-20i64..300).prop_map(Tree::Int),
        any::<i64>().prop_map(|value| Tree::Int(value.checked_add(1).unwrap_or(0))),
        name.prop_map(|(name, value)| Tree::Name(name, value)),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed().prop_map(Tree::Negate),
            (prop::sample::select(vec!["+", "-", "*", "/", "%"]), boxed(), boxed())
                .prop_map(|(op, a, b)| Tree::Binary(op, a, b)),
            (boxed(), boxed()).prop_map(|(a, b)| Tree::CeilDiv(a, b)),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::Min),
            (prop::sample::select(vec!["<", ">=", "==", "!="]), boxed(), boxed(), boxed(), boxed())
                .prop_map(|(op, a, b, yes, no)| Tree::Select(op, a, b, yes, no)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn whole_numbers_agree_with_an_independent_evaluator(tree in trees()) {
        let mut text = String::new();
        tree.text(&mut text, 0);
        prop_assume!(text.len() <= 2000);
        let found = eval(&text);
        match tree.value() {
            Some(value) => prop_assert_eq!(found, Ok(Value::Int(value)), "{}", text),
            None => prop_assert!(found.is_err(), "{} gives {:?}", text, found),
        }
    }

    #[test]
    fn no_text_can_panic(text in "[ a-d0-9+*/%()<>=!&|,.'e_-]{0,60}") {
        let _ = eval(&text);
    }

    #[test]
    fn no_unicode_can_panic(text in any::<String>()) {
        let _ = eval(&text);
    }

    #[test]
    fn no_mixture_of_words_can_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "min", "max(", "select(", "ctx", "q", "dim(", "stride(", ")", ",", "1", "0.5", "'w'", "&&", "==", "-", "!",
            "has(", "len(", "a", "causal", "huge", "packed", "bytes(", "1e300", "d", "*", "floor(",
        ]), 0..20)
    ) {
        let _ = eval(&words.join(" "));
    }
}
