//! Tokens to nodes, by precedence climbing.
//!
//! From loosest to tightest: `||`, `&&`, comparisons (which do not chain), `+ -`, `* / %`, unary `- !`, primaries.

use super::lexer::{self, Token, TokenKind};
use super::{
    Binary, Expr, ExprError, FUNCTIONS, MAX_DEPTH, MAX_LENGTH, Node, NodeId, NodeKind, PROPERTIES, Problem, is_reserved,
};

pub(super) fn parse(text: &str) -> Result<Expr, ExprError> {
    if text.len() > MAX_LENGTH {
        return Err(ExprError::new(MAX_LENGTH, Problem::TooLong(text.len())));
    }
    if text.trim().is_empty() {
        return Err(ExprError::new(0, Problem::Empty));
    }
    let mut parser = Parser { tokens: lexer::tokens(text)?, next: 0, nodes: Vec::new(), depth: 0 };
    parser.binary(0)?;
    if parser.peek().kind != TokenKind::End {
        return Err(parser.expected("an operator or the end"));
    }
    Ok(Expr { text: text.to_owned(), nodes: parser.nodes })
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    nodes: Vec<Node>,
    depth: usize,
}

/// The binary operators of each level, loosest first.
const LEVELS: &[&[(&str, Binary)]] = &[
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[
        ("==", Binary::Eq),
        ("!=", Binary::Ne),
        ("<=", Binary::Le),
        (">=", Binary::Ge),
        ("<", Binary::Lt),
        (">", Binary::Gt),
    ],
    &[("+", Binary::Add), ("-", Binary::Sub)],
    &[("*", Binary::Mul), ("/", Binary::Div), ("%", Binary::Rem)],
];
const COMPARISONS: usize = 2;

impl Parser {
    fn peek(&self) -> &Token {
        // The last token is the end, which is never consumed.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        if token.kind != TokenKind::End {
            self.next += 1;
        }
        token
    }

    fn take_op(&mut self, op: &str) -> bool {
        let found = matches!(self.peek().kind, TokenKind::Op(known) if known == op);
        if found {
            self.next += 1;
        }
        found
    }

    fn expected(&self, wanted: &'static str) -> ExprError {
        let token = self.peek();
        let found = match &token.kind {
            TokenKind::End => "the end".to_owned(),
            TokenKind::Op(op) => format!("`{op}`"),
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Word(word) => format!("'{word}'"),
            TokenKind::Int(value) => value.to_string(),
            TokenKind::Float(value) => value.to_string(),
        };
        ExprError::new(token.start, Problem::Expected { wanted, found })
    }

    fn push(&mut self, kind: NodeKind, at: usize) -> NodeId {
        self.nodes.push(Node { kind, at });
        self.nodes.len() - 1
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, ExprError>) -> Result<T, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::new(self.peek().start, Problem::TooDeep));
        }
        let outcome = inner(self);
        self.depth -= 1;
        outcome
    }

    fn binary(&mut self, level: usize) -> Result<NodeId, ExprError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut compared = false;
        loop {
            let TokenKind::Op(op) = self.peek().kind else { return Ok(left) };
            let Some((_, operator)) = operators.iter().find(|(known, _)| *known == op) else { return Ok(left) };
            let at = self.take().start;
            if level == COMPARISONS && compared {
                return Err(ExprError::new(at, Problem::Chained));
            }
            compared = true;
            let right = self.binary(level + 1)?;
            left = self.push(NodeKind::Binary(*operator, left, right), at);
        }
    }

    fn unary(&mut self) -> Result<NodeId, ExprError> {
        let at = self.peek().start;
        if self.take_op("-") {
            let operand = self.nested(Self::unary)?;
            return Ok(self.push(NodeKind::Negate(operand), at));
        }
        if self.take_op("!") {
            let operand = self.nested(Self::unary)?;
            return Ok(self.push(NodeKind::Not(operand), at));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<NodeId, ExprError> {
        let at = self.peek().start;
        match self.peek().kind.clone() {
            TokenKind::Int(value) => {
                self.take();
                Ok(self.push(NodeKind::Int(value), at))
            }
            TokenKind::Float(value) => {
                self.take();
                Ok(self.push(NodeKind::Float(value), at))
            }
            TokenKind::Word(word) => {
                self.take();
                Ok(self.push(NodeKind::Word(word), at))
            }
            TokenKind::Op("(") => {
                self.take();
                let inner = self.nested(|parser| parser.binary(0))?;
                if self.take_op(")") { Ok(inner) } else { Err(self.expected("`)`")) }
            }
            TokenKind::Name(name) => {
                self.take();
                if self.take_op("(") {
                    return self.nested(|parser| parser.call(&name, at));
                }
                let callable = FUNCTIONS.iter().any(|(known, ..)| *known == name)
                    || PROPERTIES.iter().any(|(known, ..)| *known == name);
                if callable {
                    return Err(ExprError::new(at, Problem::NotCalled(name)));
                }
                Ok(self.push(NodeKind::Name(name), at))
            }
            TokenKind::Op(_) | TokenKind::End => Err(self.expected("a number, a name or `(`")),
        }
    }

    /// A call, after its opening parenthesis.
    fn call(&mut self, name: &str, at: usize) -> Result<NodeId, ExprError> {
        if let Some((_, property, axis)) = PROPERTIES.iter().find(|(known, ..)| *known == name) {
            let TokenKind::Name(tensor) = self.peek().kind.clone() else {
                return Err(self.expected("the name of a tensor"));
            };
            if is_reserved(&tensor) {
                return Err(self.expected("the name of a tensor"));
            }
            self.take();
            let mut index = None;
            if *axis {
                if !self.take_op(",") {
                    return Err(self.expected("`,` and the number of a dimension"));
                }
                index = Some(self.binary(0)?);
            }
            if !self.take_op(")") {
                return Err(self.expected("`)`"));
            }
            return Ok(self.push(NodeKind::Tensor(*property, tensor, index), at));
        }
        let Some((name, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let known = FUNCTIONS.iter().map(|(name, ..)| *name).chain(PROPERTIES.iter().map(|(name, ..)| *name));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(ExprError::new(at, Problem::UnknownFunction { name: name.to_owned(), known }));
        };
        let mut arguments = Vec::new();
        if !self.take_op(")") {
            loop {
                arguments.push(self.binary(0)?);
                if self.take_op(")") {
                    break;
                }
                if !self.take_op(",") {
                    return Err(self.expected("`,` or `)`"));
                }
            }
        }
        if arguments.len() < *least || arguments.len() > *most {
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let problem = Problem::Arguments { name, wanted, found: arguments.len() };
            return Err(ExprError::new(at, problem));
        }
        Ok(self.push(NodeKind::Call(*function, arguments), at))
    }
}
