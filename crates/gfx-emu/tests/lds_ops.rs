//! LDS instructions: every width, the two-address forms, atomics, lane crossing, append and consume, and gfx950's
//! transposing reads, against models over a byte array.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::isa::Arch;
use support::asm::{Checks, Lanes, Random, lanes};

const BYTES: usize = 8192;

/// LDS as a model, filled with known bytes; the kernel starts by writing the same.
fn filled(checks: &mut Checks, random: &mut Random) -> Vec<u8> {
    let mut model = vec![0; BYTES];
    checks.kernel.lds = BYTES as u32;
    for row in 0..BYTES / 256 {
        let values = random.lanes();
        for (lane, value) in values.iter().enumerate() {
            model[row * 256 + lane * 4..][..4].copy_from_slice(&value.to_le_bytes());
        }
        checks.vector(1, values).line(format_args!("ds_write_b32 v60, v1 offset:{}", row * 256));
    }
    model
}

fn word(model: &[u8], at: u32) -> u32 {
    u32::from_le_bytes(model[at as usize..][..4].try_into().unwrap())
}

fn put(model: &mut [u8], at: u32, value: u32) {
    model[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
}

/// Every word of the LDS is what the model says.
fn expect_all(checks: &mut Checks, label: &str, model: &[u8]) {
    for row in 0..model.len() as u32 / 256 {
        checks.line(format_args!("ds_read_b32 v62, v60 offset:{}", row * 256));
        checks.expect(format_args!("{label}: LDS row {row}"), "v62", lanes(|lane| word(model, row * 256 + lane * 4)));
    }
}

fn span(first: u32, count: u32) -> String {
    if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
}

#[test]
fn reads_and_writes_of_every_width() {
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        let mut random = Random(0xabcdef);
        let mut checks = Checks::new(arch);
        let mut model = filled(&mut checks, &mut random);
        // Addresses that are no multiple of anything but what the width needs, in no order.
        for (name, count, align) in [("b32", 1, 1), ("b64", 2, 1), ("b96", 3, 4), ("b128", 4, 4)] {
            let at = lanes(|lane| (lane * 37 % 64 * 52 + lane % 3) / align * align);
            checks.vector(10, at).line(format_args!("ds_read_{name} {}, v10 offset:44", span(20, count)));
            for k in 0..count {
                let want = lanes(|lane| word(&model, at[lane as usize] + 44 + k * 4));
                checks.expect(format_args!("ds_read_{name} {k}"), format_args!("v{}", 20 + k), want);
            }
        }
        type Part = (&'static str, u32, fn(u32) -> u32);
        let parts: [Part; 10] = [
            ("u8", 1, |raw| raw),
            ("i8", 1, |raw| raw as u8 as i8 as u32),
            ("u16", 2, |raw| raw),
            ("i16", 2, |raw| raw as u16 as i16 as u32),
            // The other half becomes zero: SRAM with ECC writes the whole register.
            ("u8_d16", 1, |raw| raw),
            ("u8_d16_hi", 1, |raw| raw << 16),
            ("i8_d16", 1, |raw| raw as u8 as i8 as u16 as u32),
            ("i8_d16_hi", 1, |raw| (raw as u8 as i8 as u32) << 16),
            ("u16_d16", 2, |raw| raw),
            ("u16_d16_hi", 2, |raw| raw << 16),
        ];
        let at = lanes(|lane| lane * 101 % 4000);
        checks.vector(10, at);
        for (name, bytes, change) in parts {
            let want = lanes(|lane| change(word(&model, at[lane as usize] + 3) & ((1_u64 << (bytes * 8)) - 1) as u32));
            checks.line(format_args!("v_mov_b32 v20, -1\nds_read_{name} v20, v10 offset:3"));
            checks.expect(format_args!("ds_read_{name}"), "v20", want);
        }
        let writes = [
            ("b8", 1, 0),
            ("b16", 2, 0),
            ("b8_d16_hi", 1, 2),
            ("b16_d16_hi", 2, 2),
            ("b32", 4, 0),
            ("b64", 8, 0),
            ("b96", 12, 0),
            ("b128", 16, 0),
        ];
        for (index, (name, bytes, from)) in writes.into_iter().enumerate() {
            let dwords = (bytes as u32).div_ceil(4);
            let align = if bytes > 8 { 4 } else { 1 };
            let at = lanes(|lane| (lane * 41 % 64 * 24 + 1 + lane % 3) / align * align + index as u32 * 8);
            let data: Vec<Lanes> = (0..dwords).map(|_| random.lanes()).collect();
            checks.vector(10, at);
            for (k, values) in data.iter().enumerate() {
                checks.vector(20 + k as u32, *values);
            }
            checks.line(format_args!("ds_write_{name} v10, {} offset:{}", span(20, dwords), align * 5));
            for lane in 0..64 {
                let raw: Vec<u8> = data.iter().flat_map(|values| values[lane].to_le_bytes()).collect();
                let start = (at[lane] + align * 5) as usize;
                model[start..start + bytes].copy_from_slice(&raw[from..from + bytes]);
            }
        }
        expect_all(&mut checks, "writes", &model);
        checks.run(&[0], &[0]);
    }
}

#[test]
fn two_addresses() {
    let mut random = Random(0x777);
    let mut checks = Checks::new(Arch::Gfx942);
    let mut model = filled(&mut checks, &mut random);
    for (suffix, bytes, stride) in [("b32", 4, 4), ("st64_b32", 4, 256), ("b64", 8, 8), ("st64_b64", 8, 512)] {
        let dash = if suffix.starts_with('b') { "_" } else { "" };
        let count = bytes / 4;
        let at = lanes(|lane| lane * 59 % 64 * bytes);
        let (first, second) = if stride > 100 { (3, 5) } else { (3, 70) };
        // The address register is one of the destinations.
        checks.vector(20, at);
        let to = span(20, count * 2);
        checks.line(format_args!("ds_read2{dash}{suffix} {to}, v20 offset0:{first} offset1:{second}"));
        for (half, offset) in [first, second].into_iter().enumerate() {
            for k in 0..count {
                let want = lanes(|lane| word(&model, at[lane as usize] + offset * stride + k * 4));
                let register = 20 + half as u32 * count + k;
                checks.expect(format_args!("ds_read2{suffix} {half} {k}"), format_args!("v{register}"), want);
            }
        }
        for swaps in [false, true] {
            let data: Vec<Lanes> = (0..2 * count).map(|_| random.lanes()).collect();
            checks.vector(10, at);
            for (k, values) in data.iter().enumerate() {
                checks.vector(24 + k as u32, *values);
            }
            let sources = format!("{}, {}", span(24, count), span(24 + count, count));
            let offsets = format!("offset0:{first} offset1:{second}");
            if swaps {
                let name =
                    format!("ds_wrxchg2{}_rtn_{}", if stride > 100 { "st64" } else { "" }, &suffix[suffix.len() - 3..]);
                checks.line(format_args!("{name} {}, v10, {sources} {offsets}", span(30, 2 * count)));
            } else {
                checks.line(format_args!("ds_write2{dash}{suffix} v10, {sources} {offsets}"));
            }
            for (half, offset) in [first, second].into_iter().enumerate() {
                for k in 0..count {
                    let place = |lane: u32| at[lane as usize] + offset * stride + k * 4;
                    let old = lanes(|lane| word(&model, place(lane)));
                    if swaps {
                        let register = 30 + half as u32 * count + k;
                        checks.expect(format_args!("ds_wrxchg2 {suffix} {half} {k}"), format_args!("v{register}"), old);
                    }
                    for lane in 0..64 {
                        put(&mut model, place(lane), data[half * count as usize + k as usize][lane as usize]);
                    }
                }
            }
        }
    }
    expect_all(&mut checks, "two addresses", &model);
    checks.run(&[0], &[0]);
}

/// Name, and the new value of (old, data, second data).
type Change = (&'static str, fn(u64, u64, u64) -> u64);

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn b(value: f32) -> u64 {
    value.to_bits().into()
}

/// A 16-bit float sum by exact arithmetic in f64 and one rounding.
fn half_sum(a: u64, b: u64) -> u64 {
    let sum = half::f16::from_bits(a as u16).to_f64() + half::f16::from_bits(b as u16).to_f64();
    half::f16::from_f64(sum).to_bits().into()
}

fn bf16_sum(a: u64, b: u64) -> u64 {
    let sum = half::bf16::from_bits(a as u16).to_f64() + half::bf16::from_bits(b as u16).to_f64();
    half::bf16::from_f64(sum).to_bits().into()
}

const NARROW: [Change; 22] = [
    ("add_{}u32", |old, x, _| old + x),
    ("sub_{}u32", |old, x, _| old.wrapping_sub(x)),
    ("rsub_{}u32", |old, x, _| x.wrapping_sub(old)),
    ("inc_{}u32", |old, x, _| if old >= x { 0 } else { old + 1 }),
    ("dec_{}u32", |old, x, _| if old == 0 || old > x { x } else { old - 1 }),
    ("min_{}i32", |old, x, _| if (old as i32) < x as i32 { old } else { x }),
    ("max_{}i32", |old, x, _| if (old as i32) > x as i32 { old } else { x }),
    ("min_{}u32", |old, x, _| old.min(x)),
    ("max_{}u32", |old, x, _| old.max(x)),
    ("and_{}b32", |old, x, _| old & x),
    ("or_{}b32", |old, x, _| old | x),
    ("xor_{}b32", |old, x, _| old ^ x),
    ("mskor_{}b32", |old, x, y| (old & !x) | y),
    ("cmpst_{}b32", |old, x, y| if old == x { y } else { old }),
    ("cmpst_{}f32", |old, x, y| if f(old) == f(x) { y } else { old }),
    ("min_{}f32", |old, x, _| if f(x) < f(old) { x } else { old }),
    ("max_{}f32", |old, x, _| if f(x) > f(old) { x } else { old }),
    ("add_{}f32", |old, x, _| b(f(old) + f(x))),
    ("pk_add_{}f16", |old, x, _| half_sum(old & 0xffff, x & 0xffff) | half_sum(old >> 16, x >> 16) << 16),
    ("pk_add_{}bf16", |old, x, _| bf16_sum(old & 0xffff, x & 0xffff) | bf16_sum(old >> 16, x >> 16) << 16),
    ("wrxchg_{}b32", |_, x, _| x),
    ("wrap_{}b32", |old, x, y| if old >= x { old - x } else { old + y }),
];

const WIDE: [Change; 20] = [
    ("add_{}u64", |old, x, _| old.wrapping_add(x)),
    ("sub_{}u64", |old, x, _| old.wrapping_sub(x)),
    ("rsub_{}u64", |old, x, _| x.wrapping_sub(old)),
    ("inc_{}u64", |old, x, _| if old >= x { 0 } else { old + 1 }),
    ("dec_{}u64", |old, x, _| if old == 0 || old > x { x } else { old - 1 }),
    ("min_{}i64", |old, x, _| if (old as i64) < x as i64 { old } else { x }),
    ("max_{}i64", |old, x, _| if (old as i64) > x as i64 { old } else { x }),
    ("min_{}u64", |old, x, _| old.min(x)),
    ("max_{}u64", |old, x, _| old.max(x)),
    ("and_{}b64", |old, x, _| old & x),
    ("or_{}b64", |old, x, _| old | x),
    ("xor_{}b64", |old, x, _| old ^ x),
    ("mskor_{}b64", |old, x, y| (old & !x) | y),
    ("cmpst_{}b64", |old, x, y| if old == x { y } else { old }),
    ("cmpst_{}f64", |old, x, y| if d(old) == d(x) { y } else { old }),
    ("min_{}f64", |old, x, _| if d(x) < d(old) { x } else { old }),
    ("max_{}f64", |old, x, _| if d(x) > d(old) { x } else { old }),
    ("add_{}f64", |old, x, _| (d(old) + d(x)).to_bits()),
    ("wrxchg_{}b64", |_, x, _| x),
    ("condxchg32_{}b64", |old, x, _| {
        let pick = |old: u64, x: u64| if x & 0x8000_0000 != 0 { x & 0x7fff_ffff } else { old & 0xffff_ffff };
        pick(old, x) | pick(old >> 32, x >> 32) << 32
    }),
];

/// Finite values in which equal pairs, edges and both float signs occur.
fn value(random: &mut Random, name: &str, index: usize) -> u64 {
    let edges = [0, 7, 7, 1 << 31, u64::MAX >> 1, u64::MAX, 0x3f80_0000_3f80_0000, 0x4000_c000_4000_c000];
    match (name, index % 3) {
        (name, _) if name.contains("f16") => random.next() & 0x3fff_bfff_3fff_bfff,
        (name, _) if name.contains("f32") => {
            b(((random.next() >> 40) as f32 - 8e6) * 2_f32.powi((index % 40) as i32 - 20))
        }
        (name, _) if name.contains("f64") => ((random.next() >> 11) as f64 - 4e15).to_bits(),
        (_, 0) => edges[index / 3 % edges.len()],
        _ => random.next() >> (random.next() % 40),
    }
}

#[test]
fn atomics() {
    for (list, bytes) in [(&NARROW[..], 4_u32), (&WIDE[..], 8)] {
        let mut random = Random(0x31415);
        let mut checks = Checks::new(Arch::Gfx942);
        let mut model = filled(&mut checks, &mut random);
        let count = bytes / 4;
        let cut = if bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        for (name, change) in list {
            for returns in [false, true] {
                let only_returns = ["wrxchg", "wrap", "condxchg"].iter().any(|part| name.starts_with(part));
                if only_returns && !returns {
                    continue;
                }
                // Eight lanes share each place, in lane order.
                let at = lanes(|lane| 512 + lane / 8 * bytes * 3 / bytes * bytes);
                let compares = name.starts_with("cmpst");
                let mut old = [[0_u32; 64]; 2];
                let (mut x, mut y) = ([[0_u32; 64]; 2], [[0_u32; 64]; 2]);
                for group in 0..8_u32 {
                    let place = at[group as usize * 8];
                    let start = value(&mut random, name, group as usize) & cut;
                    let mut now = start;
                    for lane in group * 8..group * 8 + 8 {
                        let index = lane as usize;
                        let data = if compares && lane % 2 == 0 { now } else { value(&mut random, name, index) & cut };
                        let second = value(&mut random, name, index + 1) & cut;
                        for k in 0..2 {
                            old[k][index] = (now >> (32 * k)) as u32;
                            x[k][index] = (data >> (32 * k)) as u32;
                            y[k][index] = (second >> (32 * k)) as u32;
                        }
                        now = change(now, data, second) & cut;
                    }
                    for k in 0..count {
                        // The first value goes to LDS by a plain write, below.
                        put(&mut model, place + k * 4, (now >> (32 * k)) as u32);
                    }
                    checks.scalar64(20, start).line(format_args!(
                        "v_mov_b32 v1, {place}\nv_mov_b32 v2, s20\nds_write_b32 v1, v2\nv_mov_b32 v2, s21"
                    ));
                    if bytes == 8 {
                        checks.line("ds_write_b32 v1, v2 offset:4");
                    }
                }
                checks.vector(10, at);
                for k in 0..2 {
                    checks.vector(20 + k, x[k as usize]).vector(22 + k, y[k as usize]);
                }
                let second = ["mskor", "cmpst", "wrap"].iter().any(|part| name.starts_with(part));
                let mut operands = vec!["v10".to_owned(), span(20, count)];
                if returns {
                    operands.insert(0, span(30, count));
                }
                if second {
                    operands.push(span(22, count));
                }
                let name = format!("ds_{}", name.replace("{}", if returns { "rtn_" } else { "" }));
                checks.line(format_args!("{name} {}", operands.join(", ")));
                for k in 0..count {
                    if returns {
                        checks.expect(format_args!("{name} {k}"), format_args!("v{}", 30 + k), old[k as usize]);
                    }
                    checks.line(format_args!("ds_read_b32 v62, v10 offset:{}", k * 4));
                    checks.expect(
                        format_args!("{name}, memory {k}"),
                        "v62",
                        lanes(|lane| word(&model, at[lane as usize] + k * 4)),
                    );
                }
            }
        }
        checks.run(&[0], &[0]);
    }
}

#[test]
fn float_atomics_follow_the_denormal_mode() {
    let mut checks = Checks::new(Arch::Gfx942);
    checks.kernel.lds = 256;
    // The smallest denormal twice: 2 with denormals, 0 without.
    for (mode, want) in [(3, 2), (0, 0)] {
        checks.line(format_args!(
            "v_mov_b32 v1, 1\nds_write_b32 v60, v1\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {mode}"
        ));
        checks.line("ds_add_f32 v60, v1\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\nds_read_b32 v2, v60");
        checks.expect(format_args!("ds_add_f32, mode {mode}"), "v2", [want; 64]);
    }
    checks.run(&[0], &[0]);
}

#[test]
fn crossing_lanes() {
    let mut random = Random(0x2468);
    let mut checks = Checks::new(Arch::Gfx90a);
    let data = random.lanes();
    let address = lanes(|lane| (lane * 7 + 3) * 4 + 1024);
    for mask in [u64::MAX, 0x0f0f_1234_ffff_00f1] {
        let on = |lane: u32| mask >> lane & 1 == 1;
        checks.vector(10, data).vector(11, address).vector(12, [5; 64]);
        checks.scalar64(20, mask).line("s_mov_b64 exec, s[20:21]\nds_permute_b32 v12, v11, v10 offset:8");
        let mut pushed = [0; 64];
        for lane in (0..64).filter(|lane| on(*lane)) {
            pushed[((address[lane as usize] + 8) / 4 % 64) as usize] = data[lane as usize];
        }
        checks.expect_in("ds_permute", "v12", mask, pushed);
        checks.expect_in("ds_permute, inactive", "v12", !mask, [5; 64]);
        checks.line("s_mov_b64 exec, s[20:21]\nds_bpermute_b32 v13, v11, v10 offset:8");
        let pulled = lanes(|lane| {
            let source = (address[lane as usize] + 8) / 4 % 64;
            if on(source) { data[source as usize] } else { 0 }
        });
        checks.expect_in("ds_bpermute", "v13", mask, pulled);
        // The destination may be the data.
        checks.line("v_mov_b32 v14, v10\ns_mov_b64 exec, s[20:21]\nds_bpermute_b32 v14, v11, v14 offset:8");
        checks.expect_in("ds_bpermute in place", "v14", mask, pulled);
        type Swizzle = (&'static str, Box<dyn Fn(u32) -> u32>);
        let quad = [2, 3, 0, 0];
        let swizzles: Vec<Swizzle> = vec![
            ("swizzle(QUAD_PERM, 2, 3, 0, 0)", Box::new(move |lane| lane / 4 * 4 + quad[lane as usize % 4])),
            ("swizzle(SWAP, 16)", Box::new(|lane| lane ^ 16)),
            ("swizzle(SWAP, 1)", Box::new(|lane| lane ^ 1)),
            ("swizzle(REVERSE, 8)", Box::new(|lane| lane / 8 * 8 + (7 - lane % 8))),
            ("swizzle(BROADCAST, 16, 5)", Box::new(|lane| lane / 16 * 16 + 5)),
            // Preserve bit 0, set bit 1, clear bit 2, invert bits 3 and 4: the mask is written highest bit first.
            ("swizzle(BITMASK_PERM, \"ii01p\")", Box::new(|lane| lane / 32 * 32 + (!lane & 24) + 2 + lane % 2)),
            // Rotate left by 5 in all 32 lanes: lane i reads lane i + 5.
            ("0xc0a0", Box::new(|lane| lane / 32 * 32 + (lane + 5) % 32)),
            // Rotate right by 3 in groups of 8: bits 4:3 stay.
            ("0xc478", Box::new(|lane| lane / 8 * 8 + (lane + 5) % 8)),
            // FFT: all five bits reversed, and the low four alone.
            (
                "0xe000",
                Box::new(|lane| lane / 32 * 32 + (0..5).fold(0, |sum, bit| sum + ((lane >> bit & 1) << (4 - bit)))),
            ),
            (
                "0xe010",
                Box::new(|lane| lane / 16 * 16 + (0..4).fold(0, |sum, bit| sum + ((lane >> bit & 1) << (3 - bit)))),
            ),
        ];
        for (pattern, source) in swizzles {
            checks.line(format_args!(
                "v_mov_b32 v15, -1\ns_mov_b64 exec, s[20:21]\nds_swizzle_b32 v15, v10 offset:{pattern}"
            ));
            let want = lanes(|lane| if on(source(lane)) { data[source(lane) as usize] } else { 0 });
            checks.expect_in(format_args!("ds_swizzle {pattern} {mask:#x}"), "v15", mask, want);
        }
    }
    checks.run(&[0], &[0]);
}

#[test]
fn lanes_as_addresses_and_counters() {
    let mut random = Random(0x9999);
    let mut checks = Checks::new(Arch::Gfx942);
    let mut model = filled(&mut checks, &mut random);
    checks.scalar("m0", 0x1234_0100).line("ds_read_addtid_b32 v1 offset:16");
    checks.expect("ds_read_addtid", "v1", lanes(|lane| word(&model, 0x110 + lane * 4)));
    let data = random.lanes();
    checks.vector(2, data).line("ds_write_addtid_b32 v2 offset:512");
    for lane in 0..64 {
        put(&mut model, 0x300 + lane * 4, data[lane as usize]);
    }
    // Counters: the pointer stands in M0; 12 lanes are on.
    let mask = 0x0fff_u64 << 20;
    put(&mut model, 0x80, 100);
    checks.line("v_mov_b32 v3, 0x80\nv_mov_b32 v4, 100\nds_write_b32 v3, v4").scalar("m0", 0x78).scalar64(20, mask);
    checks.line("v_mov_b32 v5, 0\ns_mov_b64 exec, s[20:21]\nds_append v5 offset:8");
    checks.expect_in("ds_append", "v5", mask, [100; 64]).expect_in("ds_append, inactive", "v5", !mask, [0; 64]);
    checks.line("s_mov_b64 exec, 7\nds_consume v6 offset:8").expect_in("ds_consume", "v6", 7, [112; 64]);
    put(&mut model, 0x80, 109);
    expect_all(&mut checks, "counters", &model);
    checks.run(&[0], &[0]);
}

/// The pointer of `__builtin_amdgcn_ds_append` as the compiler passes it.
#[test]
fn compilers_append() {
    let source = r#"
    KERNEL void k(u32 *out) {
        SHARED u32 count[4];
        if (tid() == 0) { count[0] = 1000; count[1] = 2000; count[2] = 3000; }
        barrier();
        if (tid() % 3 == 0) out[tid()] = __builtin_amdgcn_ds_append((SHARED_POINTER)&count[1]);
        barrier();
        if (tid() == 0) { out[64] = count[0]; out[65] = count[1]; out[66] = count[2]; }
    }"#;
    let words = "#define SHARED_POINTER __attribute__((address_space(3))) int *\n";
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        let Some(code) = support::compile(arch, &format!("{words}{source}")) else { return };
        let mut device = support::Device::new(arch, &code);
        let out = device.buffer("out", &[0_u32; 67]);
        device.run("k", 1, 64, support::Args::default().u64(out).done()).unwrap();
        let found = device.read::<u32>(out, 67);
        assert_eq!(found[64..], [1000, 2022, 3000]);
        assert!((0..64).all(|lane| found[lane] == if lane % 3 == 0 { 2000 } else { 0 }), "{found:?}");
    }
}

/// gfx950: within 16 lanes, the items that the lanes' addresses give are a matrix in row order, 16 items a row; lane i gets
/// column i.
#[test]
fn transposing_reads() {
    let mut random = Random(0x5050);
    let mut checks = Checks::new(Arch::Gfx950);
    let model = filled(&mut checks, &mut random);
    // Opcode, bits of an item, bytes a lane.
    for (opcode, bits, bytes) in [(227, 16, 8), (226, 8, 8), (224, 4, 8), (225, 6, 12)] {
        let at = lanes(|lane| lane * 23 % 64 * 24 + 96);
        checks.vector(10, at);
        // ds_read_b64_tr_b16 v[20:21], v10 offset:8 and the like.
        checks.line(format_args!(".long {:#x}\n.long {:#x}", 0xd800_0000_u32 | opcode << 17 | 8, 20 << 24 | 10));
        let rows = bytes * 8 / bits;
        let per_lane = rows;
        let item = |group: u32, index: u32| -> u32 {
            let lane = group * 16 + index / per_lane;
            let start = at[lane as usize] + 8;
            let bit = index % per_lane * bits;
            (0..bits).fold(0, |sum, k| {
                let place = start * 8 + bit + k;
                sum | u32::from(model[place as usize / 8] >> (place % 8) & 1) << k
            })
        };
        for k in 0..bytes / 4 {
            let want = lanes(|lane| {
                (0..32).fold(0, |word, bit| {
                    let place = k * 32 + bit;
                    let (row, part) = (place / bits, place % bits);
                    word | (item(lane / 16, row * 16 + lane % 16) >> part & 1) << bit
                })
            });
            checks.expect(format_args!("ds_read_tr_b{bits} {k}"), format_args!("v{}", 20 + k), want);
        }
    }
    checks.run(&[0], &[0]);
}
