//! Decoding and text against LLVM's own tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
mod isa;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use isa::{Random, bytes, has_tool, run, words};
use kbench_gfx_emu::isa::{Arch, DecodeError, Inst, Operand, WaveSize, decode, decode_wave, mnemonics};
use proptest::prelude::*;

/// The targets that LLVM 19 knows.
const LLVM_19: [Arch; 3] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx1100];

/// What the assembler has no syntax or operands for, though the disassembler prints it.
fn has_no_assembly(name: &str) -> bool {
    // Buffer stores from LDS and the old cache controls are not instructions of gfx940 to its assembler.
    ["buffer_store_lds_dword", "buffer_wbinvl1", "buffer_wbinvl1_vol", "v_pk_fmac_f16_e32"].contains(&name)
}

/// A file that is removed at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        TempFile(std::env::temp_dir().join(format!("kbench-isa-{}-{name}", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn llvm_mc(arch: Arch) -> Command {
    let mut command = Command::new("llvm-mc-19");
    command.arg("-triple=amdgcn-amd-amdhsa").arg(format!("-mcpu={}", arch.name()));
    command
}

/// The texts that the assembler accepts, assembled; the rest (an odd register, two scalar registers in one instruction) is
/// what its operand checks refuse.
fn assemble(arch: Arch, texts: &[String], to: &Path) -> usize {
    let (_, _, errors) = run(llvm_mc(arch).arg("-filetype=null"), &texts.join("\n"));
    let refused: HashSet<usize> = errors
        .lines()
        .filter(|line| line.contains(": error:"))
        .filter_map(|line| line.strip_prefix("<stdin>:")?.split(':').next()?.parse().ok())
        .collect();
    let kept: Vec<_> =
        texts.iter().enumerate().filter(|(i, _)| !refused.contains(&(i + 1))).map(|(_, t)| t.as_str()).collect();
    let (ok, _, errors) = run(llvm_mc(arch).arg("-filetype=obj").arg("-o").arg(to), &kept.join("\n"));
    assert!(ok, "{errors}");
    kept.len()
}

/// Texts and bytes of every instruction of an object, as `llvm-objdump-19 -d` prints them.
fn objdump(object: &Path) -> Vec<(String, Vec<u8>)> {
    let (ok, listing, errors) = run(Command::new("llvm-objdump-19").arg("-d").arg(object), "");
    assert!(ok, "{errors}");
    let mut out = Vec::new();
    for line in listing.lines() {
        let Some((text, comment)) = line.trim().split_once("//") else { continue };
        let Some((_, code)) = comment.split_once(": ") else { continue };
        // A branch's comment ends with the symbol it goes to.
        let words: Vec<u32> = code.split(' ').map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
        out.push((text.trim().to_owned(), bytes(&words)));
    }
    out
}

/// Decodes what objdump listed; the mnemonics seen.
fn compare(arch: Arch, listing: &[(String, Vec<u8>)]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (text, code) in listing {
        let inst = decode(arch, code, 0).unwrap_or_else(|error| panic!("{text}: {error}"));
        // objdump may warn of a misaligned scalar group behind the text.
        let text = text.split(" ; ").next().unwrap();
        assert_eq!(&inst.text(arch), text, "{}", arch.name());
        assert_eq!(usize::from(inst.size), code.len(), "{text}");
        // Dual issue has two mnemonics.
        seen.extend(text.split(" :: ").map(|half| half.split(' ').next().unwrap().to_owned()));
    }
    seen
}

#[test]
fn every_claimed_opcode_reads_like_objdump() {
    if !has_tool("llvm-mc-19") || !has_tool("llvm-objdump-19") {
        return;
    }
    for arch in LLVM_19 {
        let mut texts = HashSet::new();
        for code in words(arch, &mut Random(1), 80) {
            if let Ok(inst) = decode(arch, &bytes(&code), 0) {
                texts.insert(inst.text(arch));
            }
        }
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort();
        let object = TempFile::new(&format!("{}.o", arch.name()));
        let kept = assemble(arch, &texts, &object.0);
        let listing = objdump(&object.0);
        assert_eq!(listing.len(), kept, "{}", arch.name());
        let seen = compare(arch, &listing);
        let missing: Vec<String> =
            mnemonics(arch).into_iter().filter(|name| !seen.contains(name) && !has_no_assembly(name)).collect();
        assert!(missing.is_empty(), "{}: never assembled: {missing:?}", arch.name());
        println!("{}: {} texts, {kept} assembled, {} mnemonics", arch.name(), texts.len(), seen.len());
    }
}

/// The disassembler's output for each code, by a marker instruction between them; `None` where it crashed.
fn disassemble(arch: Arch, wave: WaveSize, codes: &[Vec<u8>]) -> Vec<Option<Vec<String>>> {
    const MARKER: &str = "s_nop 0x5a5a";
    let mut input = String::new();
    for code in codes {
        // Brackets keep one instruction from taking bytes of the next.
        let list: Vec<String> = code.iter().map(|byte| format!("{byte:#04x}")).collect();
        input.push_str(&format!("[{}]\n[0x5a,0x5a,0x80,0xbf]\n", list.join(",")));
    }
    let mut command = llvm_mc(arch);
    if wave != arch.wave_size() {
        command.arg("-mattr=+wavefrontsize64,-wavefrontsize32");
    }
    let (_, out, _) = run(command.arg("--disassemble"), &input);
    let lines = out.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('.'));
    let mut groups = vec![Vec::new()];
    for line in lines {
        match line == MARKER {
            true => groups.push(Vec::new()),
            false => groups.last_mut().unwrap().push(line.split(" ; ").next().unwrap().replace('\t', " ")),
        }
    }
    groups.pop();
    if groups.len() != codes.len() {
        // LLVM aborts on some reserved values. Halve until the one is alone.
        if codes.len() <= 1 {
            return vec![None; codes.len()];
        }
        let (front, back) = codes.split_at(codes.len() / 2);
        return [disassemble(arch, wave, front), disassemble(arch, wave, back)].concat();
    }
    groups.into_iter().map(Some).collect()
}

/// What the disassembler prints but no hardware has, or reads out of reserved values.
fn is_leniency(text: &str) -> bool {
    // Encodings of GFX11 that are not claimed: graphics, and registers in halves, which need a feature that is off by default.
    let graphics = ["exp ", "lds_", "v_interp_", "v_illegal", "v_mov_b16"];
    graphics.iter().any(|prefix| text.starts_with(prefix))
        || text.contains("src_lds_direct") // Gone in GFX11, as its assembler knows.
        || text.contains("buffer_") && text.contains(", 0x") // A literal as the scalar offset of a buffer.
        || text.contains("_e64_dpp ") && text.contains("sext(") // Bits that do nothing without DPP.
        || text.contains("/*") // An operand that it calls invalid itself.
        || text.starts_with("image_") // No AMD document of these targets has image instructions.
        || text.starts_with("v_nop") || text.starts_with("v_pipeflush") // Forms of them with operands.
        || text.contains("null") || text.contains(" src_") // In places for vector registers.
}

/// Whether SDWA selects or a DPP control are reserved ones.
fn is_reserved_select(error: &DecodeError) -> bool {
    matches!(error, DecodeError::Unknown { reason: "reserved SDWA select" | "reserved DPP control", .. })
}

fn agree(arch: Arch, wave: WaveSize, codes: &[Vec<u8>]) -> (usize, usize) {
    // Reserved selects are left out: LLVM aborts on some and prints others as if they were not.
    let codes: Vec<_> =
        codes.iter().filter(|code| !decode(arch, code, 0).is_err_and(|error| is_reserved_select(&error))).collect();
    let ours: Vec<_> = codes.iter().map(|code| decode_wave(arch, wave, code, 0)).collect();
    // What is accepted is compared as the bytes of that one instruction.
    let cut: Vec<Vec<u8>> = codes
        .iter()
        .zip(&ours)
        .map(|(code, ours)| match ours {
            Ok(inst) => code[..usize::from(inst.size)].to_vec(),
            Err(_) => code.to_vec(),
        })
        .collect();
    let (mut valid, mut invalid) = (0, 0);
    for ((code, ours), theirs) in cut.iter().zip(&ours).zip(disassemble(arch, wave, &cut)) {
        let Some(theirs) = theirs else { continue };
        match ours {
            Ok(inst) => {
                assert_eq!(theirs, [inst.text_wave(arch, wave)], "{}: {code:02x?}", arch.name());
                valid += 1;
            }
            Err(error) => {
                // A refused block prints nothing; a text means that the tool accepts what this decoder does not.
                let is_fine = theirs.first().is_none_or(|text| is_leniency(text));
                assert!(is_fine, "{}: {code:02x?} {theirs:?}: {error}", arch.name());
                invalid += 1;
            }
        }
    }
    (valid, invalid)
}

fn random_words(arch: Arch, seed: u64, count: usize, rounds: u32) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    // Instructions of GFX11 have up to three words; the scaled ones of CDNA4, which LLVM 19 lacks, four.
    let length = if arch.is_gfx11() { 3 } else { 2 };
    let mut codes: Vec<Vec<u8>> =
        words(arch, &mut random, rounds).iter().map(|code| bytes(&code[..code.len().min(length)])).collect();
    for _ in 0..count {
        let code = [random.next(), random.next()].map(u64::to_le_bytes).concat();
        codes.push(code[..4 * length].to_vec());
    }
    codes
}

#[test]
fn random_words_agree_with_the_disassembler() {
    if !has_tool("llvm-mc-19") {
        return;
    }
    for arch in LLVM_19 {
        let (valid, invalid) = agree(arch, arch.wave_size(), &random_words(arch, 7, 4000, 1));
        println!("{}: {valid} valid, {invalid} invalid", arch.name());
        assert!(valid > 1000 && invalid > 1000);
    }
    let arch = Arch::Gfx1100;
    let (valid, invalid) = agree(arch, WaveSize::W64, &random_words(arch, 8, 4000, 1));
    println!("{}, wave64: {valid} valid, {invalid} invalid", arch.name());
    assert!(valid > 1000 && invalid > 1000);
}

#[test]
#[ignore = "a large sample: minutes"]
fn many_random_words_agree_with_the_disassembler() {
    if !has_tool("llvm-mc-19") {
        return;
    }
    for arch in LLVM_19 {
        for seed in 100..110 {
            let codes = random_words(arch, seed, 20_000, 4);
            // CDNA has waves of 64 alone.
            let other = if arch.is_gfx11() { &[WaveSize::W64][..] } else { &[] };
            for &wave in [arch.wave_size()].iter().chain(other) {
                let (valid, invalid) = agree(arch, wave, &codes);
                println!("{} {wave:?} seed {seed}: {valid} valid, {invalid} invalid", arch.name());
            }
        }
    }
}

/// A clang that knows gfx950: `$KBENCH_CLANG22`, or the one in the Python package `ziglang`.
fn clang_22() -> Option<Vec<String>> {
    let given = std::env::var("KBENCH_CLANG22").ok().map(|path| path.split(' ').map(str::to_owned).collect());
    let zig = ["python3", "-m", "ziglang", "clang"].map(str::to_owned).to_vec();
    given.into_iter().chain([zig]).find(|command: &Vec<String>| {
        let version = Command::new(&command[0]).args(&command[1..]).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// gfx950 text, assembled, gives instructions with that very text: what LLVM 19 cannot say of it, a newer assembler can.
#[test]
fn gfx950_text_assembles_to_what_was_decoded() {
    let Some(clang) = clang_22() else {
        eprintln!("skipped: no clang that knows gfx950 (KBENCH_CLANG22, or the Python package ziglang)");
        return;
    };
    let arch = Arch::Gfx950;
    let mut texts = BTreeSet::new();
    for code in words(arch, &mut Random(3), 80) {
        if let Ok(inst) = decode(arch, &bytes(&code), 0) {
            texts.insert(inst.text(arch));
        }
    }
    let texts: Vec<String> = texts.into_iter().collect();
    let (source, object) = (TempFile::new("gfx950.s"), TempFile::new("gfx950.o"));
    let assemble = |texts: &[&str]| {
        std::fs::write(&source.0, texts.join("\n") + "\n").unwrap();
        let mut command = Command::new(&clang[0]);
        command.args(&clang[1..]).args(["--target=amdgcn-amd-amdhsa", "-mcpu=gfx950", "-ferror-limit=0", "-c"]);
        run(command.arg(&source.0).arg("-o").arg(&object.0), "")
    };
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (_, _, errors) = assemble(&all);
    let refused: HashSet<usize> = errors
        .lines()
        .filter(|line| line.contains(": error:"))
        .filter_map(|line| line.split(": error:").next()?.rsplit(':').nth(1)?.parse().ok())
        .collect();
    let kept: Vec<&str> =
        all.iter().enumerate().filter(|(i, _)| !refused.contains(&(i + 1))).map(|(_, t)| *t).collect();
    let (ok, _, errors) = assemble(&kept);
    assert!(ok, "{errors}");
    let code = text_section(&std::fs::read(&object.0).unwrap());
    let mut offset = 0;
    let mut seen = BTreeSet::new();
    let mut different = Vec::new();
    for text in &kept {
        let inst = decode(arch, &code, offset).unwrap_or_else(|error| panic!("{text}: {error}"));
        // Several masks do the same permutation, and the assembler takes the simplest. It also loses the SC1 of flat f64
        // atomics, which the disassembler knows.
        let is_f64_atomic = text.contains("atomic") && text.contains("_f64");
        let shown = |text: &str| if is_f64_atomic { text.replace(" sc1", "") } else { text.to_owned() };
        // And it reads the float in `s_setreg_imm32_b32 .., 1.0`, which the disassembler prints, as 0.
        let is_float_setreg = text.starts_with("s_setreg_imm32") && text.contains('.');
        // And an f64 literal of up to 64, the high half of a denormal, as that integer.
        let is_f64_literal = text.contains("_f64") && text.contains(" 0x");
        if !text.contains("swizzle(") && !is_float_setreg && !is_f64_literal && shown(&inst.text(arch)) != shown(text) {
            different.push(format!("{text} -> {}", inst.text(arch)));
        }
        offset += usize::from(inst.size);
        seen.insert(text.split(' ').next().unwrap().to_owned());
    }
    assert!(different.is_empty(), "{} differ: {:#?}", different.len(), &different[..different.len().min(20)]);
    let missing: Vec<String> =
        mnemonics(arch).into_iter().filter(|name| !seen.contains(name) && !has_no_assembly(name)).collect();
    assert!(missing.is_empty(), "never assembled: {missing:?}");
    println!("gfx950: {} texts, {} assembled, {} mnemonics", texts.len(), kept.len(), seen.len());
}

/// The bytes of `.text` of a little-endian ELF64 object.
fn text_section(elf: &[u8]) -> Vec<u8> {
    let u = |at: usize, len: usize| {
        elf[at..at + len].iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte))
    };
    let (table, size, names) = (u(0x28, 8), u(0x3a, 2), u(0x3e, 2));
    let header = |i: usize| table + i * size;
    let strings = u(header(names) + 0x18, 8);
    for i in 0..u(0x3c, 2) {
        let name = strings + u(header(i), 4);
        if elf[name..].starts_with(b".text\0") {
            let start = u(header(i) + 0x18, 8);
            return elf[start..start + u(header(i) + 0x20, 8)].to_vec();
        }
    }
    panic!("no .text");
}

/// Every instruction of every kernel of this project, as clang compiles it.
#[test]
fn compiled_kernels_read_like_objdump() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let mut sources = Vec::new();
    find(&kernels, "hip", &mut sources);
    if sources.is_empty() {
        eprintln!("skipped: there are no kernels in {}", kernels.display());
        return;
    }
    if !has_tool("clang-19") || !has_tool("llvm-objdump-19") || !has_tool("ld.lld-19") {
        return;
    }
    for arch in LLVM_19 {
        let (mut compiled, mut instructions) = (0, 0);
        for source in &sources {
            let object = TempFile::new(&format!("{}-kernel.o", arch.name()));
            let mut clang = Command::new("clang-19");
            clang.args(["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O3", "-std=c++17", "-c"]);
            clang.arg(format!("--offload-arch={}", arch.name())).arg("-I").arg(kernels.join("include"));
            let (ok, _, errors) = run(clang.arg("--no-gpu-bundle-output").arg(source).arg("-o").arg(&object.0), "");
            if !ok && arch.is_gfx11() && errors.contains("error: ") {
                // Kernels on matrix cores and on CDNA's clock.
                continue;
            }
            assert!(ok, "{}: {errors}", source.display());
            let listing = objdump(&object.0);
            assert!(!listing.is_empty(), "{}", source.display());
            compare(arch, &listing);
            compiled += 1;
            instructions += listing.len();
        }
        println!("{}: {instructions} instructions of {compiled} files", arch.name());
        assert!(2 * compiled > sources.len(), "{}: only {compiled} files compile", arch.name());
    }
}

fn find(folder: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            find(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
    out.sort();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No bytes and no offset make the decoder or the text panic, and an instruction lies within the code.
    #[test]
    fn any_bytes_decode_or_are_refused(code in proptest::collection::vec(any::<u8>(), 0..40), offset in 0usize..48) {
        for arch in Arch::ALL {
            match decode(arch, &code, offset) {
                Ok(inst) => {
                    prop_assert!(offset + usize::from(inst.size) <= code.len());
                    for other in Arch::ALL {
                        prop_assert!(!inst.text(other).is_empty());
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
        if let Ok(inst) = decode_wave(Arch::Gfx1100, WaveSize::W64, &code, offset) {
            prop_assert!(offset + usize::from(inst.size) <= code.len());
            prop_assert!(!inst.text_wave(Arch::Gfx1100, WaveSize::W64).is_empty());
        }
    }
}

fn gfx1100(wave: WaveSize, words: &[u32]) -> Inst {
    decode_wave(Arch::Gfx1100, wave, &bytes(words), 0).unwrap()
}

#[test]
fn the_halves_of_dual_issue_are_instructions() {
    let arch = Arch::Gfx1100;
    let halves = |words: &[u32]| gfx1100(WaveSize::W32, words).halves().unwrap().map(|half| half.text(arch));
    // v_dual_fmaak_f32 v2, v4, v6, 0x1234 :: v_dual_fmamk_f32 v3, v5, 0x1234, v7
    let words = [0xc844_0d04, 0x0202_0f05, 0x1234];
    assert_eq!(halves(&words), ["v_fmaak_f32 v2, v4, v6, 0x1234", "v_fmamk_f32 v3, v5, 0x1234, v7"]);
    // v_dual_cndmask_b32 v2, v4, v6 :: v_dual_add_nc_u32 v3, 1.0, v7
    let words = [0xca60_0d04, 0x0202_0ef2];
    assert_eq!(halves(&words), ["v_cndmask_b32_e32 v2, v4, v6, vcc_lo", "v_add_nc_u32_e32 v3, 1.0, v7"]);
    // v_dual_fmac_f32 v2, v4, v6 :: v_dual_mov_b32 v3, s4
    let words = [0xc810_0d04, 0x0202_0004];
    assert_eq!(halves(&words), ["v_fmac_f32_e32 v2, v4, v6", "v_mov_b32_e32 v3, s4"]);
    assert_eq!(gfx1100(WaveSize::W32, &[0xbf80_0000]).halves(), None);
    assert!(decode_wave(arch, WaveSize::W64, &bytes(&words), 0).is_err());
}

#[test]
fn gfx1100_operands_are_those_of_gfx9() {
    // s_mov_b32 m0, null: codes 125 and 124 in the hardware.
    let inst = gfx1100(WaveSize::W32, &[0xbefd_007c]);
    assert_eq!((inst.dst[0], inst.src[0]), (Operand::Scalar(124), Operand::Scalar(125)));
    assert_eq!(inst.text(Arch::Gfx1100), "s_mov_b32 m0, null");
    // v_cmpx_lt_f32_e32 v4, v6: the mask goes to EXEC.
    let inst = gfx1100(WaveSize::W32, &[0x7d22_0d04]);
    assert_eq!((inst.op.name(), inst.dst[0]), ("v_cmpx_lt_f32", Operand::Scalar(126)));
    // v_cndmask_b32_e64 v2, v4, v6, s4: a mask is one register or two.
    let words = [0xd501_0002, 0x0012_0d04];
    for (wave, text) in [(WaveSize::W32, "s4"), (WaveSize::W64, "s[4:5]")] {
        let text = format!("v_cndmask_b32_e64 v2, v4, v6, {text}");
        assert_eq!(gfx1100(wave, &words).text_wave(Arch::Gfx1100, wave), text);
    }
}

#[test]
fn the_end_of_the_code_is_named() {
    let code = bytes(&[0xd100_0004]);
    assert_eq!(decode(Arch::Gfx942, &code, 0), Err(DecodeError::Truncated { offset: 0 }));
    assert_eq!(decode(Arch::Gfx942, &code, usize::MAX), Err(DecodeError::Truncated { offset: usize::MAX }));
    let error = decode(Arch::Gfx942, &bytes(&[0xffff_ffff, 1]), 0).unwrap_err().to_string();
    assert_eq!(error, "no gfx942 instruction at byte 0x0: words 0xffffffff 0x00000001 (reserved encoding)");
}
