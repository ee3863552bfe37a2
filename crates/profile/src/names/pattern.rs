//! Patterns of the kernel table: text, text with gaps, whole base names, regular expressions.

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};
use std::sync::OnceLock;

/// A pattern cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PatternError {
    #[error("the pattern `{0}` matches every name; write the part of the name that tells the kernel apart")]
    Everything(String),
    #[error("the pattern `{0}` is no regular expression: {1}")]
    Regex(String, String),
}

/// A pattern. `text` and `te*xt` are found anywhere in the name, `=text` and `=te*xt` are the whole base name, `re:...` is a regular expression
/// found anywhere.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Parts that follow each other with anything between them.
    Within(Vec<String>),
    /// The same over the whole of the kernel's own identifier: the first part begins it, the last one ends it.
    Base(Vec<String>),
    Expression(Expression),
}

impl Pattern {
    /// Reads a pattern. Only its form is looked at: a regular expression is compiled when the first name needs it.
    pub(super) fn parse(pattern: &str) -> Result<Self, PatternError> {
        if let Some(source) = pattern.strip_prefix("re:") {
            return Expression::new(source).map(Self::Expression).map_err(|error| error.about(pattern));
        }
        let (is_base, text) = match pattern.strip_prefix('=') {
            Some(text) => (true, text),
            None => (false, pattern),
        };
        if text.trim_matches(['*', ' ']).is_empty() {
            return Err(PatternError::Everything(pattern.to_owned()));
        }
        let parts = text.split('*').map(str::to_owned).collect();
        Ok(if is_base { Self::Base(parts) } else { Self::Within(parts) })
    }

    /// What is wrong with a pattern that has the right form. It compiles regular expressions, which takes time.
    pub(super) fn check(&self) -> Result<(), PatternError> {
        match self {
            Self::Expression(expression) => {
                expression.check().map_err(|error| error.about(&format!("re:{}", expression.source)))
            }
            Self::Within(_) | Self::Base(_) => Ok(()),
        }
    }

    /// True when it matches a canonical name (or an operator's name) whose own identifier is `base`.
    pub(super) fn is_match(&self, whole: &str, base: &str) -> bool {
        match self {
            Self::Within(parts) => follow(parts, whole.as_bytes()).is_some(),
            Self::Base(parts) => is_whole(parts, base.as_bytes()),
            Self::Expression(expression) => expression.is_match(whole.as_bytes()),
        }
    }
}

/// What follows the parts when each is taken at its first place behind the one before.
fn follow<'t>(parts: &[String], mut text: &'t [u8]) -> Option<&'t [u8]> {
    for part in parts {
        let at = memmem::find(text, part.as_bytes())?;
        text = &text[at + part.len()..];
    }
    Some(text)
}

fn is_whole(parts: &[String], text: &[u8]) -> bool {
    match parts {
        [] => text.is_empty(),
        [only] => text == only.as_bytes(),
        [first, middle @ .., last] => {
            let inside = text.strip_prefix(first.as_bytes());
            inside.and_then(|text| follow(middle, text)).is_some_and(|text| text.ends_with(last.as_bytes()))
        }
    }
}

/// A regular expression that is compiled when first needed: a name that lacks the text that every match holds needs none.
#[derive(Debug)]
pub(super) struct Expression {
    source: String,
    /// Text that every match holds; empty when there is none to be told.
    needs: Vec<u8>,
    /// `None` inside when it is too large to compile, which [`Pattern::check`] tells.
    compiled: OnceLock<Option<Regex>>,
}

/// What is wrong with an expression.
enum Wrong {
    Everything,
    Syntax(String),
}

impl Wrong {
    fn about(self, pattern: &str) -> PatternError {
        match self {
            Wrong::Everything => PatternError::Everything(pattern.to_owned()),
            Wrong::Syntax(reason) => PatternError::Regex(pattern.to_owned(), last_line(&reason)),
        }
    }
}

impl Expression {
    fn new(source: &str) -> Result<Self, Wrong> {
        let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
        let hir = parser.parse(source).map_err(|error| Wrong::Syntax(error.to_string()))?;
        if hir.properties().minimum_len() == Some(0) {
            return Err(Wrong::Everything);
        }
        Ok(Self { source: source.to_owned(), needs: needed(&hir).to_vec(), compiled: OnceLock::new() })
    }

    fn check(&self) -> Result<(), Wrong> {
        builder(&self.source).build().map(drop).map_err(|error| Wrong::Syntax(error.to_string()))
    }

    fn is_match(&self, text: &[u8]) -> bool {
        memmem::find(text, &self.needs).is_some()
            && self
                .compiled
                .get_or_init(|| builder(&self.source).build().ok())
                .as_ref()
                .is_some_and(|regex| regex.is_match(text))
    }
}

/// The longest text that stands in every match.
fn needed(hir: &Hir) -> &[u8] {
    match hir.kind() {
        HirKind::Literal(literal) => &literal.0,
        HirKind::Capture(capture) => needed(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needed(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().map(needed).max_by_key(|text| text.len()).unwrap_or_default(),
        _ => &[],
    }
}

/// The settings every expression is built with: bytes, so that `.` and classes stay small, and bounded in size.
fn builder(expression: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(expression);
    builder.unicode(false).size_limit(1 << 20);
    builder
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or(text).trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().is_match(text, text)
    }

    #[test]
    fn forms_of_patterns() {
        assert!(is_match("fmha_fwd_*", "aiter::fmha_fwd_hd128"));
        assert!(is_match("kernel_gemm*blockscale", "ck::kernel_gemm_xdl<a_blockscale>"));
        assert!(!is_match("kernel_gemm*blockscale", "blockscale kernel_gemm"));
        assert!(is_match("=_fwd_kernel", "_fwd_kernel"));
        assert!(!is_match("=_fwd_kernel", "_attn_fwd_kernel"));
        assert!(is_match("=*_norm_kernel", "rms_norm_kernel"));
        assert!(is_match("a.b", "xa.bx"));
        assert!(!is_match("a.b", "xaxbx"));
        assert!(is_match("re:_(red|per)_", "triton_per_fused"));
        let base = Pattern::parse("=x").unwrap();
        assert!(base.is_match("ns::x<4>", "x") && !base.is_match("x", "y"));
        assert!(!is_match("=ab*ba", "aba"), "parts do not overlap");
    }

    #[test]
    fn patterns_that_match_everything_are_refused() {
        for pattern in ["", "*", "=", "=*", " ", "re:", "re:x*", "re:^", "re:(a|)"] {
            assert!(matches!(Pattern::parse(pattern), Err(PatternError::Everything(_))), "{pattern}");
        }
        assert!(matches!(Pattern::parse("re:("), Err(PatternError::Regex(..))));
        let large = Pattern::parse(r"re:(a{1000}){1000}").and_then(|pattern| pattern.check());
        assert!(matches!(large, Err(PatternError::Regex(..))), "{large:?}");
    }

    #[test]
    fn texts_that_every_match_holds() {
        for (source, needs) in [
            ("kernel_moe_gemm.*(f8_t|ABScale)", "kernel_moe_gemm"),
            ("(?i)all_?reduce", ""),
            ("^aten::(mm|bmm)$", "aten::"),
            ("(ab)+c?", "ab"),
            ("(ab)*cde?", "cd"),
        ] {
            let expression = Expression::new(source).unwrap_or_else(|_| panic!("{source}"));
            assert_eq!(String::from_utf8(expression.needs).unwrap(), needs, "{source}");
        }
    }

    proptest! {
        /// Gaps against the regular expression that says the same.
        #[test]
        fn gaps_are_those_of_a_regular_expression(
            parts in prop::collection::vec("[ab.]{0,2}", 1..4),
            text in "[ab.]{0,10}",
            is_base in any::<bool>(),
        ) {
            let glob = parts.join("*");
            let pattern = Pattern::parse(&format!("{}{glob}", if is_base { "=" } else { "" }));
            prop_assume!(pattern.is_ok());
            let body = parts.iter().map(|part| regex::escape(part)).collect::<Vec<_>>().join(".*");
            let source = if is_base { format!(r"\A{body}\z") } else { body };
            prop_assert_eq!(pattern.unwrap().is_match(&text, &text), Regex::new(&source).unwrap().is_match(text.as_bytes()));
        }
    }
}
