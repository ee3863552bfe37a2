//! Expressions of the Itanium C++ ABI (5.1.6) as they occur in template arguments: literals, operators, sizeof, calls,
//! casts, folds, and the addresses of functions.

use super::node::{Id, List, Node};
use super::parse::{Malformed, Parsed, Parser};

/// How an operator is used in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arity {
    Unary,
    Binary,
    /// Only as the name of a function, or with a rule of its own.
    Name,
}

/// Operators: mangled code, name as a function, arity.
const OPERATORS: &[(&str, &str, Arity)] = &[
    ("aa", "operator&&", Arity::Binary),
    ("ad", "operator&", Arity::Unary),
    ("an", "operator&", Arity::Binary),
    ("aN", "operator&=", Arity::Binary),
    ("aS", "operator=", Arity::Binary),
    ("cl", "operator()", Arity::Name),
    ("cm", "operator,", Arity::Binary),
    ("co", "operator~", Arity::Unary),
    ("da", "operator delete[]", Arity::Name),
    ("de", "operator*", Arity::Unary),
    ("dl", "operator delete", Arity::Name),
    ("dv", "operator/", Arity::Binary),
    ("dV", "operator/=", Arity::Binary),
    ("eo", "operator^", Arity::Binary),
    ("eO", "operator^=", Arity::Binary),
    ("eq", "operator==", Arity::Binary),
    ("ge", "operator>=", Arity::Binary),
    ("gt", "operator>", Arity::Binary),
    ("ix", "operator[]", Arity::Name),
    ("le", "operator<=", Arity::Binary),
    ("ls", "operator<<", Arity::Binary),
    ("lS", "operator<<=", Arity::Binary),
    ("lt", "operator<", Arity::Binary),
    ("mi", "operator-", Arity::Binary),
    ("mI", "operator-=", Arity::Binary),
    ("ml", "operator*", Arity::Binary),
    ("mL", "operator*=", Arity::Binary),
    ("mm", "operator--", Arity::Name),
    ("na", "operator new[]", Arity::Name),
    ("ne", "operator!=", Arity::Binary),
    ("ng", "operator-", Arity::Unary),
    ("nt", "operator!", Arity::Unary),
    ("nw", "operator new", Arity::Name),
    ("oo", "operator||", Arity::Binary),
    ("or", "operator|", Arity::Binary),
    ("oR", "operator|=", Arity::Binary),
    ("pl", "operator+", Arity::Binary),
    ("pL", "operator+=", Arity::Binary),
    ("pm", "operator->*", Arity::Name),
    ("pp", "operator++", Arity::Name),
    ("ps", "operator+", Arity::Unary),
    ("pt", "operator->", Arity::Name),
    ("rm", "operator%", Arity::Binary),
    ("rM", "operator%=", Arity::Binary),
    ("rs", "operator>>", Arity::Binary),
    ("rS", "operator>>=", Arity::Binary),
    ("ss", "operator<=>", Arity::Binary),
];

/// The bare sign of an operator: `+` of `operator+`.
fn sign(name: &'static str) -> &'static str {
    name.strip_prefix("operator").unwrap_or(name)
}

impl<'a> Parser<'a> {
    fn operator(&self) -> Option<(&'static str, Arity)> {
        let code = self.text.get(self.at..self.at + 2)?;
        OPERATORS.iter().find(|(known, _, _)| *known == code).map(|(_, name, arity)| (*name, *arity))
    }

    /// The name of an operator function.
    pub(super) fn operator_name(&mut self) -> Parsed<&'static str> {
        let (name, _) = self.operator().ok_or(Malformed)?;
        self.at += 2;
        Ok(name)
    }

    /// `<expression>`.
    pub(super) fn expression(&mut self) -> Parsed<Id> {
        self.deeper(|parser| {
            parser.eat("gs");
            let code = (parser.peek(), parser.peek_at(1));
            match code {
                (b'L', _) => return parser.literal(),
                (b'T', _) => return parser.template_parameter().map(|(_, id)| id),
                (b'0'..=b'9', _) | (b'o', b'n') | (b's', b'r') => return parser.unresolved_name(),
                _ => {}
            }
            if let Some((name, arity)) = parser.operator() {
                match arity {
                    Arity::Unary => {
                        parser.at += 2;
                        let operand = parser.expression()?;
                        return Ok(parser.arena.add(Node::Unary(sign(name), operand)));
                    }
                    Arity::Binary => {
                        parser.at += 2;
                        let left = parser.expression()?;
                        let right = parser.expression()?;
                        return Ok(parser.arena.add(Node::Binary(left, sign(name), right)));
                    }
                    Arity::Name => {}
                }
            }
            parser.at += 2;
            parser.special_expression(code)
        })
    }

    /// Expressions with a rule of their own; their two letters are taken.
    fn special_expression(&mut self, code: (u8, u8)) -> Parsed<Id> {
        let node = match code {
            (b'c', b'l') => {
                let callee = self.expression()?;
                Node::Call(callee, self.expressions()?)
            }
            (b'c', b'v') => {
                let target = self.type_()?;
                if self.eat("_") {
                    Node::Call(target, self.expressions()?)
                } else {
                    let operand = self.expression()?;
                    let operand = self.arena.list(&[operand]);
                    Node::Call(target, operand)
                }
            }
            (b's', b'c') => self.cast("static_cast")?,
            (b'c', b'c') => self.cast("const_cast")?,
            (b'd', b'c') => self.cast("dynamic_cast")?,
            (b'r', b'c') => self.cast("reinterpret_cast")?,
            (b's', b't') => Node::Word("sizeof ", self.type_()?),
            (b's', b'z') => Node::Word("sizeof ", self.expression()?),
            (b'a', b't') => Node::Word("alignof ", self.type_()?),
            (b'a', b'z') => Node::Word("alignof ", self.expression()?),
            (b'n', b'x') => Node::Word("noexcept ", self.expression()?),
            (b's', b'Z') => {
                let pack = self.expression()?;
                Node::Word("sizeof... ", pack)
            }
            (b's', b'p') => Node::Expansion(self.expression()?),
            (b't', b'l') => {
                let target = self.type_()?;
                Node::Braced(Some(target), self.expressions()?)
            }
            (b'i', b'l') => Node::Braced(None, self.expressions()?),
            (b'i', b'x') => {
                let array = self.expression()?;
                let index = self.expression()?;
                Node::Binary(array, "[]", index)
            }
            (b'd', b't') => self.member(".")?,
            (b'p', b't') => self.member("->")?,
            (b'q', b'u') => {
                let condition = self.expression()?;
                let then = self.expression()?;
                Node::Conditional(condition, then, self.expression()?)
            }
            (b'f', b'p') => {
                self.eat("K");
                let number = if self.peek() == b'_' { 1 } else { self.number()?.checked_add(2).ok_or(Malformed)? };
                self.expect("_")?;
                Node::Parameter(number)
            }
            (b'f', b'l' | b'r') => {
                let sign = sign(self.operator_name()?);
                Node::Fold(self.expression()?, sign, code.1 == b'l')
            }
            (b'f', b'L' | b'R') => {
                let sign = sign(self.operator_name()?);
                let left = self.expression()?;
                let right = self.expression()?;
                Node::Binary(left, sign, right)
            }
            _ => return Err(Malformed),
        };
        Ok(self.arena.add(node))
    }

    fn cast(&mut self, word: &'static str) -> Parsed<Node<'a>> {
        let target = self.type_()?;
        Ok(Node::Cast(word, target, self.expression()?))
    }

    fn member(&mut self, sign: &'static str) -> Parsed<Node<'a>> {
        let object = self.expression()?;
        let member = self.unresolved_name()?;
        Ok(Node::Binary(object, sign, member))
    }

    /// Expressions up to `E`.
    fn expressions(&mut self) -> Parsed<List> {
        let mut items = Vec::new();
        while !self.eat("E") {
            items.push(self.expression()?);
        }
        Ok(self.arena.list(&items))
    }

    /// `sr <type> <name>`, `srN <type> <level>+ E <name>`, `sr <level>+ E <name>`, `on <operator>` or a plain name, each
    /// with arguments.
    fn unresolved_name(&mut self) -> Parsed<Id> {
        if self.eat("sr") {
            let is_plain = self.peek().is_ascii_digit();
            let has_levels = self.eat("N") || is_plain;
            let mut scope = if is_plain { self.simple_name()? } else { self.type_()? };
            while has_levels && !self.eat("E") {
                let level = self.simple_name()?;
                scope = self.arena.add(Node::Scoped(scope, level));
            }
            let name = self.simple_name()?;
            return Ok(self.arena.add(Node::Scoped(scope, name)));
        }
        self.simple_name()
    }

    /// An identifier or operator, with template arguments.
    fn simple_name(&mut self) -> Parsed<Id> {
        let mut id = if self.eat("on") {
            let name = self.operator_name()?;
            self.arena.add(Node::Text(name))
        } else {
            self.source_name()?
        };
        if self.peek() == b'I' {
            let arguments = self.template_arguments(false)?;
            id = self.arena.add(Node::Template(id, arguments));
        }
        Ok(id)
    }

    /// `L <type> <value> E` or `L _Z <encoding> E`.
    pub(super) fn literal(&mut self) -> Parsed<Id> {
        self.expect("L")?;
        if self.eat("_Z") || self.eat("Z") {
            let id = self.encoding()?;
            self.expect("E")?;
            return Ok(id);
        }
        if self.eat("DnE") || self.eat("Dn0E") {
            return Ok(self.arena.add(Node::Text("nullptr")));
        }
        let type_ = self.type_()?;
        let is_negative = self.eat("n");
        let start = self.at;
        while matches!(self.peek(), b'0'..=b'9' | b'a'..=b'f' | b'_') {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        self.expect("E")?;
        Ok(self.arena.add(Node::Integer(type_, digits, is_negative)))
    }
}
