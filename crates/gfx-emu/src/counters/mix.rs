//! Which instructions a launch executed, how often.

use crate::isa::{Arch, Class, Encoding, Inst, Op, Operand};
use crate::launch::Outcome;
use crate::model::MatrixOp;
use crate::program::Program;
use std::collections::HashMap;

/// An executed operation, with what the counters tell apart beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executed {
    /// The operation.
    pub op: Op,
    /// How it was written.
    pub encoding: Encoding,
    /// A vector memory atomic that gives the value before.
    pub returns: bool,
    /// What a matrix instruction computes.
    pub matrix: Option<MatrixOp>,
}

impl Executed {
    /// What an instruction counts as.
    pub fn of(inst: &Inst) -> Self {
        let is_atomic = inst.op.class() == Class::VmemAtomic;
        let returns = is_atomic && inst.dst[0] != Operand::None;
        Self { op: inst.op, encoding: inst.enc, returns, matrix: MatrixOp::of_inst(inst) }
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.op.class()
    }

    /// A `flat_*` instruction, whose addresses may be of memory, LDS or scratch.
    pub fn is_flat(&self) -> bool {
        self.encoding == Encoding::Flat
    }

    /// A `buffer_*` or `tbuffer_*` instruction.
    pub fn is_buffer(&self) -> bool {
        matches!(self.encoding, Encoding::Mubuf | Encoding::Mtbuf)
    }

    /// True when a unit executes it; the others end in the instruction buffer.
    pub fn is_issued(&self) -> bool {
        !matches!(self.class(), Class::Wait | Class::Barrier | Class::End | Class::Internal | Class::Message)
    }

    /// The mnemonic that the histogram shows: FLAT, GLOBAL and SCRATCH share operations.
    pub fn mnemonic(&self, arch: Arch) -> String {
        let name = self.op.mnemonic(arch).unwrap_or(self.op.name());
        match (self.encoding, name.strip_prefix("flat_")) {
            (Encoding::Global, Some(rest)) => format!("global_{rest}"),
            (Encoding::Scratch, Some(rest)) => format!("scratch_{rest}"),
            _ => name.to_owned(),
        }
    }
}

/// The instructions of a launch as it ran: a sampled launch's are those of its sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mix {
    /// Each kind once, most executed first (then by mnemonic order of the opcode table).
    pub executed: Vec<(Executed, u64)>,
}

impl Mix {
    /// The mix of a launch.
    pub fn of(outcome: &Outcome) -> Self {
        Self::count(&outcome.program, &outcome.counts)
    }

    /// The mix of a program, given the executions of each dword that starts an instruction.
    pub fn count(program: &Program, counts: &[u64]) -> Self {
        let mut kinds: HashMap<Executed, u64> = HashMap::new();
        for (pc, count) in (0_u32..).zip(counts).filter(|(_, count)| **count != 0) {
            if let Some(inst) = program.inst(pc) {
                let sum = kinds.entry(Executed::of(&inst)).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        Self::from_kinds(kinds.into_iter().collect())
    }

    /// A mix of these; kinds must differ.
    pub fn from_kinds(mut executed: Vec<(Executed, u64)>) -> Self {
        executed.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.op, kind.encoding as u8));
        Self { executed }
    }

    /// Executions of those that `is_counted`.
    pub fn total(&self, is_counted: impl Fn(&Executed) -> bool) -> u64 {
        self.executed.iter().filter(|(kind, _)| is_counted(kind)).map(|(_, count)| count).sum()
    }

    /// Executions of classes.
    pub fn class(&self, classes: &[Class]) -> u64 {
        self.total(|kind| classes.contains(&kind.class()))
    }

    /// Matrix instructions.
    pub fn matrix(&self) -> impl Iterator<Item = (Op, MatrixOp, u64)> {
        self.executed.iter().filter_map(|(kind, count)| Some((kind.op, kind.matrix?, *count)))
    }

    /// Executions by mnemonic, most executed first.
    pub fn histogram(&self, arch: Arch) -> Vec<(String, u64)> {
        let mut rows: Vec<(String, u64)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (kind, count) in &self.executed {
            let name = kind.mnemonic(arch);
            match places.get(&name) {
                Some(place) => rows[*place].1 += count,
                None => {
                    places.insert(name.clone(), rows.len());
                    rows.push((name, *count));
                }
            }
        }
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows
    }
}
