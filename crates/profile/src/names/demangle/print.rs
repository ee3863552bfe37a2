//! Writes a parsed name the way GNU's demangler does, because that is what profiler traces hold, except that closing
//! angle brackets stand together. Shared parts can make a short name print without end, so output and steps are bounded.

use super::node::{Arena, Id, List, Node};

/// The text grew past its bound.
#[derive(Debug)]
pub(super) struct TooLong;

type Written = Result<(), TooLong>;

const MAX_DEPTH: u32 = 256;

pub(super) struct Printer<'a, 'b> {
    arena: &'b Arena<'a>,
    out: String,
    max_bytes: usize,
    steps_left: u32,
    depth: u32,
    /// Which element of a pack is printed inside an expansion.
    element: Option<usize>,
}

impl<'a, 'b> Printer<'a, 'b> {
    /// Prints `id` in at most `max_bytes` bytes and a proportional number of steps.
    pub(super) fn print(arena: &'b Arena<'a>, id: Id, max_bytes: usize) -> Result<String, TooLong> {
        let steps_left = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let mut printer = Printer { arena, out: String::new(), max_bytes, steps_left, depth: 0, element: None };
        printer.whole(id)?;
        Ok(printer.out)
    }

    fn text(&mut self, text: &str) -> Written {
        if self.out.len() + text.len() > self.max_bytes {
            return Err(TooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    fn step(&mut self) -> Written {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(TooLong)?;
        Ok(())
    }

    fn whole(&mut self, id: Id) -> Written {
        self.left(id)?;
        self.right(id)
    }

    /// What stands before the declared name: everything, but for functions, arrays and what points to them.
    fn left(&mut self, id: Id) -> Written {
        self.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(TooLong);
        }
        self.depth += 1;
        let result = self.left_of(self.arena.node(id));
        self.depth -= 1;
        result
    }

    fn left_of(&mut self, node: Node<'a>) -> Written {
        match node {
            Node::Text(text) => self.text(text),
            Node::Scoped(scope, name) => self.around(scope, "::", name),
            Node::Local(function, entity) => {
                self.function_name(function)?;
                self.text("::")?;
                self.whole(entity)
            }
            Node::Conversion(target) => {
                self.text("operator ")?;
                self.whole(target)
            }
            Node::Structor(class, is_destructor) => {
                self.text(if is_destructor { "~" } else { "" })?;
                let name = self.base_name(class);
                self.text(name)
            }
            Node::Template(name, arguments) => {
                self.whole(name)?;
                self.text("<")?;
                self.list(arguments)?;
                self.text(">")
            }
            Node::Tagged(name, tag) => {
                self.whole(name)?;
                self.text("[abi:")?;
                self.text(tag)?;
                self.text("]")
            }
            Node::Pack(items) => match self.element {
                Some(index) => {
                    self.arena.items(items).get(index).map_or(Ok(()), |&item| self.element(item, Self::left))
                }
                None => self.list(items),
            },
            Node::Expansion(pattern) => self.expansion(pattern),
            Node::Pointer(to) => self.pointing(to, "*"),
            Node::LvalueRef(to) => self.referring(to, |printer, to| printer.pointing(to, "&")),
            // A reference to a reference is the one that is not an rvalue's.
            Node::RvalueRef(to) => {
                let is_lvalue = matches!(self.arena.node(self.resolved(to)), Node::LvalueRef(_));
                let sign = if is_lvalue { "&" } else { "&&" };
                self.referring(to, |printer, to| printer.pointing(to, sign))
            }
            Node::Qualified(inner, qualifier) => {
                self.left(inner)?;
                self.text(qualifier)
            }
            Node::Vendor(inner, qualifier) => {
                self.left(inner)?;
                self.text(" ")?;
                self.text(qualifier)
            }
            Node::Array(element, _) => self.left(element),
            Node::Function(result, _, _) => {
                self.left(result)?;
                self.text(" ")
            }
            Node::MemberPointer(class, member) => {
                self.left(member)?;
                self.text(if self.needs_parentheses(member) { "(" } else { " " })?;
                self.whole(class)?;
                self.text("::*")
            }
            Node::Vector(element, lanes) => {
                self.whole(element)?;
                self.text(" __vector(")?;
                if let Some(lanes) = lanes {
                    self.whole(lanes)?;
                }
                self.text(")")
            }
            Node::Encoding(name, result, parameters, qualifiers) => {
                if let Some(result) = result {
                    self.left(result)?;
                    self.text(" ")?;
                }
                self.signature(name, parameters, qualifiers)?;
                result.map_or(Ok(()), |result| self.right(result))
            }
            Node::Lambda(parameters, number) => {
                self.text("{lambda")?;
                self.parenthesised(parameters)?;
                self.text(&format!("#{number}}}"))
            }
            Node::Unnamed(number) => self.text(&format!("{{unnamed type#{number}}}")),
            Node::Parameter(number) => self.text(&format!("{{parm#{number}}}")),
            other => self.expression(other),
        }
    }

    /// Nodes that only occur in expressions.
    fn expression(&mut self, node: Node<'a>) -> Written {
        match node {
            Node::Integer(type_, digits, is_negative) => self.integer(type_, digits, is_negative),
            Node::Unary("&", operand) if self.member_function(operand).is_some() => {
                self.text("&")?;
                self.whole(self.member_function(operand).unwrap_or(operand))
            }
            Node::Unary(sign, operand) => {
                self.text(sign)?;
                self.operand(operand)
            }
            Node::Binary(left, sign @ ("." | "->"), right) => self.around(left, sign, right),
            Node::Binary(left, "[]", right) => {
                self.operand(left)?;
                self.text("[")?;
                self.whole(right)?;
                self.text("]")
            }
            Node::Binary(left, sign, right) => {
                // A bare `>` would close the template arguments.
                let is_closing = sign == ">";
                self.text(if is_closing { "(" } else { "" })?;
                self.operand(left)?;
                self.text(sign)?;
                self.operand(right)?;
                self.text(if is_closing { ")" } else { "" })
            }
            Node::Word(word, inner) => {
                self.text(word)?;
                self.bracketed(inner)
            }
            Node::Cast(word, target, operand) => {
                self.text(word)?;
                self.text("<")?;
                self.whole(target)?;
                self.text(">")?;
                self.bracketed(operand)
            }
            Node::Call(callee, arguments) => {
                self.whole(callee)?;
                self.parenthesised(arguments)
            }
            Node::Braced(target, items) => {
                if let Some(target) = target {
                    self.whole(target)?;
                }
                self.text("{")?;
                self.list(items)?;
                self.text("}")
            }
            Node::Conditional(condition, then, otherwise) => {
                self.operand(condition)?;
                self.text("?")?;
                self.operand(then)?;
                self.text(":")?;
                self.operand(otherwise)
            }
            Node::Fold(pattern, sign, is_left) => {
                self.text(if is_left { "(..." } else { "(" })?;
                self.text(if is_left { sign } else { "" })?;
                self.whole(pattern)?;
                self.text(if is_left { "" } else { sign })?;
                self.text(if is_left { ")" } else { "...)" })
            }
            _ => Ok(()),
        }
    }

    /// What stands behind the declared name.
    fn right(&mut self, id: Id) -> Written {
        self.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(TooLong);
        }
        self.depth += 1;
        let result = match self.arena.node(id) {
            Node::LvalueRef(to) | Node::RvalueRef(to) => self.referring(to, |printer, to| {
                let closing = if printer.needs_parentheses(to) { ")" } else { "" };
                printer.text(closing).and_then(|()| printer.right(to))
            }),
            Node::Pointer(to) | Node::MemberPointer(_, to) => {
                let closing = if self.needs_parentheses(to) { ")" } else { "" };
                self.text(closing).and_then(|()| self.right(to))
            }
            Node::Qualified(inner, _) | Node::Vendor(inner, _) => self.right(inner),
            Node::Pack(_) if self.element.is_some() && self.resolved(id) != id => {
                self.element(self.resolved(id), Self::right)
            }
            Node::Array(element, dimension) => self.dimension(dimension).and_then(|()| self.right(element)),
            Node::Function(result, parameters, qualifiers) => {
                self.parenthesised(parameters).and_then(|()| self.text(qualifiers)).and_then(|()| self.right(result))
            }
            _ => Ok(()),
        };
        self.depth -= 1;
        result
    }

    fn dimension(&mut self, dimension: Option<Id>) -> Written {
        self.text(if self.out.ends_with(']') { "[" } else { " [" })?;
        if let Some(dimension) = dimension {
            self.whole(dimension)?;
        }
        self.text("]")
    }

    fn pointing(&mut self, to: Id, sign: &str) -> Written {
        self.left(to)?;
        if self.needs_parentheses(to) {
            self.text(if self.out.ends_with(' ') { "(" } else { " (" })?;
        }
        self.text(sign)
    }

    /// Prints one element of a pack: packs inside it are its own.
    fn element(&mut self, item: Id, print: impl FnOnce(&mut Self, Id) -> Written) -> Written {
        let outer = self.element.take();
        let result = print(self, item);
        self.element = outer;
        result
    }

    /// Prints what a reference refers to, through further references.
    fn referring(&mut self, to: Id, print: impl FnOnce(&mut Self, Id) -> Written) -> Written {
        let mut id = to;
        let mut is_element = false;
        for _ in 0..MAX_DEPTH {
            match self.arena.node(id) {
                Node::LvalueRef(to) | Node::RvalueRef(to) => id = to,
                Node::Pack(_) if !is_element && self.resolved(id) != id => {
                    id = self.resolved(id);
                    is_element = true;
                }
                _ => break,
            }
        }
        if is_element { self.element(id, print) } else { print(self, id) }
    }

    /// The element of a pack that is being expanded; anything else is itself.
    fn resolved(&self, id: Id) -> Id {
        match (self.arena.node(id), self.element) {
            (Node::Pack(items), Some(index)) => self.arena.items(items).get(index).copied().unwrap_or(id),
            _ => id,
        }
    }

    /// True when a pointer to it must be bracketed.
    fn needs_parentheses(&self, id: Id) -> bool {
        match self.arena.node(self.resolved(id)) {
            Node::Function(..) | Node::Array(..) => true,
            Node::Qualified(inner, _) => {
                matches!(self.arena.node(self.resolved(inner)), Node::Function(..) | Node::Array(..))
            }
            _ => false,
        }
    }

    fn signature(&mut self, name: Id, parameters: List, qualifiers: &str) -> Written {
        self.whole(name)?;
        self.parenthesised(parameters)?;
        self.text(qualifiers)
    }

    /// A function without its result, as the scope of something or as an address.
    fn function_name(&mut self, id: Id) -> Written {
        match self.arena.node(id) {
            Node::Encoding(name, _, parameters, qualifiers) => self.signature(name, parameters, qualifiers),
            _ => self.whole(id),
        }
    }

    /// The name of a function that is no template and stands in a scope: its address is written without parameters.
    fn member_function(&self, id: Id) -> Option<Id> {
        match self.arena.node(id) {
            Node::Encoding(name, None, _, "") if matches!(self.arena.node(name), Node::Scoped(..)) => Some(name),
            _ => None,
        }
    }

    fn around(&mut self, left: Id, sign: &str, right: Id) -> Written {
        self.whole(left)?;
        self.text(sign)?;
        self.whole(right)
    }

    fn operand(&mut self, id: Id) -> Written {
        if matches!(self.arena.node(id), Node::Text(_) | Node::Scoped(..) | Node::Parameter(_)) {
            return self.whole(id);
        }
        self.bracketed(id)
    }

    fn bracketed(&mut self, id: Id) -> Written {
        self.text("(")?;
        self.whole(id)?;
        self.text(")")
    }

    fn parenthesised(&mut self, items: List) -> Written {
        self.text("(")?;
        self.list(items)?;
        self.text(")")
    }

    /// Items with commas; an empty pack leaves none.
    fn list(&mut self, items: List) -> Written {
        let arena = self.arena;
        let mut is_first = true;
        for &item in arena.items(items) {
            let before = self.out.len();
            if !is_first {
                self.text(", ")?;
            }
            let start = self.out.len();
            self.whole(item)?;
            if self.out.len() == start {
                self.out.truncate(before);
            } else {
                is_first = false;
            }
        }
        Ok(())
    }

    fn expansion(&mut self, pattern: Id) -> Written {
        let mut budget = 256;
        let Some(length) = self.pack_length(pattern, &mut budget) else {
            self.whole(pattern)?;
            return self.text("...");
        };
        let outer = self.element;
        for index in 0..length {
            if index > 0 {
                self.text(", ")?;
            }
            self.element = Some(index);
            self.whole(pattern)?;
        }
        self.element = outer;
        Ok(())
    }

    /// Length of the first pack inside a pattern.
    fn pack_length(&self, id: Id, budget: &mut u32) -> Option<usize> {
        *budget = budget.checked_sub(1)?;
        match self.arena.node(id) {
            Node::Pack(items) => Some(self.arena.items(items).len()),
            Node::Pointer(to) | Node::LvalueRef(to) | Node::RvalueRef(to) => self.pack_length(to, budget),
            Node::Qualified(to, _) | Node::Vendor(to, _) => self.pack_length(to, budget),
            Node::Word(_, to) | Node::Unary(_, to) => self.pack_length(to, budget),
            Node::Scoped(left, right) | Node::Binary(left, _, right) => {
                self.pack_length(left, budget).or_else(|| self.pack_length(right, budget))
            }
            Node::Template(_, list) | Node::Call(_, list) | Node::Function(_, list, _) => {
                self.arena.items(list).iter().find_map(|&item| self.pack_length(item, budget))
            }
            _ => None,
        }
    }

    /// `true`, `5`, `0u`, `2ul`, `(Enum)1`.
    fn integer(&mut self, type_: Id, digits: &str, is_negative: bool) -> Written {
        let node = self.arena.node(type_);
        let suffix = match node {
            Node::Text("bool") if digits == "0" || digits == "1" => {
                return self.text(if digits == "1" { "true" } else { "false" });
            }
            Node::Text("int") => "",
            Node::Text("unsigned int") => "u",
            Node::Text("long") => "l",
            Node::Text("unsigned long") => "ul",
            Node::Text("long long") => "ll",
            Node::Text("unsigned long long") => "ull",
            _ => {
                self.bracketed(type_)?;
                ""
            }
        };
        self.text(if is_negative { "-" } else { "" })?;
        self.text(digits)?;
        self.text(suffix)
    }

    /// The last identifier of a class name, which its constructors bear.
    fn base_name(&self, mut id: Id) -> &'a str {
        for _ in 0..MAX_DEPTH {
            id = match self.arena.node(id) {
                Node::Text(text) => return text.rsplit("::").next().unwrap_or(text),
                Node::Scoped(_, name) | Node::Template(name, _) | Node::Tagged(name, _) | Node::Local(_, name) => name,
                _ => break,
            };
        }
        ""
    }
}
