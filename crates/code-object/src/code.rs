//! Comparing machine code without disassembling it.
//!
//! Two builds of the same source place their data differently, so that code which reaches it by an offset from the program
//! counter differs in that offset and in nothing else. The compiler writes one sequence for that: `s_getpc_b64` into a
//! register pair, then `s_add_u32` and `s_addc_u32` of a literal to its halves. Where both codes have that sequence at the
//! same place and with the same registers, and both sums name the same symbol, the literals count as equal.

use crate::object::CodeObject;
use crate::relocation::Relocation;
use crate::target::Generation;
use serde::Serialize;

/// How the machine code of two kernels compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeMatch {
    /// Byte for byte the same, padding after the last instruction aside.
    Identical,
    /// The same but for the places where the same symbols were put.
    SameButForAddresses,
    /// Different.
    Different,
    /// The file does not hold the code of one of them.
    Unknown,
}

impl CodeMatch {
    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            CodeMatch::Identical => "identical",
            CodeMatch::SameButForAddresses => "same but for addresses",
            CodeMatch::Different => "different",
            CodeMatch::Unknown => "unknown",
        }
    }
}

/// Code at a virtual address of a code object.
pub(crate) struct Code<'o> {
    pub(crate) places: &'o Places<'o>,
    pub(crate) address: u64,
    pub(crate) bytes: &'o [u8],
}

const S_NOP_0: u32 = 0xbf80_0000;
const S_CODE_END: u32 = 0xbf9f_0000;
/// `s_add_u32` and `s_addc_u32` (SOP2 opcodes 0 and 4) with a literal as second source, without registers.
const S_ADD_U32_LITERAL: u32 = 0x8000_ff00;
const S_ADDC_U32_LITERAL: u32 = 0x8200_ff00;
/// How many instructions after `s_getpc_b64` its sums are looked for.
const SEQUENCE_WORDS: usize = 8;

/// Compares two pieces of code for the same generation.
pub(crate) fn compare(a: &Code<'_>, b: &Code<'_>, generation: Generation) -> CodeMatch {
    let (bytes_a, bytes_b) = (without_padding(a.bytes), without_padding(b.bytes));
    if bytes_a == bytes_b {
        return CodeMatch::Identical;
    }
    if bytes_a.len() != bytes_b.len() {
        return CodeMatch::Different;
    }
    if same_but_for_addresses(a, bytes_a, b, bytes_b, generation) {
        CodeMatch::SameButForAddresses
    } else {
        CodeMatch::Different
    }
}

/// Cuts what linkers and assemblers put after the last instruction.
fn without_padding(bytes: &[u8]) -> &[u8] {
    let mut end = bytes.len() / 4 * 4;
    while let Some([.., w, x, y, z]) = bytes.get(..end) {
        match u32::from_le_bytes([*w, *x, *y, *z]) {
            0 | S_NOP_0 | S_CODE_END => end -= 4,
            _ => break,
        }
    }
    bytes.get(..end).unwrap_or(bytes)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let chunks = bytes.chunks_exact(4);
    chunks.map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap_or_default())).collect()
}

fn same_but_for_addresses(a: &Code<'_>, bytes_a: &[u8], b: &Code<'_>, bytes_b: &[u8], generation: Generation) -> bool {
    let (words_a, words_b) = (words(bytes_a), words(bytes_b));
    let mut explained = vec![false; words_a.len()];
    for at in 0..words_a.len() {
        let sums = pc_relative(&words_a, at, generation).zip(pc_relative(&words_b, at, generation));
        let Some((sum_a, sum_b)) = sums.filter(|(sum_a, sum_b)| sum_a.places == sum_b.places) else { continue };
        let after_getpc = at as u64 * 4 + 4;
        let target_a = a.address.wrapping_add(after_getpc).wrapping_add(sum_a.offset);
        let target_b = b.address.wrapping_add(after_getpc).wrapping_add(sum_b.offset);
        let place_a = a.places.of(target_a);
        if place_a.is_some() && place_a == b.places.of(target_b) {
            for place in sum_a.places {
                if let Some(explained) = explained.get_mut(place) {
                    *explained = true;
                }
            }
        }
    }
    words_a.iter().zip(&words_b).zip(&explained).all(|((a, b), &explained)| a == b || explained)
}

/// A sum of the program counter and a 64-bit literal.
struct PcRelative {
    /// Word indices of the literal's low and high halves.
    places: [usize; 2],
    offset: u64,
}

/// The sequence that begins with an `s_getpc_b64` at word `at`, if one does.
fn pc_relative(words: &[u32], at: usize, generation: Generation) -> Option<PcRelative> {
    let opcode = match generation {
        Generation::Gfx6To8 | Generation::Gfx9 | Generation::Gfx90a | Generation::Gfx94x | Generation::Gfx950 => 0x1c,
        Generation::Gfx101 | Generation::Gfx103 => 0x1f,
        _ => 0x47,
    };
    let getpc = *words.get(at)?;
    let register = (getpc >> 16) & 0x7f;
    if getpc & 0xff80_ff00 != 0xbe80_0000 | opcode << 8 {
        return None;
    }
    // SOP2: destination in bits 22:16, first source in 7:0; both are the register of the pair's half.
    let half = |base: u32, register: u32| base | register << 16 | register;
    let (low_add, high_add) = (half(S_ADD_U32_LITERAL, register), half(S_ADDC_U32_LITERAL, register + 1));
    let window = words.get(at + 1..(at + 1 + SEQUENCE_WORDS).min(words.len()))?;
    let low = at + 2 + window.iter().position(|&word| word == low_add)?;
    let high = at + 2 + window.iter().position(|&word| word == high_add)?;
    let offset = u64::from(*words.get(high)?) << 32 | u64::from(*words.get(low)?);
    Some(PcRelative { places: [low, high], offset })
}

/// What is at which address of a code object, sorted.
pub(crate) struct Places<'o> {
    /// Defined, named symbols: first address, end, name.
    symbols: Vec<(u64, u64, &'o str)>,
    relocations: Vec<&'o Relocation>,
    object: &'o CodeObject,
}

/// A place that two code objects can have in common, wherever each put it.
#[derive(Debug, PartialEq, Eq)]
enum Place<'o> {
    /// So many bytes into a symbol.
    Symbol(&'o str, u64),
    /// A word that the loader fills with the address of a symbol and an addend (global offset table).
    SlotOf(&'o str, u64),
}

impl<'o> Places<'o> {
    pub(crate) fn new(object: &'o CodeObject) -> Self {
        let named = object.symbols().iter().filter(|symbol| symbol.is_defined() && !symbol.name.is_empty());
        let mut symbols: Vec<(u64, u64, &str)> = named
            .map(|symbol| (symbol.address, symbol.address.saturating_add(symbol.size.max(1)), symbol.name.as_str()))
            .collect();
        symbols.sort_unstable();
        let mut relocations: Vec<&Relocation> = object.relocations().iter().collect();
        relocations.sort_unstable_by_key(|relocation| relocation.address);
        Self { symbols, relocations, object }
    }

    fn of(&self, address: u64) -> Option<Place<'o>> {
        if let Some((name, inside)) = self.symbol(address) {
            return Some(Place::Symbol(name, inside));
        }
        let found = self.relocations.binary_search_by_key(&address, |relocation| relocation.address).ok()?;
        let relocation = self.relocations.get(found)?;
        if relocation.symbol == 0 {
            return self.symbol(relocation.addend as u64).map(|(name, inside)| Place::SlotOf(name, inside));
        }
        let symbol = self.object.symbols().get(relocation.symbol as usize)?;
        Some(Place::SlotOf(&symbol.name, relocation.addend as u64))
    }

    /// The symbol that covers an address, and how far into it the address is.
    fn symbol(&self, address: u64) -> Option<(&'o str, u64)> {
        let after = self.symbols.partition_point(|&(start, ..)| start <= address);
        let &(start, end, name) = self.symbols.get(after.checked_sub(1)?)?;
        (address < end).then(|| (name, address - start))
    }
}
