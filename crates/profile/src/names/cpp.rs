//! The parts of a demangled C++ name: qualified path, template arguments, parameters. Plain scans over the text; a name
//! that is cut short or no C++ at all gives what can be told.

/// The parts of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// Last identifier: `rms_norm_kernel`.
    pub(super) base: &'a str,
    /// Template arguments without the outer brackets, when there are any.
    pub(super) arguments: Option<&'a str>,
}

/// Splits a canonical name. A result type before the name (`std::enable_if<...>::type f<...>(...)`) is skipped; the
/// parameters end the name.
pub(super) fn parts(name: &str) -> Parts<'_> {
    let mut open = Nesting::default();
    // Start of the last path component, and the range of its template arguments.
    let mut start = 0;
    let mut end = name.len();
    let mut arguments = None;
    let mut arguments_start = 0;
    for (at, byte) in name.bytes().enumerate() {
        if open.is_empty() {
            match byte {
                b'(' if !is_unnamed_scope(&name[at..]) => {
                    end = end.min(at);
                    break;
                }
                b'<' => {
                    end = at;
                    arguments_start = at + 1;
                }
                b':' | b' ' => {
                    start = at + 1;
                    end = name.len();
                    arguments = None;
                }
                _ => {}
            }
        }
        let was_open = !open.is_empty();
        open.feed(byte);
        if was_open && open.is_empty() && byte == b'>' {
            arguments = name.get(arguments_start..at);
        }
    }
    if arguments.is_none() && end < name.len() && name.as_bytes().get(end) == Some(&b'<') {
        // Cut short inside the arguments.
        arguments = name.get(end + 1..);
    }
    let base = name.get(start..end.max(start)).unwrap_or(name).trim();
    Parts { base, arguments }
}

fn is_unnamed_scope(text: &str) -> bool {
    text.starts_with("(anonymous namespace)")
}

/// Splits template arguments or parameters at the commas that are not inside brackets.
pub(super) fn arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text).filter(|text| !text.trim().is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let mut open = Nesting::default();
        for (at, byte) in text.bytes().enumerate() {
            if byte == b',' && open.is_empty() {
                rest = Some(&text[at + 1..]);
                return Some(text[..at].trim());
            }
            open.feed(byte);
        }
        rest = None;
        Some(text.trim())
    })
}

/// Open brackets. An angle bracket inside parentheses (`(8>0)`) is an operator, and so is the arrow's.
#[derive(Default)]
struct Nesting {
    open: Vec<u8>,
    last: u8,
}

impl Nesting {
    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn feed(&mut self, byte: u8) {
        let top = self.open.last().copied();
        match byte {
            b'(' | b'[' | b'{' | b'<' => self.open.push(byte),
            b'>' if top == Some(b'<') && self.last != b'-' => {
                self.open.pop();
            }
            b')' | b']' | b'}' => {
                // An unclosed `<` was a comparison.
                let opener = if byte == b')' { b'(' } else { byte - 2 };
                while let Some(top) = self.open.pop() {
                    if top == opener {
                        break;
                    }
                }
            }
            _ => {}
        }
        self.last = byte;
    }
}

/// The identifiers of a text, each with what follows it.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|next: char| !is_identifier(next));
        let end = rest.find(|next: char| !is_identifier(next)).unwrap_or(rest.len());
        if end == 0 {
            return None;
        }
        let (word, behind) = rest.split_at(end);
        rest = behind;
        Some((word, behind))
    })
}

/// True for the characters of an identifier.
pub(super) fn is_identifier(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names from traces; the split is read off by eye.
    #[test]
    fn splits_names_of_every_form() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("_topk_forward", "_topk_forward", None),
            ("aiter::topksoftmax_4x128x8_bf16", "topksoftmax_4x128x8_bf16", None),
            (
                "(anonymous namespace)::store_kvcache<2048l, 4>((anonymous namespace)::P)",
                "store_kvcache",
                Some("2048l, 4"),
            ),
            ("at::native::(anonymous namespace)::f<a<b>, c>(d)", "f", Some("a<b>, c")),
            (
                "std::enable_if<(((8)>(0)))&&vllm::T<c10::B>::exists, void>::type vllm::norm_kernel<c10::B, 8>(c10::B*)",
                "norm_kernel",
                Some("c10::B, 8"),
            ),
            ("f<a::{lambda(int)#1}, (E)0>(int)", "f", Some("a::{lambda(int)#1}, (E)0")),
            ("vllm::f<a, b", "f", Some("a, b")),
            ("", "", None),
        ];
        for (name, base, arguments) in cases {
            assert_eq!(parts(name), Parts { base, arguments: *arguments }, "{name}");
        }
    }

    #[test]
    fn splits_arguments_outside_brackets_only() {
        let split: Vec<&str> = arguments("a<b, c>, (E)0, {lambda(x, y)#1}, (8)>(0)").collect();
        assert_eq!(split, ["a<b, c>", "(E)0", "{lambda(x, y)#1}", "(8)>(0)"]);
        assert_eq!(arguments(" ").count(), 0);
    }
}
