//! Planted errors: each is caught and named with kernel, place, instruction, wave, lane, address and nearest allocation.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::fault::{Access, Fault, FaultKind};
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::{Barriers, Launch, LaunchError, LoadError, Module, Outcome, launch};
use kbench_gfx_emu::mem::{Bounds, Memory};
use std::time::Duration;
use support::asm::{Kernel, assemble};
use support::{Args, Device, compile};

/// The kernel's argument is `mem`; v1 is the work-item's number times 4.
const START: &str = "s_load_dwordx2 s[4:5], s[0:1], 0\nv_lshlrev_b32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n";

fn device(body: &str, lds: u32, words: usize) -> Option<(Device, u64)> {
    let code = assemble(Arch::Gfx942, &format!("{START}{body}"), &Kernel { lds, scratch: 64, ..Kernel::default() })?;
    let mut device = Device::new(Arch::Gfx942, &code);
    let mem = device.buffer("mem", &vec![1_u32; words]);
    Some((device, mem))
}

fn run(device: &mut Device, mem: u64, block: u32) -> Result<Outcome, LaunchError> {
    device.run("k", 2, block, Args::default().u64(mem).done())
}

fn fault_of(result: Result<Outcome, LaunchError>) -> Fault {
    match result {
        Err(LaunchError::Fault(fault)) => *fault,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("the kernel ran"),
    }
}

/// Runs two waves over a buffer of 128 dwords and gives the fault with the buffer's address.
fn planted(body: &str, lds: u32) -> Option<(Fault, u64)> {
    let (mut device, mem) = device(body, lds, 128)?;
    Some((fault_of(run(&mut device, mem, 128)), mem))
}

#[test]
fn one_element_out_of_bounds_is_caught_wherever_it_is_touched() {
    // The resource promises more than there is.
    let resource = "s_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_movk_i32 s10, 0x4000\ns_mov_b32 s11, 0x20000\n";
    let buffer_load = format!("{resource}buffer_load_dword v2, v1, s[8:11], 0 offen offset:4");
    let cases: [(&str, &str, Access, u32, u64); 11] = [
        (
            "global_load_dword v2, v1, s[4:5] offset:4",
            "global_load_dword v2, v1, s[4:5] offset:4",
            Access::Read,
            4,
            512,
        ),
        ("global_load_ushort v2, v1, s[4:5] offset:4", "global_load_ushort", Access::Read, 2, 512),
        ("v_lshlrev_b32 v1, 2, v1\nglobal_load_dwordx4 v[2:5], v1, s[4:5]", "global_load_dwordx4", Access::Read, 16, 0),
        (
            "global_store_dword v1, v0, s[4:5] offset:4",
            "global_store_dword v1, v0, s[4:5] offset:4",
            Access::Write,
            4,
            512,
        ),
        ("global_store_byte v1, v0, s[4:5] offset:4", "global_store_byte", Access::Write, 1, 512),
        (
            "global_atomic_add v1, v0, s[4:5] offset:4",
            "global_atomic_add v1, v0, s[4:5] offset:4",
            Access::Atomic,
            4,
            512,
        ),
        (&buffer_load, "buffer_load_dword v2, v1, s[8:11], 0 offen offset:4", Access::Read, 4, 512),
        (
            "v_mov_b32 v3, s5\nv_add_co_u32 v2, vcc, s4, v1\nv_addc_co_u32 v3, vcc, 0, v3, vcc\nflat_load_dword v4, v[2:3] offset:4",
            "flat_load_dword v4, v[2:3] offset:4",
            Access::Read,
            4,
            512,
        ),
        ("s_load_dword s8, s[4:5], 0x200", "s_load_dword s8, s[4:5], 0x200", Access::Read, 4, 512),
        ("s_load_dwordx4 s[8:11], s[4:5], 0x1f4", "s_load_dwordx4", Access::Read, 16, 500),
        ("global_load_dword v2, v1, s[4:5] offset:-4", "global_load_dword", Access::Read, 4, u64::MAX - 3),
    ];
    for (body, text, access, bytes, at) in cases {
        let Some((fault, mem)) = planted(body, 0) else { return };
        let shown = fault.to_string();
        assert!(fault.text.starts_with(text), "{shown}");
        let FaultKind::Memory { access: found, address, bytes: width, nearest } = &fault.kind else {
            panic!("{shown}")
        };
        assert_eq!((*found, *width), (access, bytes), "{shown}");
        if body.contains("dwordx4 v") {
            // Lane 32 is the first whose 16 bytes start past the end.
            assert_eq!((*address, fault.wave, fault.lane), (mem + 512, 0, Some(32)), "{shown}");
        } else if body.starts_with("s_") && !body.contains("buffer") {
            assert_eq!((*address, fault.lane), (mem.wrapping_add(at), None), "{shown}");
        } else {
            let last = at == 512;
            assert_eq!(*address, mem.wrapping_add(at), "{shown}");
            assert_eq!((fault.wave, fault.lane), if last { (1, Some(63)) } else { (0, Some(0)) }, "{shown}");
        }
        assert!(nearest.contains("`mem` (512 B at") || nearest.contains("past the end of"), "{shown}");
        assert!(shown.contains("in `k` at +0x") && shown.contains(&format!("{address:#x}")), "{shown}");
        assert!(shown.contains("workgroup (0, 0, 0)"), "{shown}");
    }
}

#[test]
fn the_place_is_the_instructions() {
    // START is 8 + 4 + 4 bytes (s_load, VOP2, SOPP); the store follows an 8-byte load.
    let Some((fault, _)) = planted("global_load_dword v2, v1, s[4:5]\nglobal_store_dword v1, v0, s[4:5] offset:4", 0)
    else {
        return;
    };
    assert_eq!((fault.offset, fault.kernel.as_str()), (24, "k"));
}

#[test]
fn freed_memory_is_named() {
    let Some((mut device, mem)) = device("global_load_dword v2, v1, s[4:5]", 0, 128) else { return };
    device.buffer("other", &[0_u32; 1024]);
    device.memory.free(mem).unwrap();
    let shown = fault_of(run(&mut device, mem, 64)).to_string();
    assert!(shown.contains("0 B into `mem` (512 B at") && shown.contains("which has been freed"), "{shown}");
}

#[test]
fn page_bounds_are_the_hardwares() {
    let Some((mut device, mem)) = device("global_load_dword v2, v1, s[4:5] offset:4", 0, 128) else { return };
    device.memory.set_bounds(Bounds::Page);
    let outcome = run(&mut device, mem, 128).unwrap();
    // The last lane of each of the two workgroups reads past the end.
    assert_eq!(outcome.reads_beyond, 2);
    assert_eq!(run(&mut device, mem, 128).unwrap().reads_beyond, 2);
    assert_eq!(device.memory.reads_beyond(), 4);
    let Some((mut device, mem)) = self::device("global_store_dword v1, v0, s[4:5] offset:4", 0, 128) else { return };
    device.memory.set_bounds(Bounds::Page);
    assert!(matches!(fault_of(run(&mut device, mem, 128)).kind, FaultKind::Memory { access: Access::Write, .. }));
}

#[test]
fn lds_errors() {
    let cases: [(&str, &str); 8] = [
        ("ds_read_b32 v2, v1 offset:4", "LDS read of 4 B at 0x100, the workgroup has 256 B"),
        ("ds_write_b64 v1, v[2:3]", "LDS write of 8 B at 0xfc, the workgroup has 256 B"),
        ("ds_write_b8 v1, v2 offset:4", "LDS write of 1 B at 0x100, the workgroup has 256 B"),
        ("ds_read2_b32 v[2:3], v1 offset0:0 offset1:1", "LDS read of 4 B at 0x100, the workgroup has 256 B"),
        ("ds_add_u32 v1, v2 offset:4", "LDS atomic access of 4 B at 0x100, the workgroup has 256 B"),
        ("v_mov_b32 v1, 2\nds_add_u32 v1, v2", "misaligned LDS address 0x2: 4 B accesses need a multiple of 4"),
        ("v_mov_b32 v1, 4\nds_add_u64 v1, v[2:3]", "misaligned LDS address 0x4: 8 B accesses need a multiple of 8"),
        ("v_mov_b32 v1, 2\nds_read_b128 v[4:7], v1", "misaligned LDS address 0x2: 16 B accesses need a multiple of 4"),
    ];
    for (body, message) in cases {
        let Some((mut device, mem)) = device(body, 256, 128) else { return };
        let fault = fault_of(run(&mut device, mem, 64));
        let shown = fault.to_string();
        assert!(shown.starts_with(message), "{shown}");
        assert_eq!(fault.lane, Some(if message.contains("misaligned") { 0 } else { 63 }), "{shown}");
        assert!(shown.contains(body.lines().last().unwrap().split(' ').next().unwrap()), "{shown}");
    }
    let Some((fault, _)) = planted("v_mov_b32 v1, 0\nds_read_b32 v2, v1", 0) else { return };
    assert!(fault.to_string().contains("the workgroup has 0 B"), "{fault}");
}

#[test]
fn other_spaces_and_alignments() {
    let cases = [
        ("v_mov_b32 v1, 2\nglobal_atomic_add v1, v0, s[4:5]", "misaligned global address"),
        ("v_mov_b32 v1, 62\nscratch_load_dword v2, v1, off", "outside the 64 B of scratch of a lane"),
        (
            "scratch_store_dword off, v0, off offset:64",
            "memory fault: write of 4 B at 0x40, outside the 64 B of scratch",
        ),
        ("v_mov_b32 v2, 16\nv_mov_b32 v3, 0\nflat_load_dword v4, v[2:3]", "memory fault: read of 4 B at 0x10, "),
        ("s_mov_b64 s[8:9], 0\ns_load_dword s8, s[8:9], 0x10", "memory fault: read of 4 B at 0x10, "),
    ];
    for (body, message) in cases {
        let Some((fault, _)) = planted(body, 0) else { return };
        assert!(fault.to_string().contains(message), "{fault}");
    }
}

#[test]
fn code_that_cannot_run() {
    type Check = fn(&FaultKind) -> bool;
    let cases: [(&str, Check); 6] = [
        (
            ".long 0xbfffffff\n.long 0",
            |kind| matches!(kind, FaultKind::UnknownInstruction { words } if words[0] == 0xbfff_ffff),
        ),
        ("v_mov_b32 v200, 0", |kind| matches!(kind, FaultKind::Register(name) if name == "v200")),
        ("v_accvgpr_write_b32 a64, 0", |kind| matches!(kind, FaultKind::Register(name) if name == "a64")),
        ("s_trap 2", |kind| *kind == FaultKind::Trap(2)),
        ("s_mov_b64 s[8:9], 0\ns_setpc_b64 s[8:9]", |kind| *kind == FaultKind::ProgramCounter),
        ("s_sethalt 1", |kind| matches!(kind, FaultKind::Deadlock(_))),
    ];
    for (body, check) in cases {
        let Some((fault, _)) = planted(body, 0) else { return };
        assert!(check(&fault.kind), "{fault}");
        assert_eq!((fault.kernel.as_str(), fault.wave), ("k", 0), "{fault}");
    }
    // Unreachable words do no harm.
    let Some((mut device, mem)) = device("s_branch .Lover\n.long 0xbfffffff\nv_mov_b32 v200, 0\n.Lover:", 0, 1) else {
        return;
    };
    run(&mut device, mem, 64).unwrap();
}

#[test]
fn endless_loops_end() {
    for body in [
        "s_nop 0\n.Lagain:\ns_branch .Lagain",
        "s_nop 0\n.Lagain:\ns_sleep 1\ns_branch .Lagain",
        "s_nop 0\n.Lagain:\ns_barrier\ns_branch .Lagain",
    ] {
        let Some((mut device, mem)) = device(body, 0, 1) else { return };
        device.options.instruction_limit = 1_000_000;
        let fault = fault_of(run(&mut device, mem, 256));
        assert_eq!(fault.kind, FaultKind::InstructionLimit(1_000_000), "{fault}");
        // Where it loops, behind START and s_nop.
        assert!((20..32).contains(&fault.offset), "{fault}");
        device.options.instruction_limit = u64::MAX;
        device.options.time_limit = Some(Duration::from_millis(30));
        let fault = fault_of(run(&mut device, mem, 256));
        assert_eq!(fault.kind, FaultKind::TimeLimit(30), "{fault}");
    }
}

#[test]
fn barriers_that_not_all_reach() {
    // The first wave ends, the second waits.
    let body = "v_readfirstlane_b32 s8, v0\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .Lend\ns_barrier\n.Lend:";
    let Some((mut device, mem)) = device(body, 0, 1) else { return };
    let outcome = run(&mut device, mem, 128).unwrap();
    assert_eq!(outcome.left_barriers, 2);
    assert_eq!(run(&mut device, mem, 64).unwrap().left_barriers, 0);
    device.options.barriers = Barriers::Strict;
    let fault = fault_of(run(&mut device, mem, 128));
    assert!(fault.to_string().contains("barrier mismatch: 1 of 2 waves had ended"), "{fault}");
    assert_eq!((fault.wave, fault.text.as_str()), (1, "s_barrier"), "{fault}");
}

#[test]
fn launches_that_cannot_be() {
    let Some((mut device, _)) = device("s_nop 0", 1024, 1) else { return };
    let request = Launch { kernel: "k".into(), grid: [1; 3], block: [64, 1, 1], dynamic_lds: 0, kernarg: vec![0; 8] };
    let mut error = |change: &dyn Fn(&mut Launch)| {
        let mut request = request.clone();
        change(&mut request);
        launch(&mut device.memory, &device.module, &request, &device.options).unwrap_err().to_string()
    };
    let message = error(&|request| request.kernel = "nothing".into());
    assert!(message.contains("no kernel `nothing`; it has k"), "{message}");
    for change in [
        &(|request: &mut Launch| request.block = [2048, 1, 1]) as &dyn Fn(&mut Launch),
        &|request| request.block = [0, 1, 1],
        &|request| request.grid = [1, 0, 1],
        &|request| request.grid = [u32::MAX, 1, 1],
        &|request| request.dynamic_lds = 64 * 1024,
    ] {
        let message = error(change);
        assert!(message.len() > 20, "{message}");
    }
    device.options.arch = Arch::Gfx90a;
    let wrong = launch(&mut device.memory, &device.module, &request, &device.options).unwrap_err();
    assert!(wrong.to_string().contains("for gfx942, the launch asks for a gfx90a"), "{wrong}");
    let Some(code) = compile(Arch::Gfx90a, "KERNEL void k() {}") else { return };
    let mut memory = Memory::new(1 << 30);
    let wrong = Module::load(&mut memory, Arch::Gfx942, &code).unwrap_err();
    assert!(matches!(wrong, LoadError::Arch { .. }) && wrong.to_string().contains("gfx90a"), "{wrong}");
    assert!(Module::load(&mut memory, Arch::Gfx942, b"nothing like it").is_err());
    let Some(code) = compile(Arch::Gfx1100, "KERNEL void k() {}") else { return };
    let wrong = Module::load(&mut memory, Arch::Gfx1100, &code).unwrap_err().to_string();
    assert_eq!(wrong, "the code object cannot be run: gfx1100 is decoded, not executed yet");
    assert_eq!(memory.free_bytes(), 1 << 30);
}

#[test]
fn memory_of_a_launch_is_given_back() {
    let Some((mut device, mem)) = device("global_store_dword v1, v0, s[4:5] offset:4", 0, 128) else { return };
    let before = device.memory.free_bytes();
    fault_of(run(&mut device, mem, 128));
    run(&mut device, mem, 64).unwrap();
    assert_eq!(device.memory.free_bytes(), before);
}
