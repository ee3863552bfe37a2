//! Cost of single vector instructions at each level of the host.

use criterion::{Criterion, criterion_group, criterion_main};
use kbench_gfx_emu::exec::{Compiler, Env, Level, Limits, Mode, Vreg, Wave, compile};
use kbench_gfx_emu::isa::{Arch, Dpp, Encoding, Inst, Mods, Op, Operand};
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::traffic::Traffic;
use std::hint::black_box;

fn wave() -> Wave {
    let mut wave = Wave {
        sgpr: [0x3f80_0000; 128],
        vgpr: vec![Vreg([0x3fc0_0000; 64]); 16],
        agpr: vec![Vreg([0; 64]); 4],
        scc: false,
        pc: 0,
        mode: Mode(0x3f0),
        id: 0,
        scratch_base: 0,
        scratch_bytes: 0,
        simd: 0,
        executed: 0,
    };
    wave.set_exec(!0);
    wave
}

fn instruction(name: &str, enc: Encoding, src: &[Operand]) -> Option<Inst> {
    let mut sources = [Operand::None; 4];
    sources.iter_mut().zip(src).for_each(|(to, from)| *to = *from);
    let mods = Mods { op_sel_hi: if enc == Encoding::Vop3p { 7 } else { 0 }, ..Mods::default() };
    let mask = Operand::Scalar(106);
    let dst = if enc == Encoding::Vopc { [mask, Operand::None] } else { [Operand::Vgpr(8), mask] };
    Some(Inst {
        op: Op::from_name(name)?,
        enc,
        size: 4,
        dst,
        src: sources,
        scale: [Operand::None; 2],
        dual: None,
        mods,
    })
}

fn bench(c: &mut Criterion) {
    let (v, s) = (Operand::Vgpr, Operand::Scalar);
    let cases: &[(&str, &str, Encoding, &[Operand])] = &[
        ("add_f32 v,v", "v_add_f32", Encoding::Vop2, &[v(0), v(1)]),
        ("add_f32 s,v", "v_add_f32", Encoding::Vop2, &[s(4), v(1)]),
        ("fma_f32 v,v,v", "v_fma_f32", Encoding::Vop3, &[v(0), v(1), v(2)]),
        ("fmac_f32 v,v", "v_fmac_f32", Encoding::Vop2, &[v(0), v(1)]),
        ("lshl_add_u32 v,s,v", "v_lshl_add_u32", Encoding::Vop3, &[v(0), s(4), v(2)]),
        ("mov_b32 v", "v_mov_b32", Encoding::Vop1, &[v(0)]),
        ("mul_lo_u32 v,v", "v_mul_lo_u32", Encoding::Vop3, &[v(0), v(1)]),
        ("cndmask_b32 v,v", "v_cndmask_b32", Encoding::Vop2, &[v(0), v(1)]),
        ("cmp_lt_f32 v,v", "v_cmp_lt_f32", Encoding::Vopc, &[v(0), v(1)]),
        ("add_co_u32 v,v", "v_add_co_u32", Encoding::Vop2, &[v(0), v(1)]),
        ("exp_f32 v", "v_exp_f32", Encoding::Vop1, &[v(0)]),
        ("rsq_f32 v", "v_rsq_f32", Encoding::Vop1, &[v(0)]),
        ("cvt_f16_f32 v", "v_cvt_f16_f32", Encoding::Vop1, &[v(0)]),
        ("pk_fma_f16", "v_pk_fma_f16", Encoding::Vop3p, &[v(0), v(1), v(2)]),
        ("pk_fma_f32", "v_pk_fma_f32", Encoding::Vop3p, &[v(0), v(2), v(4)]),
        ("fma_f64", "v_fma_f64", Encoding::Vop3, &[v(0), v(2), v(4)]),
    ];
    let mut all: Vec<(String, Inst)> = cases
        .iter()
        .filter_map(|(title, name, enc, src)| Some(((*title).to_owned(), instruction(name, *enc, src)?)))
        .collect();
    if let Some(mut inst) = instruction("v_fma_f32", Encoding::Vop3, &[v(0), v(1), v(2)]) {
        inst.mods.neg = 1;
        all.push(("fma_f32 -v,v,v".to_owned(), inst));
    }
    if let Some(mut inst) = instruction("v_add_f32", Encoding::Vop2, &[v(0), v(1)]) {
        inst.mods.dpp = Some(Dpp { ctrl: 0x111, row_mask: 15, bank_mask: 15, bound_ctrl: true, fetch_inactive: false });
        all.push(("add_f32 row_shr:1".to_owned(), inst));
    }
    for &level in Level::available() {
        let mut group = c.benchmark_group(format!("{level:?}"));
        for (title, inst) in &all {
            let compiler = Compiler { arch: Arch::Gfx942, level, limits: Limits { vgprs: 16, agprs: 4 } };
            let Ok(step) = compile(&compiler, inst) else { continue };
            for (suffix, exec) in [("", !0u64), (" half EXEC", 0x5555_5555_5555_5555)] {
                let mut wave = wave();
                wave.set_exec(exec);
                let memory = Memory::new(0);
                let mut traffic = Traffic::default();
                let mut env = Env::new(Arch::Gfx942, &memory, &mut [], &mut traffic);
                group.bench_function(format!("{title}{suffix}"), |b| {
                    // SAFETY: the level is one of the host's, and the registers were checked against the wave's number.
                    b.iter(|| unsafe { (step.run)(black_box(&step), &mut wave, &mut env) });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
