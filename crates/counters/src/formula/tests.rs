use super::*;
use proptest::prelude::*;

fn value(text: &str) -> f64 {
    let formula = Formula::parse(text).unwrap();
    formula
        .eval(|operand| match operand {
            Operand::Counter("A_X", Reduction::Sum) => Ok(6.0),
            Operand::Counter("A_X", Reduction::Max) => Ok(4.0),
            Operand::Counter("A_X", Reduction::Mean) => Ok(2.0),
            Operand::Counter("GRBM_T", Reduction::Max) => Ok(100.0),
            Operand::Constant(Constant::CuNum) => Ok(304.0),
            other => Err(format!("{other:?}")),
        })
        .unwrap()
}

#[test]
fn arithmetic_is_that_of_school() {
    assert_eq!(value("1 + 2*3 - 8/4"), 5.0);
    assert_eq!(value("(1+2)*3"), 9.0);
    assert_eq!(value("10 - 3 - 2"), 5.0);
    assert_eq!(value("64 / 4 / 2"), 8.0);
    assert_eq!(value("-2*-3"), 6.0);
    assert_eq!(value("1e3 + 2.5e-1"), 1000.25);
    assert_eq!(value("max(3, 2+2) + min(1, 5)"), 5.0);
    assert!(value("0/0").is_nan());
}

#[test]
fn counters_are_reduced_as_written_or_as_usual() {
    assert_eq!(value("A_X"), 6.0);
    assert_eq!(value("reduce(A_X, max)"), 4.0);
    assert_eq!(value("reduce(A_X,avr)"), 2.0);
    assert_eq!(value("100*A_X/GRBM_T/CU_NUM"), 600.0 / 100.0 / 304.0);
}

#[test]
fn what_only_the_sdk_computes_is_understood_for_what_it_counts() {
    let formula =
        Formula::parse("reduce(accumulate(SQ_LEVEL_WAVES, HIGH_RES),sum)/reduce(GRBM_GUI_ACTIVE,max)/CU_NUM").unwrap();
    assert_eq!(formula.counters(), ["SQ_LEVEL_WAVES", "GRBM_GUI_ACTIVE"]);
    assert!(formula.is_sdk_only());
    assert_eq!(formula.accumulations(), 1);
    assert_eq!(formula.eval(|_| Ok::<_, ()>(1.0)), Err(EvalError::SdkOnly));
    let by_dimension = Formula::parse("reduce(TCC_HIT, sum, [DIMENSION_XCC])").unwrap();
    assert_eq!((by_dimension.counters(), by_dimension.is_sdk_only()), (&["TCC_HIT".to_owned()][..], true));
}

#[test]
fn mistakes_are_told_with_their_column() {
    let wrong = |text: &str| Formula::parse(text).unwrap_err();
    assert_eq!(wrong("1 +").column, 4);
    assert_eq!(wrong("(1").what, "`)` was expected");
    assert_eq!(wrong("1 2").column, 3);
    assert_eq!(wrong("foo(1)").column, 5);
    assert_eq!(wrong("1.2.3").column, 1);
    assert_eq!(wrong("reduce(A_X, most)").what, "`sum`, `max`, `min` or `avr` was expected");
    assert!(wrong(&"(".repeat(1000)).what.contains("deeper"));
    assert!(wrong(&"-".repeat(1000)).what.contains("deeper"));
    assert!(wrong(&"1+".repeat(20_000)).what.contains("16 KiB"));
}

#[test]
fn a_missing_operand_is_handed_on() {
    let formula = Formula::parse("A_X + B_Y").unwrap();
    let found = formula.eval(|operand| match operand {
        Operand::Counter("A_X", _) => Ok(1.0),
        _ => Err("B_Y is not there"),
    });
    assert_eq!(found, Err(EvalError::Operand("B_Y is not there")));
}

/// A random expression as text, and its value by Rust's own arithmetic.
fn expression() -> impl Strategy<Value = (String, f64)> {
    let leaf = (1_u32..1000).prop_map(|n| (n.to_string(), f64::from(n)));
    leaf.prop_recursive(5, 40, 2, |inner| {
        (inner.clone(), inner, 0..4).prop_map(|((a, x), (b, y), op)| match op {
            0 => (format!("({a} + {b})"), x + y),
            1 => (format!("({a}-{b})"), x - y),
            2 => (format!("({a} * {b})"), x * y),
            _ => (format!("max({a},{b})"), x.max(y)),
        })
    })
}

proptest! {
    #[test]
    fn random_expressions_have_rusts_value((text, expected) in expression()) {
        let found = Formula::parse(&text).unwrap().eval(|_| Err(())).unwrap();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-A-Z_a-z0-9+*/(), .\\[\\]e]{0,80}") {
        if let Ok(formula) = Formula::parse(&text) {
            let _ = formula.eval(|_| Ok::<f64, ()>(1.0));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in ".{0,60}") {
        let _ = Formula::parse(&text);
    }
}
