//! Patterns of the kernel table: text, text with gaps, whole base names, regular expressions.

/// A pattern cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PatternError {
    #[error("the pattern `{0}` matches every name; write the part of the name that tells the kernel apart")]
    Everything(String),
    #[error("the pattern `{0}` is no regular expression: {1}")]
    Regex(String, String),
}

/// Which text a pattern looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The whole canonical name, or the operator's name.
    Whole,
    /// The kernel's own identifier, all of it.
    Base,
}

/// A pattern as a regular expression over bytes, and what it looks at.
///
/// `text` and `te*xt` are found anywhere in the name, `=text` and `=te*xt` are the whole base name, `re:...` is a regular
/// expression found anywhere.
pub(super) fn compile(pattern: &str) -> Result<(Subject, String), PatternError> {
    if let Some(expression) = pattern.strip_prefix("re:") {
        let is_empty_match = builder(expression)
            .build()
            .map(|regex| regex.is_match(b""))
            .map_err(|error| PatternError::Regex(pattern.to_owned(), last_line(&error.to_string())))?;
        if is_empty_match {
            return Err(PatternError::Everything(pattern.to_owned()));
        }
        return Ok((Subject::Whole, expression.to_owned()));
    }
    let (subject, text) = match pattern.strip_prefix('=') {
        Some(text) => (Subject::Base, text),
        None => (Subject::Whole, pattern),
    };
    if text.trim_matches(['*', ' ']).is_empty() {
        return Err(PatternError::Everything(pattern.to_owned()));
    }
    let parts: Vec<String> = text.split('*').map(regex::escape).collect();
    let body = parts.join("(?s:.*)");
    Ok(match subject {
        Subject::Whole => (subject, body),
        Subject::Base => (subject, format!(r"\A{body}\z")),
    })
}

/// The settings every expression is built with: bytes, so that `.` and classes stay small, and bounded in size.
fn builder(expression: &str) -> regex::bytes::RegexBuilder {
    let mut builder = regex::bytes::RegexBuilder::new(expression);
    builder.unicode(false).size_limit(1 << 20);
    builder
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or(text).trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        builder(&compile(pattern).unwrap().1).build().unwrap().is_match(text.as_bytes())
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
        assert_eq!(compile("=x").unwrap().0, Subject::Base);
    }

    #[test]
    fn patterns_that_match_everything_are_refused() {
        for pattern in ["", "*", "=", "=*", " ", "re:", "re:x*"] {
            assert!(matches!(compile(pattern), Err(PatternError::Everything(_))), "{pattern}");
        }
        assert!(matches!(compile("re:("), Err(PatternError::Regex(..))));
        assert!(matches!(compile(r"re:(a{1000}){1000}"), Err(PatternError::Regex(..))));
    }
}
