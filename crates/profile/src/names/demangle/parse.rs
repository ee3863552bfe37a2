//! Names and encodings of the Itanium C++ ABI, section 5.1 (Mangling), as a recursive descent that never goes back: each
//! byte decides. Types are in `types`, expressions in `expr`.

use super::node::{Arena, Id, List, Node};

/// A name that is not of the grammar, or deeper than [`MAX_DEPTH`].
#[derive(Debug)]
pub(super) struct Malformed;

/// Result of one grammar rule.
pub(super) type Parsed<T> = Result<T, Malformed>;

/// Nesting that real names stay far below (composable kernels reach about 40); it bounds the stack.
const MAX_DEPTH: u32 = 192;

/// Generic parameters of a lambda, as GNU's demangler writes them.
const GENERIC: &[&str] = &["auto:1", "auto:2", "auto:3", "auto:4", "auto:5", "auto:6", "auto:7", "auto:8"];

/// State of the descent over one mangled name.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) arena: Arena<'a>,
    /// Substitution candidates in order: `S_` is the first.
    pub(super) seen: Vec<Candidate>,
    /// Arguments of the innermost function template being named: what `T_` means.
    pub(super) arguments: Vec<Id>,
    /// Inside a lambda's parameter list `T_` is a generic parameter, not a template argument.
    pub(super) in_lambda: bool,
    depth: u32,
}

/// Something that `S<n>_` can stand for.
#[derive(Clone, Copy)]
pub(super) enum Candidate {
    /// A name or type.
    Node(Id),
    /// A template parameter: what it means depends on the function that is being named where it is used again.
    Parameter(usize),
}

/// What the end of a name says about the encoding that follows.
#[derive(Clone, Copy, Default)]
struct NameEnd {
    has_arguments: bool,
    is_structor_or_conversion: bool,
    qualifiers: &'static str,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parser {
            text,
            at: 0,
            arena: Arena::default(),
            seen: Vec::new(),
            arguments: Vec::new(),
            in_lambda: false,
            depth: 0,
        }
    }

    /// `_Z <encoding>`, with nothing behind it but a clone suffix (`.kd`, `.isra.0`), which is dropped.
    pub(super) fn mangled_name(&mut self) -> Parsed<Id> {
        self.expect("_Z")?;
        let id = self.encoding()?;
        // An operator without parameters is the tail of an assembly kernel's name behind too short a length: `..rtneE`.
        let is_bare_operator = matches!(self.arena.node(id), Node::Scoped(_, name)
            if matches!(self.arena.node(name), Node::Text(text) if text.starts_with("operator")));
        let is_at_end = self.at == self.text.len() || self.peek() == b'.';
        if is_at_end && !is_bare_operator { Ok(id) } else { Err(Malformed) }
    }

    /// `<name> [<result>] <parameters>`; a name alone is a variable or a kernel in assembly.
    pub(super) fn encoding(&mut self) -> Parsed<Id> {
        self.deeper(|parser| {
            let outer = std::mem::take(&mut parser.arguments);
            let (name, end) = parser.name(true)?;
            let id = if matches!(parser.peek(), 0 | b'E' | b'.' | b'_') {
                name
            } else {
                let result =
                    if end.has_arguments && !end.is_structor_or_conversion { Some(parser.type_()?) } else { None };
                let parameters = parser.parameters()?;
                parser.arena.add(Node::Encoding(name, result, parameters, end.qualifiers))
            };
            parser.arguments = outer;
            Ok(id)
        })
    }

    /// Parameter types up to the end of the encoding; a single `v` means none.
    pub(super) fn parameters(&mut self) -> Parsed<List> {
        if self.eat("v") {
            return Ok(List::default());
        }
        let mut types = Vec::new();
        while !matches!(self.peek(), 0 | b'E' | b'.' | b'Q') {
            types.push(self.type_()?);
        }
        if types.is_empty() { Err(Malformed) } else { Ok(self.arena.list(&types)) }
    }

    /// `<name>` inside a type.
    pub(super) fn class_name(&mut self) -> Parsed<Id> {
        self.name(false).map(|(id, _)| id)
    }

    /// `<name>`; template arguments of an encoding's own name become what `T_` means.
    fn name(&mut self, of_encoding: bool) -> Parsed<(Id, NameEnd)> {
        self.deeper(|parser| {
            let mut end = NameEnd::default();
            match parser.peek() {
                b'N' => return parser.nested_name(of_encoding),
                b'Z' => return parser.local_name(of_encoding),
                _ => {}
            }
            let is_substitution = parser.peek() == b'S' && parser.peek_at(1) != b't';
            let mut id = if is_substitution {
                let id = parser.substitution()?;
                if parser.peek() != b'I' {
                    return Err(Malformed);
                }
                id
            } else {
                let in_std = parser.eat("St");
                let name = parser.unqualified_name(None, &mut end)?;
                if in_std { parser.in_std(name) } else { name }
            };
            if parser.peek() == b'I' {
                if !is_substitution {
                    parser.seen.push(Candidate::Node(id));
                }
                let arguments = parser.template_arguments(of_encoding)?;
                id = parser.arena.add(Node::Template(id, arguments));
                end.has_arguments = true;
            }
            Ok((id, end))
        })
    }

    pub(super) fn in_std(&mut self, name: Id) -> Id {
        let scope = self.arena.add(Node::Text("std"));
        self.arena.add(Node::Scoped(scope, name))
    }

    /// `N [<qualifiers>] <prefix> <unqualified-name> E`.
    fn nested_name(&mut self, of_encoding: bool) -> Parsed<(Id, NameEnd)> {
        self.expect("N")?;
        let mut end = NameEnd { qualifiers: self.member_qualifiers(), ..NameEnd::default() };
        let mut so_far: Option<Id> = None;
        let mut last_is_new = false;
        while !self.eat("E") {
            self.eat("L");
            let (id, is_new) = match (self.peek(), so_far) {
                (b'I', Some(template)) => {
                    let arguments = self.template_arguments(of_encoding)?;
                    end.has_arguments = true;
                    (self.arena.add(Node::Template(template, arguments)), true)
                }
                (b'S', None) if self.peek_at(1) == b't' => {
                    self.at += 2;
                    (self.arena.add(Node::Text("std")), false)
                }
                (b'S', None) => (self.substitution()?, false),
                (b'T', None) => {
                    let (index, id) = self.template_parameter()?;
                    self.seen.push(Candidate::Parameter(index));
                    (id, false)
                }
                (b'D', None) if matches!(self.peek_at(1), b't' | b'T') => (self.type_()?, false),
                (b'M', Some(scope)) => {
                    self.at += 1;
                    (scope, false)
                }
                (_, scope) => {
                    end.has_arguments = false;
                    let name = self.unqualified_name(scope, &mut end)?;
                    let id = match scope {
                        Some(scope) => self.arena.add(Node::Scoped(scope, name)),
                        None => name,
                    };
                    (id, true)
                }
            };
            if is_new {
                self.seen.push(Candidate::Node(id));
            }
            last_is_new = is_new;
            so_far = Some(id);
        }
        // The whole name is no candidate by itself: as a type it is entered by the type rule.
        if last_is_new {
            self.seen.pop();
        }
        so_far.map(|id| (id, end)).ok_or(Malformed)
    }

    /// `[r] [V] [K] [R | O]` of a member function.
    fn member_qualifiers(&mut self) -> &'static str {
        self.eat("r");
        let is_volatile = self.eat("V");
        let is_const = self.eat("K");
        let reference = (self.eat("R"), self.eat("O"));
        match (is_const, is_volatile, reference) {
            (false, false, (false, false)) => "",
            (false, false, (true, _)) => " &",
            (false, false, (false, true)) => " &&",
            (true, false, (true, _)) => " const &",
            (true, false, (false, true)) => " const &&",
            (true, false, _) => " const",
            (false, true, _) => " volatile",
            (true, true, _) => " const volatile",
        }
    }

    /// `Z <function> E <entity> [<discriminator>]`.
    fn local_name(&mut self, of_encoding: bool) -> Parsed<(Id, NameEnd)> {
        self.expect("Z")?;
        let function = self.encoding()?;
        self.expect("E")?;
        if self.eat("s") {
            self.discriminator();
            let literal = self.arena.add(Node::Text("string literal"));
            return Ok((self.arena.add(Node::Local(function, literal)), NameEnd::default()));
        }
        if self.eat("d") {
            self.digits();
            self.expect("_")?;
        }
        let (entity, end) = self.name(of_encoding)?;
        self.discriminator();
        Ok((self.arena.add(Node::Local(function, entity)), end))
    }

    /// `_ <digit>` or `__ <number> _`.
    fn discriminator(&mut self) {
        if self.peek() == b'_' && self.peek_at(1).is_ascii_digit() {
            self.at += 2;
        } else if self.text[self.at..].starts_with("__") && self.peek_at(2).is_ascii_digit() {
            self.at += 2;
            self.digits();
            self.eat("_");
        }
    }

    /// An identifier, operator, constructor, lambda or unnamed type, with ABI tags.
    fn unqualified_name(&mut self, scope: Option<Id>, end: &mut NameEnd) -> Parsed<Id> {
        end.is_structor_or_conversion = false;
        self.eat("L");
        let mut id = match (self.peek(), self.peek_at(1)) {
            (b'0'..=b'9', _) => self.source_name()?,
            (b'U', b'l') => self.lambda()?,
            (b'U', b't') => {
                self.at += 2;
                let number = self.ordinal()?;
                self.arena.add(Node::Unnamed(number))
            }
            (kind @ (b'C' | b'D'), b'0'..=b'9' | b'I') => {
                self.at += 2;
                if kind == b'C' && self.text[..self.at].ends_with('I') {
                    self.at += 1;
                    self.class_name()?;
                }
                end.is_structor_or_conversion = true;
                self.arena.add(Node::Structor(scope.ok_or(Malformed)?, kind == b'D'))
            }
            (b'c', b'v') => {
                self.at += 2;
                end.is_structor_or_conversion = true;
                let target = self.type_()?;
                self.arena.add(Node::Conversion(target))
            }
            (b'l', b'i') => {
                self.at += 2;
                self.source_name()?
            }
            _ => {
                let name = self.operator_name()?;
                self.arena.add(Node::Text(name))
            }
        };
        while self.eat("B") {
            let tag = self.identifier()?;
            id = self.arena.add(Node::Tagged(id, tag));
        }
        Ok(id)
    }

    /// `Ul <parameters> E [<number>] _`.
    fn lambda(&mut self) -> Parsed<Id> {
        self.at += 2;
        let outer = std::mem::replace(&mut self.in_lambda, true);
        let parameters = self.parameters();
        self.in_lambda = outer;
        let parameters = parameters?;
        self.expect("E")?;
        let number = self.ordinal()?;
        Ok(self.arena.add(Node::Lambda(parameters, number)))
    }

    /// `_` is the first, `0_` the second, and so on; the result counts from 1.
    fn ordinal(&mut self) -> Parsed<u32> {
        let number = if self.peek() == b'_' { 1 } else { self.number()?.checked_add(2).ok_or(Malformed)? };
        self.expect("_")?;
        Ok(number)
    }

    /// `<length> <identifier>`.
    pub(super) fn source_name(&mut self) -> Parsed<Id> {
        let name = self.identifier()?;
        let name = if name.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { name };
        Ok(self.arena.add(Node::Text(name)))
    }

    /// The identifier of a `<length> <identifier>`.
    pub(super) fn identifier(&mut self) -> Parsed<&'a str> {
        let length = self.number()? as usize;
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let name = self.text.get(self.at..end).filter(|name| !name.is_empty()).ok_or(Malformed)?;
        self.at = end;
        Ok(name)
    }

    /// `S_`, `S0_`, ... or one of the abbreviations of the standard library.
    pub(super) fn substitution(&mut self) -> Parsed<Id> {
        self.expect("S")?;
        let standard = match self.peek() {
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::string",
            b'i' => "std::istream",
            b'o' => "std::ostream",
            b'd' => "std::iostream",
            _ => {
                let index = self.sequence_number()?;
                return match self.seen.get(index) {
                    Some(Candidate::Node(id)) => Ok(*id),
                    Some(Candidate::Parameter(index)) => self.argument(*index, false),
                    None => Err(Malformed),
                };
            }
        };
        self.at += 1;
        Ok(self.arena.add(Node::Text(standard)))
    }

    /// `_` is 0; otherwise a number in base 36, plus one.
    fn sequence_number(&mut self) -> Parsed<usize> {
        let mut value: usize = 0;
        let start = self.at;
        while let digit @ (b'0'..=b'9' | b'A'..=b'Z') = self.peek() {
            let digit = if digit.is_ascii_digit() { digit - b'0' } else { digit - b'A' + 10 };
            value = value.checked_mul(36).and_then(|value| value.checked_add(digit as usize)).ok_or(Malformed)?;
            self.at += 1;
        }
        let index = if self.at == start { 0 } else { value.checked_add(1).ok_or(Malformed)? };
        self.expect("_")?;
        Ok(index)
    }

    /// `T_`, `T0_`, `TL0__`: its index and the argument it stands for.
    pub(super) fn template_parameter(&mut self) -> Parsed<(usize, Id)> {
        self.expect("T")?;
        let is_own = self.eat("L");
        if is_own {
            self.ordinal()?;
        }
        let index = self.ordinal()? as usize - 1;
        self.argument(index, is_own).map(|id| (index, id))
    }

    /// The argument of a template parameter; `is_own` when it is the lambda's own.
    fn argument(&mut self, index: usize, is_own: bool) -> Parsed<Id> {
        match self.arguments.get(index) {
            Some(&argument) if !is_own => Ok(argument),
            _ if self.in_lambda => Ok(self.arena.add(Node::Text(GENERIC.get(index).copied().unwrap_or("auto")))),
            _ => Err(Malformed),
        }
    }

    /// `I <arguments> E`. When they belong to the function being named they are entered one by one, because a later
    /// argument may refer to an earlier one.
    pub(super) fn template_arguments(&mut self, of_encoding: bool) -> Parsed<List> {
        self.deeper(|parser| {
            parser.expect("I")?;
            if of_encoding {
                parser.arguments.clear();
            }
            let mut arguments = Vec::new();
            while !parser.eat("E") {
                if parser.peek() == b'Q' {
                    return Err(Malformed);
                }
                let argument = parser.template_argument()?;
                arguments.push(argument);
                if of_encoding {
                    parser.arguments.push(argument);
                }
            }
            Ok(parser.arena.list(&arguments))
        })
    }

    fn template_argument(&mut self) -> Parsed<Id> {
        self.deeper(|parser| match (parser.peek(), parser.peek_at(1)) {
            (b'X', _) => {
                parser.at += 1;
                let id = parser.expression()?;
                parser.expect("E")?;
                Ok(id)
            }
            (b'L', _) => parser.literal(),
            (b'J', _) => {
                parser.at += 1;
                let mut items = Vec::new();
                while !parser.eat("E") {
                    items.push(parser.template_argument()?);
                }
                let items = parser.arena.list(&items);
                Ok(parser.arena.add(Node::Pack(items)))
            }
            // A parameter's own declaration before its argument: newer compilers write it where the argument alone
            // would be ambiguous. It is not printed, but what it names can be substituted.
            (b'T', b'n') => {
                parser.at += 2;
                parser.type_()?;
                parser.template_argument()
            }
            (b'T', b'y') => {
                parser.at += 2;
                parser.template_argument()
            }
            _ => parser.type_(),
        })
    }

    /// Runs a rule one level deeper.
    pub(super) fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Malformed);
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// The next byte, 0 at the end.
    pub(super) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    /// The byte `offset` ahead, 0 behind the end.
    pub(super) fn peek_at(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    /// Takes `token` when it is next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes `token`, which must be next.
    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(Malformed) }
    }

    /// Takes decimal digits.
    pub(super) fn digits(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Takes a decimal number.
    pub(super) fn number(&mut self) -> Parsed<u32> {
        self.digits().parse().map_err(|_| Malformed)
    }
}
