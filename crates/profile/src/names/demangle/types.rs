//! Types of the Itanium C++ ABI (5.1.5), with the floats of GPU code: `DF16b`, `DF16_`, vendor types, address spaces.

use super::node::{Id, Node};
use super::parse::{Candidate, Malformed, Parsed, Parser};

impl<'a> Parser<'a> {
    /// `<type>`. Everything but builtin types becomes a substitution candidate.
    pub(super) fn type_(&mut self) -> Parsed<Id> {
        self.deeper(|parser| {
            if let Some(name) = parser.builtin() {
                return Ok(parser.arena.add(Node::Text(name)));
            }
            let id = match (parser.peek(), parser.peek_at(1)) {
                (b'r' | b'V' | b'K', _) => parser.qualified_type()?,
                (b'P', _) => parser.around(Node::Pointer)?,
                (b'R', _) => parser.around(Node::LvalueRef)?,
                (b'O', _) => parser.around(Node::RvalueRef)?,
                (b'C' | b'G', _) => parser.around(|inner| Node::Qualified(inner, " _Complex"))?,
                (b'F', _) => parser.function_type("")?,
                (b'A', _) => parser.array_type()?,
                (b'M', _) => {
                    parser.at += 1;
                    let class = parser.type_()?;
                    let member = parser.type_()?;
                    parser.arena.add(Node::MemberPointer(class, member))
                }
                (b'u', _) => {
                    parser.at += 1;
                    parser.source_name()?
                }
                (b'U', b'l' | b't') => parser.class_name()?,
                (b'U', _) => {
                    parser.at += 1;
                    let qualifier = parser.identifier()?;
                    let inner = parser.type_()?;
                    parser.arena.add(Node::Vendor(inner, qualifier))
                }
                (b'T', b's' | b'u' | b'e') => {
                    parser.at += 2;
                    parser.class_name()?
                }
                (b'T', _) => {
                    let (index, parameter) = parser.template_parameter()?;
                    parser.seen.push(Candidate::Parameter(index));
                    if parser.peek() != b'I' {
                        return Ok(parameter);
                    }
                    let arguments = parser.template_arguments(false)?;
                    parser.arena.add(Node::Template(parameter, arguments))
                }
                (b'S', second) if second != b't' => {
                    let known = parser.substitution()?;
                    if parser.peek() != b'I' {
                        return Ok(known);
                    }
                    let arguments = parser.template_arguments(false)?;
                    parser.arena.add(Node::Template(known, arguments))
                }
                (b'D', second) => match parser.special_type(second)? {
                    Special::Builtin(id) => return Ok(id),
                    Special::Compound(id) => id,
                },
                _ => parser.class_name()?,
            };
            parser.seen.push(Candidate::Node(id));
            Ok(id)
        })
    }

    /// One letter and a type.
    fn around(&mut self, make: impl FnOnce(Id) -> Node<'a>) -> Parsed<Id> {
        self.at += 1;
        let inner = self.type_()?;
        Ok(self.arena.add(make(inner)))
    }

    /// `[r] [V] [K] <type>`; qualifiers of a function type stand behind its parameters.
    fn qualified_type(&mut self) -> Parsed<Id> {
        let is_restrict = self.eat("r");
        let is_volatile = self.eat("V");
        let is_const = self.eat("K");
        let qualifiers = match (is_const, is_volatile, is_restrict) {
            (true, false, false) => " const",
            (false, true, false) => " volatile",
            (true, true, false) => " const volatile",
            (false, false, true) => " __restrict",
            (true, false, true) => " const __restrict",
            (false, true, true) => " volatile __restrict",
            (true, true, true) => " const volatile __restrict",
            (false, false, false) => "",
        };
        if self.peek() == b'F' {
            return self.function_type(qualifiers);
        }
        let inner = self.type_()?;
        Ok(self.arena.add(Node::Qualified(inner, qualifiers)))
    }

    /// `F [Y] <result> <parameters> [R | O] E`.
    fn function_type(&mut self, qualifiers: &'static str) -> Parsed<Id> {
        self.expect("F")?;
        self.eat("Y");
        let result = self.type_()?;
        let mut parameters = Vec::new();
        loop {
            match (self.peek(), self.peek_at(1)) {
                (b'E', _) => {
                    self.at += 1;
                    break;
                }
                (b'R' | b'O', b'E') => {
                    self.at += 2;
                    break;
                }
                (b'v', _) => self.at += 1,
                _ => parameters.push(self.type_()?),
            }
        }
        let parameters = self.arena.list(&parameters);
        Ok(self.arena.add(Node::Function(result, parameters, qualifiers)))
    }

    /// `A [<dimension>] _ <type>`.
    fn array_type(&mut self) -> Parsed<Id> {
        self.expect("A")?;
        let dimension = self.dimension()?;
        let element = self.type_()?;
        Ok(self.arena.add(Node::Array(element, dimension)))
    }

    /// Digits or an expression, then `_`.
    fn dimension(&mut self) -> Parsed<Option<Id>> {
        if self.eat("_") {
            return Ok(None);
        }
        let id = if self.peek().is_ascii_digit() {
            let digits = self.digits();
            self.arena.add(Node::Text(digits))
        } else {
            self.expression()?
        };
        self.expect("_")?;
        Ok(Some(id))
    }

    /// Types that start with `D` and are not builtin by two letters alone.
    fn special_type(&mut self, second: u8) -> Parsed<Special> {
        self.at += 2;
        let id = match second {
            b'F' => return self.binary_float().map(Special::Builtin),
            b'B' | b'U' => {
                let bits = if self.peek().is_ascii_digit() {
                    let digits = self.digits();
                    self.arena.add(Node::Text(digits))
                } else {
                    self.expression()?
                };
                self.expect("_")?;
                let word = if second == b'U' { "unsigned _BitInt" } else { "_BitInt" };
                return Ok(Special::Builtin(self.arena.add(Node::Word(word, bits))));
            }
            b'v' => {
                let lanes = self.dimension()?;
                let element = self.type_()?;
                self.arena.add(Node::Vector(element, lanes))
            }
            b'p' => {
                let pattern = self.type_()?;
                self.arena.add(Node::Expansion(pattern))
            }
            b't' | b'T' => {
                let inner = self.expression()?;
                self.expect("E")?;
                self.arena.add(Node::Word("decltype ", inner))
            }
            b'o' => self.function_type(" noexcept")?,
            _ => return Err(Malformed),
        };
        Ok(Special::Compound(id))
    }

    /// `DF <bits> _`, `DF16b`, `DF <bits> x`.
    fn binary_float(&mut self) -> Parsed<Id> {
        let bits = self.digits();
        let name = match (bits, self.peek()) {
            ("16", b'b') => "std::bfloat16_t",
            ("16", b'_') => "_Float16",
            ("32", b'_') => "_Float32",
            ("32", b'x') => "_Float32x",
            ("64", b'_') => "_Float64",
            ("64", b'x') => "_Float64x",
            ("128", b'_') => "_Float128",
            _ => return Err(Malformed),
        };
        self.at += 1;
        Ok(self.arena.add(Node::Text(name)))
    }

    /// Takes a builtin type.
    fn builtin(&mut self) -> Option<&'static str> {
        let (name, length) = match self.peek() {
            b'v' => ("void", 1),
            b'w' => ("wchar_t", 1),
            b'b' => ("bool", 1),
            b'c' => ("char", 1),
            b'a' => ("signed char", 1),
            b'h' => ("unsigned char", 1),
            b's' => ("short", 1),
            b't' => ("unsigned short", 1),
            b'i' => ("int", 1),
            b'j' => ("unsigned int", 1),
            b'l' => ("long", 1),
            b'm' => ("unsigned long", 1),
            b'x' => ("long long", 1),
            b'y' => ("unsigned long long", 1),
            b'n' => ("__int128", 1),
            b'o' => ("unsigned __int128", 1),
            b'f' => ("float", 1),
            b'd' => ("double", 1),
            b'e' => ("long double", 1),
            b'g' => ("__float128", 1),
            b'z' => ("...", 1),
            b'D' => match self.peek_at(1) {
                b'h' => ("half", 2),
                b'f' => ("decimal32", 2),
                b'd' => ("decimal64", 2),
                b'e' => ("decimal128", 2),
                b'i' => ("char32_t", 2),
                b's' => ("char16_t", 2),
                b'u' => ("char8_t", 2),
                b'a' => ("auto", 2),
                b'c' => ("decltype(auto)", 2),
                b'n' => ("decltype(nullptr)", 2),
                _ => return None,
            },
            _ => return None,
        };
        self.at += length;
        Some(name)
    }
}

/// A type that starts with `D`.
enum Special {
    Builtin(Id),
    Compound(Id),
}
