//! The form of a name by which kernels of different tools are joined.

use super::cpp::is_identifier;
use super::demangle::demangle;

/// The canonical form of a kernel name: demangled where possible, without `.kd`, ` [clone .kd]` or ` (.kd)`, without the
/// word `void` before another word, in the spelling of GNU's demangler with closing angle brackets together.
///
/// Different tools spell one kernel differently: traces have `void f<a<b> >(c)` or `_Z1fI..`, ATOM's CSVs drop every
/// `void `, rocprofv3 writes `f<a<b>>(c) [clone .kd]` and `'lambda'(int)` for `{lambda(int)#1}`; all of them meet here.
/// Works on any text, never fails, and `canonical(canonical(x)) == canonical(x)`.
pub fn canonical(raw: &str) -> String {
    let mut name = normalised(raw);
    loop {
        let bare = without_suffix(&name);
        // Only a plain symbol is demangled: what comes out is either no symbol any more, or shorter.
        let demangled = if is_symbol(bare) { demangle(bare) } else { None };
        match demangled {
            Some(demangled) => name = normalised(&demangled),
            None => {
                let end = bare.len();
                name.truncate(end);
                return name;
            }
        }
    }
}

fn is_symbol(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
}

/// Strips the suffixes of kernel descriptors.
fn without_suffix(name: &str) -> &str {
    let mut name = name.trim_end();
    loop {
        let shorter = [".kd", "[clone .kd]", "(.kd)"].iter().find_map(|suffix| name.strip_suffix(suffix));
        match shorter.map(str::trim_end) {
            Some(shorter) if !shorter.is_empty() => name = shorter,
            _ => return name,
        }
    }
}

/// One pass over the text: white space, `void`, lambdas.
fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    // Closing texts of open `'lambda'(`, with the depth of their parenthesis.
    let mut lambdas: Vec<(usize, u64)> = Vec::new();
    let mut depth = 0usize;
    let mut has_space = false;
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if next.is_whitespace() || next.is_control() {
            has_space = true;
            rest = &rest[next.len_utf8()..];
            continue;
        }
        if let Some(behind) = rest.strip_prefix("void").filter(|_| has_space || !out.ends_with(is_identifier)) {
            let text = behind.trim_start_matches(|next: char| next.is_whitespace() || next.is_control());
            let is_before_word = text.len() < behind.len() && !text.is_empty() && !text.starts_with(['*', '&']);
            if is_before_word {
                rest = text;
                continue;
            }
        }
        if has_space && needs_space(&out, next) {
            out.push(' ');
        }
        has_space = false;
        if let Some((number, behind)) = lambda_head(rest) {
            depth += 1;
            lambdas.push((depth, number));
            out.push_str("{lambda(");
            rest = behind;
            continue;
        }
        match next {
            '(' => depth += 1,
            ')' => {
                if let Some((_, number)) = lambdas.pop_if(|(opened, _)| *opened == depth) {
                    out.push_str(&format!(")#{number}}}"));
                    depth -= 1;
                    rest = &rest[1..];
                    continue;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        if is_identifier(next) {
            let end = rest.find(|next: char| !is_identifier(next)).unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        out.push(next);
        // A comma is always followed by one space.
        has_space = next == ',';
        rest = &rest[next.len_utf8()..];
    }
    out
}

/// Whether white space between the text so far and `next` means anything.
fn needs_space(out: &str, next: char) -> bool {
    !matches!(out.chars().next_back(), None | Some('(' | '<' | '[' | '{'))
        && !matches!(next, '>' | ')' | ',' | '*' | '&' | ']' | '}')
}

/// `'lambda'(` or `'lambda0'(`: the number that GNU's demangler would give it, and what follows.
fn lambda_head(text: &str) -> Option<(u64, &str)> {
    let text = text.strip_prefix("'lambda")?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = match &text[..digits] {
        "" => 1,
        digits => digits.parse::<u64>().ok()?.checked_add(2)?,
    };
    Some((number, text[digits..].strip_prefix("'(")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each row is one kernel as several tools write it; the forms are those of facts on profile formats (6.2, 3.10).
    #[test]
    fn spellings_of_one_kernel_meet() {
        let kernels: &[&[&str]] = &[
            &[
                "aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8, false, false, true, 1>(std::bfloat16_t*, std::bfloat16_t*, float*, std::bfloat16_t*, std::bfloat16_t*, std::bfloat16_t*, double, int, int, int, int, int, int, int, bool)",
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib.kd",
                "void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8, false, false, true, 1>(std::bfloat16_t *, std::bfloat16_t *, float *, std::bfloat16_t*, std::bfloat16_t*, std::bfloat16_t*, double, int, int, int, int, int, int, int, bool) [clone .kd]",
            ],
            &["attn_fwd", "attn_fwd.kd", "attn_fwd [clone .kd]", " attn_fwd (.kd)\n"],
            &[
                "vecCopy(double*, double*, double*, int, int)",
                "vecCopy(double*, double*, double*, int, int) (.kd)",
                "void vecCopy(double*,double*,double*,int,int)",
            ],
            &[
                "f<a<b>>((*)(int), char const*)",
                "void f<a<b> >(void (*)(int), char const*)",
                "f<a<b> >((*)(int), char const *)",
            ],
            &[
                "g<h()::{lambda(int, bool)#1}, i::{lambda()#2}>(void*)",
                "void g<h()::'lambda'(int, bool), i::'lambda0'()>(void*)",
            ],
            &["Memcpy HtoD (Host -> Device)", "Memcpy HtoD  (Host -> Device)"],
        ];
        for forms in kernels {
            for form in *forms {
                assert_eq!(canonical(form), forms[0], "{form}");
            }
        }
    }

    #[test]
    fn words_that_contain_void_stay() {
        assert_eq!(canonical("avoid me"), "avoid me");
        assert_eq!(canonical("f(void)"), "f(void)");
        assert_eq!(canonical("f(void*, void const*)"), "f(void*, const*)");
        assert_eq!(canonical(".kd"), ".kd");
        assert_eq!(canonical(""), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn canonical_is_idempotent(raw in r"(_Z)?[a-zA-Z0-9_:<>(),*&' .\[\]\{\}#-]{0,60}") {
            let once = canonical(&raw);
            prop_assert_eq!(canonical(&once), once);
        }

        #[test]
        fn canonical_is_idempotent_on_pieces(pieces in prop::collection::vec(prop::sample::select(vec![
            "void", " ", "void ", "'lambda'(", "'lambda1'(", ")", "(", ",", ">", "<", "*", "&", "x", "_Z", "3foo", ".kd",
            " (.kd)", " [clone .kd]", "\t", "\u{a0}", "é", "_ZN1a1b", "E", "Iiv",
        ]), 0..24)) {
            let once = canonical(&pieces.concat());
            prop_assert_eq!(canonical(&once), once);
        }

        #[test]
        fn any_text_is_accepted(raw in any::<String>()) {
            let once = canonical(&raw);
            prop_assert_eq!(canonical(&once), once);
        }
    }
}
