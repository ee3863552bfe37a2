//! What a mangled name is made of, in one arena: nodes refer to each other by index, so a substitution costs nothing.

/// Index of a node in its [`Arena`].
pub(super) type Id = u32;

/// One part of a name or type. Lists are ranges of [`Arena::lists`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    /// An identifier, a builtin type or an operator name, printed as it stands.
    Text(&'a str),
    /// `operator` and a type: a conversion function.
    Conversion(Id),
    /// A constructor (`false`) or destructor (`true`) of the class named by the node.
    Structor(Id, bool),
    /// `a::b`.
    Scoped(Id, Id),
    /// `name<args>`.
    Template(Id, List),
    /// `name[abi:tag]`.
    Tagged(Id, &'a str),
    /// A parameter pack with its elements.
    Pack(List),
    /// A pattern that is repeated over the pack inside it.
    Expansion(Id),
    /// `T*`.
    Pointer(Id),
    /// `T&`.
    LvalueRef(Id),
    /// `T&&`.
    RvalueRef(Id),
    /// A type followed by a qualifier with its space: `T const`.
    Qualified(Id, &'a str),
    /// A type in an address space or with another vendor qualifier: `T AS1`.
    Vendor(Id, &'a str),
    /// `T [dimension]`.
    Array(Id, Option<Id>),
    /// A function type: result, parameters, qualifiers behind the parameters.
    Function(Id, List, &'a str),
    /// `T Class::*`: class, member type.
    MemberPointer(Id, Id),
    /// `T __vector(n)`.
    Vector(Id, Option<Id>),
    /// A function: name, result if mangled, parameters, qualifiers.
    Encoding(Id, Option<Id>, List, &'a str),
    /// An entity inside a function.
    Local(Id, Id),
    /// `{lambda(params)#n}`.
    Lambda(List, u32),
    /// `{unnamed type#n}`.
    Unnamed(u32),
    /// An integer constant of a type: digits, negative?
    Integer(Id, &'a str, bool),
    /// `op expression`.
    Unary(&'a str, Id),
    /// `(a) op (b)`.
    Binary(Id, &'a str, Id),
    /// `word(inner)`: sizeof and the like.
    Word(&'a str, Id),
    /// `word<type>(expression)`: the named casts.
    Cast(&'a str, Id, Id),
    /// `callee(args)`.
    Call(Id, List),
    /// `callee{args}`, the type may be missing.
    Braced(Option<Id>, List),
    /// `a ? b : c`.
    Conditional(Id, Id, Id),
    /// A fold over a pack: pattern, operator, left?
    Fold(Id, &'a str, bool),
    /// `{parm#n}`: a parameter inside a declared type.
    Parameter(u32),
}

/// A range of [`Arena::lists`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    start: u32,
    end: u32,
}

/// The nodes of one name.
#[derive(Debug, Default)]
pub(super) struct Arena<'a> {
    nodes: Vec<Node<'a>>,
    lists: Vec<Id>,
}

impl<'a> Arena<'a> {
    /// Adds a node.
    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        let id = self.nodes.len() as Id;
        self.nodes.push(node);
        id
    }

    /// Adds a list of nodes.
    pub(super) fn list(&mut self, ids: &[Id]) -> List {
        let start = self.lists.len() as u32;
        self.lists.extend_from_slice(ids);
        List { start, end: self.lists.len() as u32 }
    }

    /// A node by index.
    pub(super) fn node(&self, id: Id) -> Node<'a> {
        self.nodes.get(id as usize).copied().unwrap_or(Node::Text(""))
    }

    /// The nodes of a list.
    pub(super) fn items(&self, list: List) -> &[Id] {
        self.lists.get(list.start as usize..list.end as usize).unwrap_or_default()
    }
}
