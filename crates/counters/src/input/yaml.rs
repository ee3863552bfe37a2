//! YAML as a JSON value, for input files.
//!
//! The parser is `saphyr-parser`'s; here its events become values. Aliases and tags are refused by name, and nesting has an end: in a list of
//! counters they would be a mistake, and without them a small file cannot become large.

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// Line, from 1, and what is wrong there.
type Problem = (usize, String);

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let mut events = Events(Parser::new_from_str(text));
    let mut document = None;
    loop {
        match events.next()? {
            (Event::StreamEnd, _) => return Ok(document.unwrap_or(Value::Null)),
            (Event::StreamStart | Event::DocumentEnd | Event::Nothing, _) => {}
            (Event::DocumentStart(_), line) if document.is_some() => {
                return Err((line, "a second document starts here; one is read".to_owned()));
            }
            (Event::DocumentStart(_), _) => document = Some(events.value(0)?),
            (_, line) => return Err((line, "something stands outside of the document".to_owned())),
        }
    }
}

struct Events<'t>(Parser<'t, StrInput<'t>>);

impl<'t> Events<'t> {
    /// The next event with its line.
    fn next(&mut self) -> Result<(Event<'t>, usize), Problem> {
        match self.0.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line())),
            Some(Err(error)) => Err((error.marker().line(), format!("this is no YAML: {}", error.info()))),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Problem> {
        let (event, line) = self.next()?;
        self.value_of(event, line, depth)
    }

    /// The value that starts with this event.
    fn value_of(&mut self, event: Event<'t>, line: usize, depth: usize) -> Result<Value, Problem> {
        if depth > MAX_DEPTH {
            return Err((line, "it is nested too deeply".to_owned()));
        }
        match event {
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                Err((line, "tags (`!`) are not read here; put the value in quotes if it is text".to_owned()))
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(depth),
            Event::MappingStart(..) => self.mapping(depth),
            Event::Alias(_) => {
                Err((line, "aliases (`*`) are not read here; put the value in quotes if it is text".to_owned()))
            }
            _ => Err((line, "a value was expected".to_owned())),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(list)),
                (event, line) => list.push(self.value_of(event, line, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, Problem> {
        let mut map = Map::new();
        loop {
            let (name, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(map)),
                (Event::Scalar(name, ..), line) => (name.into_owned(), line),
                (_, line) => return Err((line, "a key must be a word".to_owned())),
            };
            if map.contains_key(&name) {
                let name = name.chars().take(60).collect::<String>();
                return Err((line, format!("the key `{name}` stands here twice")));
            }
            map.insert(name, self.value(depth + 1)?);
        }
    }
}

/// A scalar without quotes, by the rules of YAML's core schema that a job can need: no fractions, no other bases.
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
