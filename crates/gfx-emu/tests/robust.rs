//! Every instruction with random operands on random registers: nothing panics, faults are named, and all levels of the host's
//! vector units leave the same registers, LDS and memory.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
mod isa;

use kbench_gfx_emu::exec::{Compiler, Env, Flow, Level, Limits, Mode, Vreg, Wave, code, compile};
use kbench_gfx_emu::fault::FaultKind;
use kbench_gfx_emu::isa::{Arch, Inst, decode};
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::traffic::{Shape, Traffic};

const BYTES: usize = 4096;
const LIMITS: Limits = Limits { vgprs: 96, agprs: 64 };

/// What a step leaves behind.
#[derive(Debug, PartialEq)]
struct After {
    flow: Flow,
    fault: Option<(FaultKind, Option<u8>)>,
    sgpr: [u32; 128],
    scc: bool,
    pc: u32,
    mode: Mode,
    vgpr: Vec<Vreg>,
    agpr: Vec<Vreg>,
    lds: Vec<u8>,
    memory: Vec<u8>,
}

/// Numbers of all kinds: small ones, floats, edges, noise.
fn number(random: &mut isa::Random) -> u32 {
    match random.below(8) {
        0 | 1 => random.below(4096) as u32,
        2 => random.below(64) as u32 * 4,
        3 => (random.below(2000) as f32 * 0.37 - 300.0).to_bits(),
        4 => random.pick(&[
            0,
            1,
            u32::MAX,
            0x8000_0000,
            0x7fff_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7f80_0001,
            0x0000_0001,
            0x007f_ffff,
        ]),
        5 => random.next() as u32 & 0x7bff_7bff,
        _ => random.next() as u32,
    }
}

fn wave(random: &mut isa::Random, memory: u64) -> Wave {
    let mut registers = |count: u16| -> Vec<Vreg> {
        // Half of the registers look alike in all lanes but for a step: rows of addresses.
        (0..count)
            .map(|_| {
                let (base, step) = (random.below(2048) as u32, random.pick(&[1, 2, 4, 16]));
                let rows = random.once_in(2);
                Vreg(std::array::from_fn(
                    |lane| if rows { base / step * step + lane as u32 * step } else { number(random) },
                ))
            })
            .collect()
    };
    let (vgpr, agpr) = (registers(LIMITS.vgprs), registers(LIMITS.agprs));
    let mut wave = Wave { vgpr, agpr, ..Wave::default() };
    for register in 0..128_usize {
        wave.sgpr[register] = number(random);
    }
    // Addresses, and resources of the whole memory.
    for first in (0..100).step_by(4) {
        if random.once_in(2) {
            wave.sgpr[first] = memory as u32;
            wave.sgpr[first + 1] = (memory >> 32) as u32;
        }
        if random.once_in(2) {
            wave.sgpr[first + 2] = BYTES as u32;
            wave.sgpr[first + 3] = 0x0002_4fac;
        }
    }
    let exec = random.pick(&[u64::MAX, u64::MAX, 0, 1, 0xffff_0000_ffff_0000]);
    wave.set_exec(if random.once_in(4) { random.next() } else { exec });
    wave.sgpr[usize::from(code::M0)] = random.below(256) as u32;
    wave.scc = random.once_in(2);
    wave.pc = 100;
    wave.mode = Mode(random.pick(&[0x3f0, 0x3f0, 0x300, 0xf5, 0x1f0, 0x0080_03f0]));
    (wave.id, wave.simd) = (1, 1);
    wave.executed = 10;
    wave
}

fn execute(arch: Arch, level: Level, inst: &Inst, mut wave: Wave, bytes: &[u8], lds: &[u8]) -> Option<After> {
    let step = compile(&Compiler { arch, level, limits: LIMITS }, inst).ok()?;
    let mut memory = Memory::new(1 << 20);
    let at = memory.allocate(BYTES as u64, "mem").unwrap();
    let scratch = memory.allocate(64 * 128, "scratch").unwrap();
    memory.write(at, bytes).unwrap();
    (wave.scratch_base, wave.scratch_bytes) = (scratch, 128);
    let mut lds = lds.to_vec();
    let mut traffic = Traffic::new(Shape::CDNA3, 4);
    let mut env = Env {
        code_base: 0x10_0000,
        xcc: 3,
        cu: 7,
        clock: 1000,
        turn_began: 5,
        ..Env::new(arch, &memory, &mut lds, &mut traffic)
    };
    // SAFETY: the level is one of this host's, and the wave has the registers of the limits.
    let flow = unsafe { (step.run)(&step, &mut wave, &mut env) };
    let fault = env.fault.take();
    let mut after = vec![0; BYTES];
    memory.read(at, &mut after).unwrap();
    let Wave { sgpr, scc, pc, mode, vgpr, agpr, .. } = wave;
    Some(After { flow, fault, sgpr, scc, pc, mode, vgpr, agpr, lds, memory: after })
}

/// The first thing that differs, in words.
fn difference(a: &After, b: &After) -> String {
    for (name, a, b) in [("v", &a.vgpr, &b.vgpr), ("a", &a.agpr, &b.agpr)] {
        for (number, (a, b)) in a.iter().zip(b).enumerate() {
            if let Some(lane) = (0..64).find(|lane| a.0[*lane] != b.0[*lane]) {
                return format!("{name}{number} lane {lane}: {:#x} and {:#x}", a.0[lane], b.0[lane]);
            }
        }
    }
    match (0..128).find(|code| a.sgpr[*code] != b.sgpr[*code]) {
        Some(code) => format!("scalar {code}: {:#x} and {:#x}", a.sgpr[code], b.sgpr[code]),
        None => format!("{:?} {:?} and {:?} {:?}, or memory", a.flow, a.fault, b.flow, b.fault),
    }
}

#[test]
fn random_instructions_do_the_same_at_every_level() {
    for arch in Arch::EXECUTED {
        let mut random = isa::Random(0x0dd_ba11 + arch as u64);
        let (mut ran, mut faults) = (0, 0);
        // The address that a fresh memory gives first.
        let address = Memory::new(1 << 20).allocate(BYTES as u64, "mem").unwrap();
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
        let lds: Vec<u8> = (0..BYTES).map(|_| random.next() as u8).collect();
        for words in isa::words(arch, &mut random, 3) {
            let Ok(inst) = decode(arch, &isa::bytes(&words), 0) else { continue };
            let wave = wave(&mut random, address);
            let mut first: Option<After> = None;
            for &level in Level::available() {
                let Some(after) = execute(arch, level, &inst, wave.clone(), &bytes, &lds) else { break };
                ran += 1;
                assert_eq!(after.flow == Flow::Fault, after.fault.is_some(), "{}", inst.text(arch));
                faults += u32::from(after.fault.is_some());
                match &first {
                    None => first = Some(after),
                    Some(first) if *first == after => {}
                    Some(first) => {
                        panic!("{} {level:?}: {}: {}", arch.name(), inst.text(arch), difference(first, &after))
                    }
                }
            }
        }
        // Most of what decodes runs, and not into a fault.
        assert!(ran > 4000 && faults * 3 < ran, "{}: {ran} ran, {faults} faults", arch.name());
    }
}
