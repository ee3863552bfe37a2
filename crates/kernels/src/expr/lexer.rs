//! Text to tokens, each with its byte range.

use super::{ExprError, Problem};

/// A token and where it stands, as byte offsets into the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Int(i128),
    Float(f64),
    Word(String),
    Name(String),
    /// An operator or punctuation, by its spelling.
    Op(&'static str),
    End,
}

/// Two-character operators come before their first character.
const OPERATORS: &[&str] = &["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", ","];

/// Cuts text into tokens; the last is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(first) = rest.chars().next() else { break };
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (kind, length) = if first.is_ascii_digit() {
            number(rest, at)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (TokenKind::Name(rest[..length].to_owned()), length)
        } else if first == '\'' {
            let Some(close) = rest[1..].find('\'') else {
                return Err(ExprError::new(at, Problem::OpenQuote));
            };
            (TokenKind::Word(rest[1..=close].to_owned()), close + 2)
        } else if let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) {
            (TokenKind::Op(op), op.len())
        } else {
            return Err(ExprError::new(at, Problem::Character(first)));
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
    tokens.push(Token { kind: TokenKind::End, start: text.len(), end: text.len() });
    Ok(tokens)
}

/// `12`, `1_000`, `0x1f`, `0.5`, `1e-6`.
fn number(rest: &str, at: usize) -> Result<(TokenKind, usize), ExprError> {
    let bad = |length: usize| ExprError::new(at, Problem::Number(rest[..length].to_owned()));
    let bytes = rest.as_bytes();
    let mut length = 0;
    let mut float = false;
    let hex = rest.starts_with("0x");
    while let Some(byte) = bytes.get(length) {
        let exponent_sign = matches!(byte, b'+' | b'-')
            && !hex
            && length > 0
            && matches!(bytes.get(length - 1), Some(b'e' | b'E'))
            && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.' || exponent_sign) {
            break;
        }
        float |= *byte == b'.' || (!hex && matches!(byte, b'e' | b'E'));
        length += 1;
    }
    let digits = rest[..length].replace('_', "");
    if float {
        let value: f64 = digits.parse().map_err(|_| bad(length))?;
        if !value.is_finite() {
            return Err(bad(length));
        }
        return Ok((TokenKind::Float(value), length));
    }
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    value.map(|value| (TokenKind::Int(value), length)).map_err(|_| bad(length))
}
