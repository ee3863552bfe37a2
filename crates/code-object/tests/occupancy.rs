//! Occupancy against the compiler's figures, against tables of the documentation, and against placing waves one by one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Bench, KERNELS, SMALL, read};
use kbench_code_object::{CodeObject, ComputeUnit, Kernel, LaunchShape, OccupancyError, Resource, Target, Unit};
use proptest::prelude::*;

/// A kernel whose descriptor allocates so many VGPRs (and 96 SGPRs on gfx9) on a processor.
fn kernel(target: &str, wave_size: u32, vgprs: u32, lds_bytes: u32, wgp_mode: bool) -> (Target, Kernel) {
    let target = Target::parse(target).unwrap();
    let mut kernel = CodeObject::parse(SMALL).unwrap().kernels()[0].clone();
    kernel.descriptor.generation = target.generation();
    kernel.descriptor.code_properties.enable_wavefront_size32 = wave_size == 32;
    kernel.descriptor.rsrc1.wgp_mode = target.generation().is_rdna().then_some(wgp_mode);
    kernel.descriptor.rsrc1.granulated_wavefront_sgpr_count = if target.generation().is_rdna() { 0 } else { 10 };
    kernel.descriptor.rsrc1.granulated_workitem_vgpr_count = 0;
    let granule = kernel.descriptor.allocated_vgprs();
    kernel.descriptor.rsrc1.granulated_workitem_vgpr_count = (vgprs.div_ceil(granule) - 1) as u8;
    (kernel.wave_size, kernel.lds_bytes) = (wave_size, lds_bytes);
    (target, kernel)
}

fn shape(block: u32, dynamic_lds_bytes: u32) -> LaunchShape {
    LaunchShape { block, dynamic_lds_bytes }
}

/// rocprofiler-compute's and AMD's tables for the unified file of 512 registers.
#[test]
fn waves_by_registers_of_cdna() {
    for target in ["gfx90a", "gfx942", "gfx950"] {
        for (vgprs, waves) in [(64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (256, 2), (512, 1)] {
            let (target, kernel) = kernel(target, 64, vgprs, 0, false);
            let occupancy = kernel.occupancy(&target, shape(64, 0)).unwrap();
            assert_eq!(occupancy.register_waves_per_simd, waves, "{target} {vgprs}");
            assert_eq!(occupancy.workgroups, waves * 4);
        }
    }
}

#[test]
fn lds_and_barriers_limit_workgroups() {
    // 64 KiB over workgroups of 20 KiB: three; 160 KiB over 20 KiB: eight, with granules of 1280 bytes (16 of them).
    for (target, workgroups) in [("gfx942", 3), ("gfx950", 8)] {
        let (target, kernel) = kernel(target, 64, 32, 12 << 10, false);
        let occupancy = kernel.occupancy(&target, shape(128, 8 << 10)).unwrap();
        assert_eq!((occupancy.workgroups, occupancy.limiter), (workgroups, Resource::Lds), "{target}");
        assert_eq!(occupancy.lds_bytes, 20 << 10);
    }
    // 16 barriers; 32 waves of workgroups of 64 need none.
    let (target, kernel) = kernel("gfx942", 64, 32, 0, false);
    let two_waves = kernel.occupancy(&target, shape(65, 0)).unwrap();
    assert_eq!((two_waves.workgroups, two_waves.waves_per_simd, two_waves.occupancy), (16, 8.0, 1.0));
    let one_wave = kernel.occupancy(&target, shape(64, 0)).unwrap();
    assert_eq!((one_wave.workgroups, one_wave.limiter, one_wave.limits.barriers), (32, Resource::WaveSlots, None));
}

#[test]
fn work_group_processors_count_as_one() {
    let (target, kernel) = kernel("gfx1100", 32, 96, 40 << 10, true);
    let occupancy = kernel.occupancy(&target, shape(256, 0)).unwrap();
    // 128 KiB of LDS over 40 KiB.
    assert_eq!((occupancy.unit, occupancy.workgroups, occupancy.limiter), (Unit::WorkgroupProcessor, 3, Resource::Lds));
    let (target, kernel) = self::kernel("gfx1100", 32, 96, 40 << 10, false);
    assert_eq!(kernel.occupancy(&target, shape(256, 0)).unwrap().workgroups, 1);
}

#[test]
fn what_cannot_run_is_an_error() {
    let (target, kernel) = kernel("gfx942", 64, 256, 60 << 10, false);
    assert_eq!(kernel.occupancy(&target, shape(1025, 0)), Err(OccupancyError::Block { block: 1025, max: 1024 }));
    assert_eq!(kernel.occupancy(&target, shape(0, 0)), Err(OccupancyError::Block { block: 0, max: 1024 }));
    assert_eq!(
        kernel.occupancy(&target, shape(64, u32::MAX)),
        Err(OccupancyError::Lds { requested: u64::from(u32::MAX) + (60 << 10), available: 65536 })
    );
    let error = kernel.occupancy(&target, shape(1024, 0)).unwrap_err();
    let expected = OccupancyError::Waves { waves: 16, available: 8, resource: Resource::Vgprs, unit: Unit::ComputeUnit };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "a workgroup of 16 waves does not fit: VGPRs allow 8 waves on a CU");
}

/// `-Rpass-analysis=kernel-resource-usage`: the compiler's own occupancy, where LDS is not what limits.
#[test]
fn register_occupancy_is_the_compilers() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19"]) else { return };
    let builds: [(&str, &[&str]); 9] = [
        ("gfx908", &[]),
        ("gfx90a", &[]),
        ("gfx942", &[]),
        ("gfx1010", &[]),
        ("gfx1030", &[]),
        ("gfx1100", &[]),
        ("gfx1100", &["-mwavefrontsize64"]),
        ("gfx1102", &[]),
        ("gfx1201", &[]),
    ];
    let mut compared = std::collections::BTreeSet::new();
    for (arch, flags) in builds {
        let path = bench.hip("k", KERNELS, arch, flags);
        let object = CodeObject::parse(&read(&path)).unwrap();
        let arch_flag = format!("--cuda-gpu-arch={arch}");
        let mut args = vec!["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O3", "-S", &arch_flag];
        args.extend(flags);
        args.extend(["-Rpass-analysis=kernel-resource-usage", "k.hip", "-o", "/dev/null"]);
        let output =
            std::process::Command::new("clang-19").args(&args).current_dir(bench.dir.path()).output().unwrap();
        let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
        let field = |line: &str, key: &str| {
            let value = line.split_once(key)?.1.split('[').next()?;
            Some(value.trim().to_owned())
        };
        let mut current = None;
        for line in remarks.lines() {
            if let Some(name) = field(line, "Function Name: ") {
                current = object.kernel(&name);
            }
            if let (Some(kernel), Some(waves)) = (current, field(line, "Occupancy [waves/SIMD]: ")) {
                if kernel.lds_bytes > 0 {
                    continue;
                }
                let occupancy = kernel.occupancy(object.arch(), shape(kernel.wave_size, 0)).unwrap();
                assert_eq!(occupancy.register_waves_per_simd.to_string(), waves, "{arch} {flags:?} {}", kernel.name);
                compared.insert((arch, occupancy.register_waves_per_simd));
            }
        }
    }
    // Not only kernels that fill every slot.
    assert!(compared.len() > 15, "{compared:?}");
}

/// Places workgroups wave by wave, each on the SIMD with the fewest, until one does not fit.
fn placed(unit: &ComputeUnit, vgprs: u32, sgprs: u32, lds: u32, waves: u32) -> u32 {
    let mut simds = vec![(0_u32, unit.vgprs_per_simd, unit.sgprs_per_simd.unwrap_or(u32::MAX)); unit.simds as usize];
    let (mut free_lds, mut free_barriers, mut workgroups) = (unit.lds_bytes, unit.barriers, 0);
    loop {
        if free_lds < lds || (waves > 1 && free_barriers == 0) {
            return workgroups;
        }
        for _ in 0..waves {
            let fitting = simds.iter_mut().filter(|(slots, free_vgprs, free_sgprs)| {
                *slots < unit.wave_slots_per_simd && *free_vgprs >= vgprs && *free_sgprs >= sgprs
            });
            let Some(simd) = fitting.min_by_key(|(slots, ..)| *slots) else { return workgroups };
            *simd = (simd.0 + 1, simd.1 - vgprs, simd.2.saturating_sub(sgprs));
        }
        free_lds -= lds;
        free_barriers -= u32::from(waves > 1);
        workgroups += 1;
    }
}

proptest! {
    #[test]
    fn the_formula_is_what_placing_gives(
        target in prop::sample::select(vec!["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1102", "gfx1201"]),
        wave32: bool, wgp: bool, vgprs in 1_u32..256, block in 1_u32..=1024, lds in 0_u32..65536,
    ) {
        let wave_size = if target.starts_with("gfx9") || !wave32 { 64 } else { 32 };
        let (target, kernel) = kernel(target, wave_size, vgprs, lds, wgp);
        let unit = ComputeUnit::of(&target, wave_size, wgp).unwrap();
        let allocated = kernel.descriptor.allocated_vgprs().next_multiple_of(unit.vgpr_granule);
        let lds_allocated = lds.next_multiple_of(unit.lds_granule);
        let expected = placed(&unit, allocated, 96, lds_allocated, block.div_ceil(wave_size));
        match kernel.occupancy(&target, shape(block, 0)) {
            Ok(occupancy) => prop_assert_eq!(occupancy.workgroups, expected),
            Err(OccupancyError::Waves { .. }) => prop_assert_eq!(expected, 0),
            Err(other) => panic!("{other}"),
        }
    }
}
