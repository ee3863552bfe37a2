//! FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF: every width and address form, apertures, resources, formats, loads into LDS, and
//! the atomics, against models over the memory's words.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::isa::Arch;
use support::asm::{Checks, Lanes, Random, lanes};

fn memory(random: &mut Random, words: usize) -> Vec<u32> {
    (0..words).map(|_| (random.next() >> 32) as u32).collect()
}

fn byte(memory: &[u32], at: u32) -> u32 {
    memory[at as usize / 4] >> (at % 4 * 8) & 0xff
}

fn unaligned(memory: &[u32], at: u32, bytes: u32) -> u32 {
    (0..bytes.min(4)).fold(0, |sum, k| sum | byte(memory, at + k) << (8 * k))
}

fn put(memory: &mut [u32], at: u32, value: u32, bytes: u32) {
    for k in 0..bytes {
        let (word, shift) = ((at + k) as usize / 4, (at + k) % 4 * 8);
        memory[word] = memory[word] & !(0xff << shift) | (value >> (8 * k) & 0xff) << shift;
    }
}

fn span(first: u32, count: u32) -> String {
    if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
}

/// Suffix of a load, bytes, and what becomes of them.
type Load = (&'static str, u32, fn(u32) -> u32);

const LOADS: [Load; 14] = [
    ("ubyte", 1, |raw| raw),
    ("sbyte", 1, |raw| raw as u8 as i8 as u32),
    ("ushort", 2, |raw| raw),
    ("sshort", 2, |raw| raw as u16 as i16 as u32),
    ("dword", 4, |raw| raw),
    ("dwordx2", 8, |raw| raw),
    ("dwordx3", 12, |raw| raw),
    ("dwordx4", 16, |raw| raw),
    ("ubyte_d16", 1, |raw| raw),
    ("ubyte_d16_hi", 1, |raw| raw << 16),
    ("sbyte_d16", 1, |raw| raw as u8 as i8 as u16 as u32),
    ("sbyte_d16_hi", 1, |raw| (raw as u8 as i8 as u32) << 16),
    ("short_d16", 2, |raw| raw),
    ("short_d16_hi", 2, |raw| raw << 16),
];

/// Suffix of a store, bytes, and the first bit that is stored.
const STORES: [(&str, u32, u32); 8] = [
    ("byte", 1, 0),
    ("byte_d16_hi", 1, 16),
    ("short", 2, 0),
    ("short_d16_hi", 2, 16),
    ("dword", 4, 0),
    ("dwordx2", 8, 0),
    ("dwordx3", 12, 0),
    ("dwordx4", 16, 0),
];

/// The address of each lane's offset as a pair v[10:11].
fn pair(checks: &mut Checks, offsets: Lanes) {
    checks
        .vector(10, offsets)
        .line("v_mov_b32 v11, s85\nv_add_co_u32 v10, vcc, s84, v10\nv_addc_co_u32 v11, vcc, 0, v11, vcc");
}

fn expect_load(checks: &mut Checks, label: &str, (name, bytes, change): Load, memory: &[u32], at: Lanes, mask: u64) {
    for k in 0..bytes.div_ceil(4) {
        let want = lanes(|lane| change(unaligned(memory, at[lane as usize] + 4 * k, bytes)));
        checks.expect_in(format_args!("{label} {name} {k}"), format_args!("v{}", 20 + k), mask, want);
    }
}

#[test]
fn loads_and_stores_of_every_width_and_address_form() {
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        let mut random = Random(0xfeed);
        let mut checks = Checks::new(arch);
        let mut memory = memory(&mut random, 4096);
        let mask = 0xffff_0000_5a5a_5a5a_u64;
        for load in LOADS {
            let (name, bytes, _) = load;
            let to = span(20, bytes.div_ceil(4));
            // In a row, in no order, unaligned, with lanes off.
            let row = lanes(|lane| 64 + lane * bytes);
            let mixed = lanes(|lane| lane * 29 % 64 * 20 + lane % 5 + 64);
            for at in [row, mixed] {
                pair(&mut checks, lanes(|lane| at[lane as usize] - 24));
                checks.line(format_args!("flat_load_{name} {to}, v[10:11] offset:24"));
                expect_load(&mut checks, "flat", load, &memory, at, u64::MAX);
                pair(&mut checks, lanes(|lane| at[lane as usize] + 24));
                checks.scalar64(22, mask).line("s_mov_b64 exec, s[22:23]");
                checks.line(format_args!("global_load_{name} {to}, v[10:11], off offset:-24"));
                expect_load(&mut checks, "global", load, &memory, at, mask);
                checks.vector(10, at).line(format_args!("s_add_u32 s24, s84, 24\ns_addc_u32 s25, s85, 0"));
                checks.line(format_args!("global_load_{name} {to}, v10, s[24:25] offset:-24"));
                expect_load(&mut checks, "global saddr", load, &memory, at, u64::MAX);
            }
        }
        // Accumulation registers hold data too.
        checks.vector(10, lanes(|lane| lane * 8)).line("global_load_dwordx2 a[4:5], v10, s[84:85]\ns_waitcnt vmcnt(0)");
        checks.line("v_accvgpr_read_b32 v20, a5").expect("AGPR", "v20", lanes(|lane| memory[lane as usize * 2 + 1]));
        for (index, (name, bytes, shift)) in STORES.into_iter().enumerate() {
            let data: Vec<Lanes> = (0..bytes.div_ceil(4)).map(|_| random.lanes()).collect();
            for (k, values) in data.iter().enumerate() {
                checks.vector(20 + k as u32, *values);
            }
            let from = span(20, bytes.div_ceil(4));
            let forms: [(&str, u64); 4] = [("row", u64::MAX), ("saddr", u64::MAX), ("flat", mask), ("global", mask)];
            for (form, on) in forms {
                let gap = if form == "row" { bytes } else { 20 };
                let at = lanes(|lane| {
                    8000 + if form == "row" { lane } else { lane * 45 % 64 } * gap
                        + 4 * index as u32
                        + lane % 2 * u32::from(form != "row")
                });
                checks.line("s_mov_b64 exec, -1");
                match form {
                    "saddr" => {
                        checks.vector(10, at).line(format_args!("global_store_{name} v10, {from}, s[84:85]"));
                    }
                    _ => {
                        pair(&mut checks, at);
                        checks.scalar64(22, on).line("s_mov_b64 exec, s[22:23]");
                        let off = if form == "flat" { "" } else { ", off" };
                        let segment = if form == "flat" { "flat" } else { "global" };
                        checks.line(format_args!("{segment}_store_{name} v[10:11], {from}{off}"));
                    }
                }
                checks.line("s_mov_b64 exec, -1");
                for lane in (0..64_u32).filter(|lane| on >> lane & 1 == 1) {
                    for (k, values) in data.iter().enumerate() {
                        let place = at[lane as usize] + 4 * k as u32;
                        put(&mut memory, place, values[lane as usize] >> shift, bytes.min(4));
                    }
                }
            }
        }
        let before = self::memory(&mut Random(0xfeed), 4096);
        checks.run(&before, &memory);
    }
}

#[test]
fn scratch_and_apertures() {
    let mut random = Random(0x600d);
    let mut checks = Checks::new(Arch::Gfx942);
    (checks.kernel.scratch, checks.kernel.lds) = (256, 512);
    let data: Vec<Lanes> = (0..4).map(|_| random.lanes()).collect();
    for (k, values) in data.iter().enumerate() {
        checks.vector(20 + k as u32, *values);
    }
    // Each lane has its own bytes: the same offset in all lanes, and different ones.
    let own = lanes(|lane| lane % 16 * 8);
    checks.vector(10, own).scalar("s20", 16);
    checks.line("scratch_store_dwordx4 off, v[20:23], off offset:192\nscratch_store_dwordx2 v10, v[20:21], off");
    checks.line("scratch_load_dwordx3 v[30:32], off, s20 offset:176\nscratch_load_dword v33, v10, off offset:4");
    for k in 0..3 {
        checks.expect(format_args!("scratch {k}"), format_args!("v{}", 30 + k), data[k as usize]);
    }
    checks.expect("scratch by lane", "v33", data[1]);
    checks.line("scratch_load_sbyte v34, off, off offset:195\nscratch_load_ushort v35, off, off offset:194");
    checks.expect("scratch_load_sbyte", "v34", lanes(|lane| (data[0][lane as usize] as i32 >> 24) as u32));
    checks.expect("scratch_load_ushort", "v35", lanes(|lane| data[0][lane as usize] >> 16));
    checks.line("scratch_store_short off, v22, off offset:193\nscratch_load_dword v36, off, off offset:192");
    let merged = |lane: u32| data[0][lane as usize] & 0xff00_00ff | (data[2][lane as usize] & 0xffff) << 8;
    checks.expect("scratch_store_short unaligned", "v36", lanes(merged));
    // The same bytes through flat addresses: the private aperture.
    checks.line(
        "s_mov_b64 s[40:41], src_private_base\nv_mov_b32 v11, s41\nv_mov_b32 v10, 196\nflat_load_dword v37, v[10:11]",
    );
    checks.expect("flat private", "v37", data[1]);
    // Lanes of one instruction in LDS, scratch and device memory.
    checks.line("s_mov_b64 s[42:43], src_shared_base\nds_write_b32 v60, v23");
    checks.line("v_mov_b32 v11, s43\nv_mov_b32 v10, v60\nv_mov_b32 v13, s41\nv_mov_b32 v12, 200");
    checks.line("v_and_b32 v14, 12, v60\nv_cmp_eq_u32 vcc, 4, v14\nv_cndmask_b32 v10, v10, v12, vcc\nv_cndmask_b32 v11, v11, v13, vcc");
    checks.line("v_mov_b32 v12, s84\nv_mov_b32 v13, s85\nv_cmp_eq_u32 vcc, 8, v14\nv_cndmask_b32 v10, v10, v12, vcc\nv_cndmask_b32 v11, v11, v13, vcc");
    checks.line("flat_load_dword v38, v[10:11]");
    let want = lanes(|lane| match lane % 4 {
        1 => data[2][lane as usize],
        2 => 0xc0ffee,
        _ => data[3][lane as usize],
    });
    checks.expect("flat in three spaces", "v38", want);
    checks.line("v_mov_b32 v12, v60\nv_mov_b32 v13, s43\nflat_atomic_add v39, v[12:13], v20 sc0");
    checks.line("ds_read_b32 v40, v60").expect("flat atomic in LDS", "v39", data[3]);
    checks.expect(
        "flat atomic in LDS, memory",
        "v40",
        lanes(|lane| data[3][lane as usize].wrapping_add(data[0][lane as usize])),
    );
    checks.run(&[0xc0ffee], &[0xc0ffee]);
}

/// Scalar registers s[40:43] become a resource over the memory.
fn resource(checks: &mut Checks, stride: u32, records: u32, word3: u32, swizzle: bool) {
    let high = stride << 16 | u32::from(swizzle) << 31;
    checks.line(format_args!("s_mov_b32 s40, s84\ns_and_b32 s41, s85, 0xffff\ns_or_b32 s41, s41, {high:#x}"));
    checks.scalar("s42", records).scalar("s43", word3);
}

/// x, y, z, w selected; 32-bit unsigned.
const PLAIN: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9 | 4 << 12 | 4 << 15;

#[test]
fn buffers() {
    let mut random = Random(0xb0ff);
    let mut checks = Checks::new(Arch::Gfx942);
    let memory = memory(&mut random, 4096);
    let read = |at: u64| memory[at as usize / 4];
    for load in LOADS {
        let (name, bytes, change) = load;
        let to = span(20, bytes.div_ceil(4));
        // Raw: the last lanes are partly or wholly beyond 64 * 16 - 20 bytes. The scalar offset is not checked.
        let records = 64 * 16 - 20;
        resource(&mut checks, 0, records, PLAIN, false);
        let offsets = lanes(|lane| lane * 16);
        checks.vector(10, offsets).scalar("s20", 2048);
        for soffset in ["0", "s20"] {
            let base = if soffset == "0" { 0 } else { 2048 };
            checks.line(format_args!("buffer_load_{name} {to}, v10, s[40:43], {soffset} offen offset:8"));
            for k in 0..bytes.div_ceil(4) {
                let want = lanes(|lane| {
                    let at = offsets[lane as usize] + 8 + 4 * k;
                    if at + bytes.min(4) <= records { change(unaligned(&memory, base + at, bytes)) } else { 0 }
                });
                checks.expect(
                    format_args!("buffer_load_{name} {k} soffset {soffset}"),
                    format_args!("v{}", 20 + k),
                    want,
                );
            }
        }
        // Structured: 40 records of 24 bytes.
        resource(&mut checks, 24, 40, PLAIN, false);
        checks.vector(10, lanes(|lane| lane)).vector(11, lanes(|lane| lane % 2 * 4));
        checks.line(format_args!("buffer_load_{name} {to}, v[10:11], s[40:43], 0 idxen offen offset:4"));
        for k in 0..bytes.div_ceil(4) {
            let want = lanes(|lane| {
                let at = lane * 24 + lane % 2 * 4 + 4 + 4 * k;
                if lane < 40 { change(unaligned(&memory, at, bytes)) } else { 0 }
            });
            checks.expect(format_args!("buffer_load_{name} {k} structured"), format_args!("v{}", 20 + k), want);
        }
    }
    // Swizzled: elements of 4 bytes, 16 records side by side, records of 16 bytes.
    resource(&mut checks, 16, 60, PLAIN | 1 << 21, true);
    checks.vector(10, lanes(|lane| lane)).line("buffer_load_dwordx2 v[20:21], v10, s[40:43], 0 idxen offset:4");
    for k in 0..2_u32 {
        let want = lanes(|lane| {
            let at = (u64::from(lane / 16) * 16 + 4 + 4 * u64::from(k)) * 16 + u64::from(lane % 16) * 4;
            if lane < 60 { read(at) } else { 0 }
        });
        checks.expect(format_args!("swizzled {k}"), format_args!("v{}", 20 + k), want);
    }
    // The lane added to the index: without an index register `records` is not looked at.
    resource(&mut checks, 20, 60 * 20, 4 | 5 << 3 | 1 << 23, false);
    checks.line("buffer_load_dword v20, off, s[40:43], 0 offset:8");
    checks.expect("add_tid", "v20", lanes(|lane| read(u64::from(lane * 20 + 8))));
    // With one, it is the number of records.
    resource(&mut checks, 20, 60, 4 | 5 << 3 | 1 << 23, false);
    checks.line("v_mov_b32 v10, 1\nbuffer_load_dword v20, v10, s[40:43], 0 idxen");
    checks.expect("add_tid, index", "v20", lanes(|lane| if lane < 59 { read(u64::from(lane * 20 + 20)) } else { 0 }));
    // The data format is the stride's high bits, unless the instruction has a format: 4 is 32 bits, or 0x10000 bytes.
    resource(&mut checks, 8, 64, PLAIN | 1 << 23, false);
    checks.line("s_mov_b64 exec, 1\nv_mov_b32 v20, 0\nbuffer_load_dword v20, off, s[40:43], 0 offset:12");
    checks.expect_in("add_tid, lane 0", "v20", 1, [read(12); 64]);
    checks.line("buffer_load_format_x v20, off, s[40:43], 0 offset:12");
    checks.expect("add_tid, format", "v20", lanes(|lane| read(u64::from(lane * 8 + 12))));
    checks.line("tbuffer_load_format_x v20, off, s[40:43], 0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_UINT]");
    checks.expect("add_tid, typed", "v20", lanes(|lane| read(u64::from(lane * 8))));
    // An unbound resource reads 0.
    checks.line("s_mov_b64 s[40:41], 0\ns_mov_b64 s[42:43], 0\nv_mov_b32 v20, 1\nv_mov_b32 v21, 1");
    checks.line("buffer_load_dword v20, off, s[40:43], 0\nbuffer_load_format_x v21, off, s[40:43], 0");
    checks.expect("unbound", "v20", [0; 64]).expect("unbound format", "v21", [0; 64]);
    checks.run(&memory, &memory);
}

#[test]
fn buffer_stores_and_loads_into_lds() {
    let mut random = Random(0xbead);
    let mut checks = Checks::new(Arch::Gfx942);
    checks.kernel.lds = 2048;
    let before = memory(&mut random, 2048);
    let mut after = before.clone();
    for (index, (name, bytes, shift)) in STORES.into_iter().enumerate() {
        let start = index as u32 * 1024;
        let data: Vec<Lanes> = (0..bytes.div_ceil(4)).map(|_| random.lanes()).collect();
        for (k, values) in data.iter().enumerate() {
            checks.vector(20 + k as u32, *values);
        }
        // Dwords beyond the end are dropped one by one.
        resource(&mut checks, 0, 1000, PLAIN, false);
        checks.vector(10, lanes(|lane| lane * 16)).scalar("s20", start);
        checks.line(format_args!("buffer_store_{name} {}, v10, s[40:43], s20 offen", span(20, bytes.div_ceil(4))));
        for lane in 0..64_u32 {
            for (k, values) in data.iter().enumerate() {
                let at = lane * 16 + 4 * k as u32;
                if at + bytes.min(4) <= 1000 {
                    put(&mut after, start + at, values[lane as usize] >> shift, bytes.min(4));
                }
            }
        }
    }
    for (name, bytes, change) in [LOADS[0], LOADS[1], LOADS[2], LOADS[3], LOADS[4]] {
        let zero = "v_mov_b32 v1, -1\nds_write_b32 v60, v1 offset:0x114";
        let offsets = lanes(|lane| lane * 33 % 64 * 12);
        let source = |lane: u32| unaligned(&after, offsets[lane as usize], bytes);
        checks.line(zero).vector(10, offsets).scalar("m0", 0x110);
        checks.line(format_args!(
            "global_load_lds_{name} v10, s[84:85]\ns_waitcnt vmcnt(0)\nds_read_b32 v2, v60 offset:0x110"
        ));
        checks.expect(format_args!("global_load_lds_{name}"), "v2", lanes(|lane| change(source(lane))));
        resource(&mut checks, 0, 600, PLAIN, false);
        // The immediate counts on both sides.
        checks
            .line(zero)
            .line(format_args!("buffer_load_{name} v10, s[40:43], 0 offen offset:4 lds\ns_waitcnt vmcnt(0)"));
        checks.line("ds_read_b32 v2, v60 offset:0x114");
        let want = lanes(|lane| {
            let at = offsets[lane as usize] + 4;
            if at + bytes <= 600 { change(unaligned(&after, at, bytes)) } else { 0 }
        });
        checks.expect(format_args!("buffer_load_{name} lds"), "v2", want);
    }
    checks.run(&before, &after);
}

/// gfx950: 12 and 16 bytes a lane into LDS, at every 16th byte.
#[test]
fn wide_loads_into_lds() {
    let mut random = Random(0x9595);
    let mut checks = Checks::new(Arch::Gfx950);
    checks.kernel.lds = 2048;
    let memory = memory(&mut random, 1024);
    let offsets = lanes(|lane| lane * 37 % 64 * 16);
    for (opcode, dwords) in [(125_u32, 4), (126, 3)] {
        for row in 0..4 {
            checks.line(format_args!("v_mov_b32 v1, -1\nds_write_b32 v60, v1 offset:{}", 0x200 + row * 256));
        }
        checks.vector(10, offsets).scalar("m0", 0x200);
        // global_load_lds_dwordx4 v10, s[84:85].
        checks.line(format_args!(".long {:#x}\n.long {:#x}", 0xdc00_0000 | opcode << 18 | 2 << 14, 84 << 16 | 10));
        for row in 0..4 {
            checks.line(format_args!("ds_read_b32 v2, v60 offset:{}", 0x200 + row * 256));
            let want = lanes(|lane| {
                let (to, k) = (row * 16 + lane / 4, lane % 4);
                if k < dwords { memory[(offsets[to as usize] / 4 + k) as usize] } else { u32::MAX }
            });
            checks.expect(format_args!("{dwords} dwords, row {row}"), "v2", want);
        }
    }
    checks.run(&memory, &memory);
}

#[test]
fn formats() {
    let mut checks = Checks::new(Arch::Gfx942);
    let memory: Vec<u32> =
        vec![0x8040_ff01, 0x3f80_0000, 0xc000_3c00, 0x7c01_ffff, 0xffc0_07ff, 0x4000_0000, 0xdead_beef, 5];
    let f = f32::to_bits;
    // Format, byte, and the four components.
    let cases: [(&str, u32, [u32; 4]); 12] = [
        (
            "[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_UNORM]",
            0,
            [f(1.0 / 255.0), f(1.0), f(64.0 / 255.0), f(128.0 / 255.0)],
        ),
        (
            "[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_SNORM]",
            0,
            [f(1.0 / 127.0), f(-1.0 / 127.0), f(64.0 / 127.0), f(-1.0)],
        ),
        ("[BUF_DATA_FORMAT_8_8,BUF_NUM_FORMAT_UINT]", 0, [1, 255, 0, 1]),
        ("[BUF_DATA_FORMAT_8_8,BUF_NUM_FORMAT_SINT]", 2, [64, -128_i32 as u32, 0, 1]),
        ("[BUF_DATA_FORMAT_16,BUF_NUM_FORMAT_USCALED]", 2, [f(f32::from(0x8040_u16)), 0, 0, f(1.0)]),
        ("[BUF_DATA_FORMAT_16,BUF_NUM_FORMAT_SSCALED]", 2, [f(f32::from(0x8040_u16 as i16)), 0, 0, f(1.0)]),
        ("[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_FLOAT]", 4, [f(1.0), 0, 0, f(1.0)]),
        ("[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_FLOAT]", 8, [f(1.0), f(-2.0), 0, f(1.0)]),
        // Lowest bits first: 10, 10, 10, 2.
        ("[BUF_DATA_FORMAT_2_10_10_10,BUF_NUM_FORMAT_UINT]", 16, [0x3ff, 1, 0x3fc, 3]),
        ("[BUF_DATA_FORMAT_10_10_10_2,BUF_NUM_FORMAT_UINT]", 16, [3, 0x1ff, 0, 0x3ff]),
        ("[BUF_DATA_FORMAT_10_11_11,BUF_NUM_FORMAT_UINT]", 16, [0x7ff, 0, 0x3ff, 1]),
        ("[BUF_DATA_FORMAT_32_32_32_32,BUF_NUM_FORMAT_UINT]", 16, [0xffc0_07ff, 0x4000_0000, 0xdead_beef, 5]),
    ];
    resource(&mut checks, 0, 32, PLAIN, false);
    for (format, at, want) in cases {
        checks.line(format_args!("tbuffer_load_format_xyzw v[20:23], off, s[40:43], 0 format:{format} offset:{at}"));
        for (k, value) in want.into_iter().enumerate() {
            checks.expect(format_args!("{format} {k}"), format_args!("v{}", 20 + k), [value; 64]);
        }
    }
    // MUBUF: the format and the selects of the resource: w, 0, 1, x of two signed halves.
    resource(&mut checks, 0, 32, 7 | 1 << 6 | 4 << 9 | 5 << 12 | 5 << 15, false);
    checks.line("buffer_load_format_xyzw v[20:23], off, s[40:43], 0 offset:8");
    for (k, value) in [1, 0, 1, 0x3c00].into_iter().enumerate() {
        checks.expect(format_args!("selected {k}"), format_args!("v{}", 20 + k), [value; 64]);
    }
    // Two 16-bit components to a register; numbers become f16.
    resource(&mut checks, 0, 32, PLAIN & !(0x7f << 12) | 5 << 15, false);
    checks.line("tbuffer_load_format_d16_xyz v[20:21], off, s[40:43], 0 format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_USCALED] offset:0");
    // 1, 255 and 64 as f16.
    checks.expect("d16 xy", "v20", [0x5bf8_3c00; 64]).expect("d16 z", "v21", [0x5400; 64]);
    let mut after = memory.clone();
    checks
        .line("s_mov_b64 exec, 1")
        .scalar("s44", f(0.5))
        .scalar("s45", f(-3.0))
        .scalar("s46", f(1.0))
        .scalar("s47", f(9.0));
    checks.line("v_mov_b32 v2, s44\nv_mov_b32 v3, s45\nv_mov_b32 v4, s46\nv_mov_b32 v5, s47");
    checks.line("tbuffer_store_format_xyzw v[2:5], off, s[40:43], 0 format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_UNORM] offset:24");
    // 127.5 rounds to the even 128; below 0 and above 1 are cut.
    after[6] = 0xffff_0080;
    checks.line("tbuffer_store_format_xy v[2:3], off, s[40:43], 0 format:[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_FLOAT] offset:28");
    after[7] = 0xc200_3800;
    checks.run(&memory, &after);
}

/// Name, whether its data are two values, the new value of (old, data, comparand); `bits` of the value.
type Change = (&'static str, fn(u64, u64, u64, u32) -> u64);

fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

const INTEGERS: [Change; 13] = [
    ("swap", |_, x, _, _| x),
    ("cmpswap", |old, x, y, _| if old == y { x } else { old }),
    ("add", |old, x, _, _| old.wrapping_add(x)),
    ("sub", |old, x, _, _| old.wrapping_sub(x)),
    ("smin", |old, x, _, bits| if signed(old, bits) < signed(x, bits) { old } else { x }),
    ("umin", |old, x, _, _| old.min(x)),
    ("smax", |old, x, _, bits| if signed(old, bits) > signed(x, bits) { old } else { x }),
    ("umax", |old, x, _, _| old.max(x)),
    ("and", |old, x, _, _| old & x),
    ("or", |old, x, _, _| old | x),
    ("xor", |old, x, _, _| old ^ x),
    ("inc", |old, x, _, _| if old >= x { 0 } else { old + 1 }),
    ("dec", |old, x, _, _| if old == 0 || old > x { x } else { old - 1 }),
];

fn half_sum(old: u64, x: u64) -> u64 {
    let sum = |a: u64, b: u64| {
        half::f16::from_f64(half::f16::from_bits(a as u16).to_f64() + half::f16::from_bits(b as u16).to_f64())
    };
    u64::from(sum(old & 0xffff, x & 0xffff).to_bits()) | u64::from(sum(old >> 16, x >> 16).to_bits()) << 16
}

fn bf16_sum(old: u64, x: u64) -> u64 {
    let sum = |a: u64, b: u64| {
        half::bf16::from_f64(half::bf16::from_bits(a as u16).to_f64() + half::bf16::from_bits(b as u16).to_f64())
    };
    u64::from(sum(old & 0xffff, x & 0xffff).to_bits()) | u64::from(sum(old >> 16, x >> 16).to_bits()) << 16
}

/// Name, bits, and the new value of (old, data).
type FloatChange = (&'static str, u32, fn(u64, u64) -> u64);

const FLOATS: [FloatChange; 6] = [
    ("add_f32", 32, |old, x| (f32::from_bits(old as u32) + f32::from_bits(x as u32)).to_bits().into()),
    ("pk_add_f16", 32, half_sum),
    ("pk_add_bf16", 32, bf16_sum),
    ("add_f64", 64, |old, x| (f64::from_bits(old) + f64::from_bits(x)).to_bits()),
    ("min_f64", 64, |old, x| if f64::from_bits(x) < f64::from_bits(old) { x } else { old }),
    ("max_f64", 64, |old, x| if f64::from_bits(x) > f64::from_bits(old) { x } else { old }),
];

/// One atomic: four lanes share a place, in lane order. Returns and does not, flat, global and buffer.
fn atomic(
    checks: &mut Checks,
    random: &mut Random,
    memory: &mut Vec<u32>,
    after: &mut Vec<u32>,
    name: &str,
    bits: u32,
    change: impl Fn(u64, u64, u64) -> u64,
) {
    let (count, cut) = (bits / 32, if bits == 32 { u64::from(u32::MAX) } else { u64::MAX });
    let is_float = name.contains("_f") || name.contains("bf16");
    let compares = name.starts_with("cmpswap");
    let mut number = |index: u32| match (is_float, bits) {
        (true, 64) => (signed(random.next(), 64) as f64).to_bits(),
        (true, _) if name == "add_f32" => u64::from(((random.next() >> 42) as f32 - 2e6).to_bits()),
        (true, _) => random.next() & 0x3fff_bfff,
        _ if index.is_multiple_of(3) => random.next() >> 20 & 7,
        _ => random.next() & cut,
    };
    for form in ["global", "flat", "buffer"] {
        if form == "buffer" && name == "pk_add_bf16" {
            continue;
        }
        for returns in [true, false] {
            let start = memory.len() as u32 * 4;
            let (mut old, mut data) = ([[0_u32; 64]; 2], [[0_u32; 64]; 4]);
            for group in 0..16_u32 {
                let mut now = number(group) & cut;
                memory.extend((0..count).map(|k| (now >> (32 * k)) as u32));
                for lane in group * 4..group * 4 + 4 {
                    let x = number(lane) & cut;
                    let y = if lane % 2 == 0 { now } else { number(lane) & cut };
                    for k in 0..count as usize {
                        old[k][lane as usize] = (now >> (32 * k)) as u32;
                        data[k][lane as usize] = (x >> (32 * k)) as u32;
                        data[count as usize + k][lane as usize] = (y >> (32 * k)) as u32;
                    }
                    now = change(now, x, y) & cut;
                }
                after.extend((0..count).map(|k| (now >> (32 * k)) as u32));
            }
            for (k, values) in data.iter().enumerate() {
                checks.vector(20 + k as u32, *values);
            }
            let values = if compares { 2 * count } else { count };
            let x2 = if bits == 64 && !is_float { "_x2" } else { "" };
            let (from, to) = (span(20, values), span(30, count));
            let offsets = lanes(|lane| start + lane / 4 * count * 4);
            let sc0 = if returns { " sc0" } else { "" };
            let result = if returns { format!("{to}, ") } else { String::new() };
            match form {
                "global" => {
                    checks
                        .vector(10, offsets)
                        .line(format_args!("global_atomic_{name}{x2} {result}v10, {from}, s[84:85]{sc0}"));
                }
                "flat" => {
                    pair(checks, offsets);
                    checks.line(format_args!("flat_atomic_{name}{x2} {result}v[10:11], {from}{sc0}"));
                }
                _ => {
                    resource(checks, 0, 1 << 20, PLAIN, false);
                    // The result takes the place of the data.
                    for k in 0..values {
                        checks.line(format_args!("v_mov_b32 v{}, v{}", 30 + k, 20 + k));
                    }
                    checks.vector(10, offsets).line(format_args!(
                        "buffer_atomic_{name}{x2} {}, v10, s[40:43], 0 offen{sc0}",
                        span(30, values)
                    ));
                }
            }
            if returns {
                for k in 0..count {
                    checks.expect(
                        format_args!("{form}_atomic_{name}{x2} {k}"),
                        format_args!("v{}", 30 + k),
                        old[k as usize],
                    );
                }
            }
            checks.line("s_waitcnt vmcnt(0)");
        }
    }
}

#[test]
fn atomics() {
    let mut random = Random(0xa70);
    let mut checks = Checks::new(Arch::Gfx942);
    let (mut memory, mut after) = (Vec::new(), Vec::new());
    for (name, change) in INTEGERS {
        for bits in [32, 64] {
            atomic(&mut checks, &mut random, &mut memory, &mut after, name, bits, |old, x, y| change(old, x, y, bits));
        }
    }
    for (name, bits, change) in FLOATS {
        atomic(&mut checks, &mut random, &mut memory, &mut after, name, bits, |old, x, _| change(old, x));
    }
    // Outside a resource nothing happens and 0 is returned; f32 sums flush denormals whatever the mode says.
    memory.extend([7, 1]);
    after.extend([7, 0]);
    let at = memory.len() * 4 - 8;
    resource(&mut checks, 0, at as u32 + 3, PLAIN, false);
    checks.line(format_args!("v_mov_b32 v10, {at}\nv_mov_b32 v20, 5\nv_mov_b32 v21, 1"));
    checks.line("buffer_atomic_add v20, v10, s[40:43], 0 offen sc0").expect("beyond the resource", "v20", [0; 64]);
    checks.line("s_mov_b64 exec, 1\nglobal_atomic_add_f32 v22, v10, v21, s[84:85] offset:4 sc0");
    checks.expect_in("denormal", "v22", 1, [1; 64]);
    checks.run(&memory, &after);
}
