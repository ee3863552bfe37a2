//! The pieces that labels are made of: numbers in running text, and `key=value` fields.

/// Reads a label from left to right.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// What has not been read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads `text` if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads `text`, which must come next.
    pub(super) fn need(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) { Ok(()) } else { Err(format!("`{text}` is missing before `{}`", shortened(self.rest))) }
    }

    /// Reads the digits that come next as a count.
    pub(super) fn count(&mut self) -> Result<u64, String> {
        let digits = self.digits()?;
        digits.parse().map_err(|_| format!("{} does not fit 64 bits", shortened(digits)))
    }

    /// Reads the digits that come next as a sum.
    pub(super) fn sum(&mut self) -> Result<u128, String> {
        let digits = self.digits()?;
        digits.parse().map_err(|_| format!("{} does not fit 128 bits", shortened(digits)))
    }

    fn digits(&mut self) -> Result<&'a str, String> {
        let end = self.rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("a number is missing before `{}`", shortened(self.rest)));
        }
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(digits)
    }
}

/// One piece of a label's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// `bs=16`, `ctx=[7803, 6918]`, `ctx=[1, 2, 3]...+9`.
    Pair(&'a str, &'a str),
    /// `graph`, `DECODE`, `0/3`.
    Word(&'a str),
}

/// Splits a body at blanks, except inside the brackets of a list value.
pub(super) fn fields(body: &str) -> Result<Vec<Field<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = body.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
        if !rest[end..].starts_with('=') {
            found.push(Field::Word(&rest[..end]));
            rest = rest[end..].trim_start();
            continue;
        }
        let key = &rest[..end];
        let value = &rest[end + 1..];
        let list_end = match value.starts_with('[') {
            true => value.find(']').ok_or_else(|| format!("the list of `{}` is not closed", shortened(key)))?,
            false => 0,
        };
        let end = value[list_end..].find(char::is_whitespace).map_or(value.len(), |at| list_end + at);
        found.push(Field::Pair(key, &value[..end]));
        rest = value[end..].trim_start();
    }
    Ok(found)
}

/// Splits `head[body]`: at the first opening and the last closing bracket, because lists stand inside. What follows
/// the last bracket is returned too. `None` when there is no bracket pair.
pub(super) fn bracketed(label: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = label.split_once('[')?;
    let (body, tail) = rest.rsplit_once(']')?;
    Some((head, body, tail))
}

/// A text for an error message, at most 40 characters.
pub(super) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_hold_blanks() {
        assert_eq!(
            fields("bs=2  ctx=[7803, 6918] x graph ctx2=[1, 2, 3]...+9 d=3").unwrap(),
            [
                Field::Pair("bs", "2"),
                Field::Pair("ctx", "[7803, 6918]"),
                Field::Word("x"),
                Field::Word("graph"),
                Field::Pair("ctx2", "[1, 2, 3]...+9"),
                Field::Pair("d", "3"),
            ]
        );
        assert!(fields("ctx=[1, 2").is_err());
        assert_eq!(fields("a= =b").unwrap(), [Field::Pair("a", ""), Field::Pair("", "b")]);
    }

    #[test]
    fn the_last_bracket_closes() {
        assert_eq!(bracketed("prefill[bs=2 ctx=[1, 2]]"), Some(("prefill", "bs=2 ctx=[1, 2]", "")));
        assert_eq!(bracketed("step[A] b=1"), Some(("step", "A", " b=1")));
        assert_eq!(bracketed("a]b["), None);
    }
}
