//! Which of the operations that are decoded the executor has: scalar, scalar memory, LDS, vector memory and matrix
//! operations.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
mod isa;
#[path = "isa/not_executed.rs"]
mod not_executed;

use kbench_gfx_emu::exec::{Compiler, Level, Limits, compile};
use kbench_gfx_emu::isa::{Arch, Class, Op, decode};
use std::collections::{BTreeMap, HashSet};

#[test]
fn everything_but_the_listed_is_executed() {
    let wanted: HashSet<&str> = not_executed::names().into_iter().collect();
    for arch in Arch::EXECUTED {
        let compiler = Compiler { arch, level: Level::Base, limits: Limits { vgprs: 256, agprs: 256 } };
        let mut seen: HashSet<Op> = HashSet::new();
        let mut executed: HashSet<Op> = HashSet::new();
        let mut errors: BTreeMap<&str, String> = BTreeMap::new();
        let mut random = isa::Random(0x5eed);
        for words in isa::words(arch, &mut random, 24) {
            let Ok(inst) = decode(arch, &isa::bytes(&words), 0) else { continue };
            seen.insert(inst.op);
            match compile(&compiler, &inst) {
                Ok(_) => {
                    executed.insert(inst.op);
                }
                Err(error) => {
                    errors.insert(inst.op.name(), format!("{}: {error}", inst.text(arch)));
                }
            }
        }
        let mut missing = Vec::new();
        for op in Op::all().filter(|op| op.is_on(arch) && op.class() != Class::Valu) {
            if !seen.contains(&op) && !wanted.contains(op.name()) {
                missing.push(format!("{} never decoded", op.name()));
            } else if !executed.contains(&op) && !wanted.contains(op.name()) {
                missing.push(errors.get(op.name()).cloned().unwrap_or_default());
            }
            assert!(!(executed.contains(&op) && wanted.contains(op.name())), "{} is executed", op.name());
        }
        assert!(missing.is_empty(), "{}: {missing:#?}", arch.name());
    }
}
