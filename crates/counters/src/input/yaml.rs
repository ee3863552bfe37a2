//! The part of YAML that rocprofv3's input files are written in.
//!
//! Blocks of mappings and sequences, flow sequences and mappings (over several lines too), plain and quoted scalars, comments. What else YAML has
//! (anchors, tags, block scalars, several documents) is refused by name: in a list of counters it would be a mistake, and nothing in this subset
//! can make a small file large.

use serde_json::{Map, Number, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 32;

type Problem = (usize, String);

/// A line without its comment, with what is left of it.
#[derive(Clone, Copy, Debug)]
struct Line<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let mut lines = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let body = uncommented(raw).trim_end();
        let trimmed = body.trim_start_matches(' ');
        if trimmed.is_empty() || (trimmed == "---" && lines.is_empty()) {
            continue;
        }
        if trimmed.starts_with('\t') {
            return Err((number, "a tab indents this line; YAML takes blanks".to_owned()));
        }
        if matches!(trimmed, "---" | "...") || trimmed.starts_with('%') {
            return Err((number, "several documents and directives are not read here".to_owned()));
        }
        lines.push(Line { number, indent: body.len() - trimmed.len(), text: trimmed });
    }
    let mut parser = Parser { lines, at: 0 };
    let Some(first) = parser.line() else { return Ok(Value::Null) };
    let value = parser.block(first.indent, 0)?;
    match parser.line() {
        None => Ok(value),
        Some(line) => Err((line.number, "this line is indented differently from what it belongs to".to_owned())),
    }
}

/// A line up to its comment: `#` at its start or behind a blank, outside of quotes.
fn uncommented(line: &str) -> &str {
    let mut quote = None;
    let mut before = b' ';
    for (at, byte) in line.bytes().enumerate() {
        match (quote, byte) {
            (None, b'#') if before == b' ' || before == b'\t' => return line.get(..at).unwrap_or_default(),
            // A quote opens only where a scalar starts; inside a word it is a letter.
            (None, b'"' | b'\'') if matches!(before, b' ' | b'[' | b',' | b'{' | b':') => quote = Some(byte),
            (Some(open), _) if byte == open && !(open == b'"' && before == b'\\') => quote = None,
            _ => {}
        }
        before = if before == b'\\' && byte == b'\\' { b' ' } else { byte };
    }
    line
}

struct Parser<'t> {
    lines: Vec<Line<'t>>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn line(&self) -> Option<Line<'t>> {
        self.lines.get(self.at).copied()
    }

    /// A value whose lines start at `indent`.
    fn block(&mut self, indent: usize, depth: usize) -> Result<Value, Problem> {
        let Some(line) = self.line() else { return Ok(Value::Null) };
        if depth > MAX_DEPTH {
            return Err((line.number, "it is nested too deeply".to_owned()));
        }
        if item(line.text).is_some() {
            self.sequence(indent, depth)
        } else if key(line)?.is_some() {
            self.mapping(indent, depth)
        } else {
            self.at += 1;
            self.inline(line, line.text)
        }
    }

    fn sequence(&mut self, indent: usize, depth: usize) -> Result<Value, Problem> {
        let mut list = Vec::new();
        while let Some(line) = self.line().filter(|line| line.indent == indent) {
            let Some(content) = item(line.text) else { break };
            let offset = line.text.len() - content.len();
            if content.is_empty() {
                self.at += 1;
                list.push(self.nested(indent, depth)?);
                continue;
            }
            // What stands behind the dash starts a block of its own, in its column.
            if let Some(slot) = self.lines.get_mut(self.at) {
                *slot = Line { number: line.number, indent: indent + offset, text: content };
            }
            list.push(self.block(indent + offset, depth + 1)?);
        }
        Ok(Value::Array(list))
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Result<Value, Problem> {
        let mut map = Map::new();
        while let Some(line) = self.line().filter(|line| line.indent == indent && item(line.text).is_none()) {
            let Some((name, rest)) = key(line)? else {
                return Err((line.number, "a key with a colon was expected".to_owned()));
            };
            self.at += 1;
            let value = if !rest.is_empty() {
                self.inline(line, rest)?
            } else {
                match self.line() {
                    // A sequence may start in the column of its key.
                    Some(next) if next.indent == indent && item(next.text).is_some() => {
                        self.sequence(indent, depth + 1)?
                    }
                    _ => self.nested(indent, depth)?,
                }
            };
            if map.contains_key(&name) {
                return Err((
                    line.number,
                    format!("the key `{}` stands here twice", name.chars().take(60).collect::<String>()),
                ));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    /// The deeper block that follows, or nothing.
    fn nested(&mut self, indent: usize, depth: usize) -> Result<Value, Problem> {
        match self.line().filter(|line| line.indent > indent) {
            Some(line) => self.block(line.indent, depth + 1),
            None => Ok(Value::Null),
        }
    }

    /// A value behind a key or a dash: flow or scalar. A flow goes on over lines until its brackets are closed.
    fn inline(&mut self, line: Line<'t>, text: &str) -> Result<Value, Problem> {
        if !text.starts_with(['[', '{']) {
            return scalar(text).map_err(|what| (line.number, what));
        }
        let mut whole = text.to_owned();
        let mut brackets = Brackets::default();
        // Counted line by line, so that a long flow is parsed once.
        while !brackets.close_within(whole.get(brackets.seen..).unwrap_or_default()) {
            let Some(next) = self.line() else { return Err((line.number, "a bracket is not closed".to_owned())) };
            whole.push(' ');
            whole.push_str(next.text);
            self.at += 1;
        }
        let mut flow = Flow { text: &whole, at: 0 };
        let value = flow.value(0).map_err(|problem| match problem {
            FlowProblem::Ends => (line.number, "a bracket or a quote is not closed".to_owned()),
            FlowProblem::Wrong(what) => (line.number, what),
        })?;
        flow.blanks();
        if flow.at == whole.len() {
            Ok(value)
        } else {
            Err((line.number, "something stands behind the closing bracket".to_owned()))
        }
    }
}

/// Counts the brackets of a flow over its lines.
#[derive(Default)]
struct Brackets {
    seen: usize,
    depth: usize,
    quote: Option<u8>,
    before: u8,
}

impl Brackets {
    /// Goes on over new text; true when all brackets are closed.
    fn close_within(&mut self, text: &str) -> bool {
        self.seen += text.len();
        for byte in text.bytes() {
            match (self.quote, byte) {
                (None, b'[' | b'{') => self.depth += 1,
                (None, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
                (None, b'"' | b'\'') if matches!(self.before, b' ' | b'[' | b',' | b'{' | b':') => {
                    self.quote = Some(byte)
                }
                (Some(open), _) if byte == open && !(open == b'"' && self.before == b'\\') => self.quote = None,
                _ => {}
            }
            self.before = if self.before == b'\\' && byte == b'\\' { b' ' } else { byte };
        }
        self.depth == 0
    }
}

/// What stands behind a dash.
fn item(text: &str) -> Option<&str> {
    if text == "-" { Some("") } else { text.strip_prefix("- ").map(str::trim_start) }
}

/// A key and what stands behind its colon.
fn key(line: Line<'_>) -> Result<Option<(String, &str)>, Problem> {
    let text = line.text;
    let (name, rest) = if let Some(open) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let Some(end) = quoted_end(text, open) else { return Ok(None) };
        let (name, rest) = text.split_at(end);
        let Some(rest) = rest.trim_start().strip_prefix(':') else { return Ok(None) };
        (scalar(name).map_err(|what| (line.number, what))?.as_str().unwrap_or_default().to_owned(), rest)
    } else if text.starts_with(['[', '{']) {
        return Ok(None);
    } else if let Some((name, rest)) = text.split_once(": ") {
        (name.trim().to_owned(), rest)
    } else if let Some(name) = text.strip_suffix(':') {
        (name.trim().to_owned(), "")
    } else {
        return Ok(None);
    };
    if name.starts_with(['?', '&', '*', '!', '|', '>', '@', '`']) {
        return Err((
            line.number,
            format!("`{}` starts something of YAML that is not read here", name.chars().take(20).collect::<String>()),
        ));
    }
    Ok(Some((name, rest.trim())))
}

/// Where a quoted text ends, in bytes, its closing quote included.
fn quoted_end(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') {
                chars.next();
            } else {
                return Some(at + 1);
            }
        }
    }
    None
}

/// A plain or quoted scalar.
fn scalar(text: &str) -> Result<Value, String> {
    let text = text.trim();
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            if quoted_end(text, quote) != Some(text.len()) {
                return Err("a quote is not closed, or something stands behind it".to_owned());
            }
            let inner = text.get(1..text.len() - 1).unwrap_or_default();
            if quote == '\'' {
                Ok(Value::String(inner.replace("''", "'")))
            } else {
                unescaped(inner).map(Value::String)
            }
        }
        Some(special @ ('&' | '*' | '!' | '|' | '>' | '@' | '`' | '%')) => Err(format!(
            "a value that starts with `{special}` is something of YAML that is not read here; put it in quotes if it is text"
        )),
        _ => Ok(plain(text)),
    }
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::Number(Number::from(number)),
            Err(_) => Value::String(text.to_owned()),
        },
    }
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('0') => '\0',
            Some(same @ ('"' | '\\' | '/' | '\'')) => same,
            _ => return Err("this escape is not read here; single quotes take a backslash as it is".to_owned()),
        });
    }
    Ok(out)
}

enum FlowProblem {
    /// The text ends inside.
    Ends,
    Wrong(String),
}

/// A flow sequence or mapping.
struct Flow<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Flow<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn peek(&mut self) -> Result<char, FlowProblem> {
        self.blanks();
        self.rest().chars().next().ok_or(FlowProblem::Ends)
    }

    fn value(&mut self, depth: usize) -> Result<Value, FlowProblem> {
        if depth > MAX_DEPTH {
            return Err(FlowProblem::Wrong("it is nested too deeply".to_owned()));
        }
        match self.peek()? {
            '[' => {
                self.at += 1;
                let mut list = Vec::new();
                while !self.closes(']')? {
                    list.push(self.value(depth + 1)?);
                    self.separator(']')?;
                }
                Ok(Value::Array(list))
            }
            '{' => {
                self.at += 1;
                let mut map = Map::new();
                while !self.closes('}')? {
                    let name = match self.scalar(&[':', ',', '}'])? {
                        Value::String(name) => name,
                        other => other.to_string(),
                    };
                    if self.peek()? != ':' {
                        return Err(FlowProblem::Wrong("a colon was expected behind a key in braces".to_owned()));
                    }
                    self.at += 1;
                    map.insert(name, self.value(depth + 1)?);
                    self.separator('}')?;
                }
                Ok(Value::Object(map))
            }
            _ => self.scalar(&[',', ']', '}']),
        }
    }

    fn closes(&mut self, end: char) -> Result<bool, FlowProblem> {
        let is_end = self.peek()? == end;
        self.at += usize::from(is_end);
        Ok(is_end)
    }

    fn separator(&mut self, end: char) -> Result<(), FlowProblem> {
        match self.peek()? {
            ',' => {
                self.at += 1;
                Ok(())
            }
            other if other == end => Ok(()),
            other => Err(FlowProblem::Wrong(format!("`,` or `{end}` was expected, not `{other}`"))),
        }
    }

    fn scalar(&mut self, ends: &[char]) -> Result<Value, FlowProblem> {
        let rest = self.rest();
        let length = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted_end(rest, quote).ok_or(FlowProblem::Ends)?,
            Some(_) => rest.find(ends).ok_or(FlowProblem::Ends)?,
            None => return Err(FlowProblem::Ends),
        };
        let text = rest.get(..length).unwrap_or_default();
        if text.trim().is_empty() {
            return Err(FlowProblem::Wrong("a value is missing between commas or brackets".to_owned()));
        }
        self.at += length;
        scalar(text).map_err(FlowProblem::Wrong)
    }
}
