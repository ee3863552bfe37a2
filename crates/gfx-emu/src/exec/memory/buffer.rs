//! MUBUF and MTBUF: memory through a buffer resource, with its range check and swizzle.

use super::flat::{RETURNS, to_lds};
use super::format::{self, Format};
use super::kind::{Extend, Kind, kind};
use super::lanes::{self, Space};
use super::{scalar, scalar32, step, vector};
use crate::exec::levels::{leveled, pick};
use crate::exec::{Compiler, Env, Flow, Handler, Src, Step, Unsupported, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::{Inst, Op};

// `aux`: 0 bytes of a lane (or components), 1 the extension or half, 2 whether data is 16 bits a component, 4 returns.
const BYTES: usize = 0;
const EXTEND: usize = 1;
const HALF: usize = 2;

leveled!(loads = loads_body + level);
leveled!(stores = stores_body + level);

/// Makes a step of a MUBUF or MTBUF instruction.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    if matches!(inst.op, Op::BufferWbl2 | Op::BufferInv | Op::BufferInvl2 | Op::BufferWbinvl1 | Op::BufferWbinvl1Vol) {
        // One flat memory: there is nothing to write back or to forget.
        return Ok(step(inst, super::ds_cross::nothing));
    }
    let formatted = format::components(inst.op);
    let mut step = match (kind(inst.op), formatted) {
        (Some(Kind::Load(bytes, extend)), _) => {
            let run: Handler = if inst.mods.lds { to_lds_handler } else { pick!(c, loads) };
            let mut step = step(inst, run);
            (step.aux[BYTES], step.aux[EXTEND]) = (bytes, extend as u8);
            if !inst.mods.lds {
                step.dst[0] = c.register(inst.dst[0], u16::from(bytes.div_ceil(4)))?;
            }
            step
        }
        (Some(Kind::Store(bytes, high)), _) => {
            let mut step = step(inst, pick!(c, stores));
            (step.aux[BYTES], step.aux[EXTEND]) = (bytes, u8::from(high));
            step.src[1] = vector(c, inst.src[1], u16::from(bytes.div_ceil(4)))?;
            step
        }
        (Some(Kind::Atomic(atomic)), _) => {
            let mut step = step(inst, atomics);
            step.aux[BYTES] = atomic.bytes();
            step.src[1] = vector(c, inst.src[1], atomic.data_registers())?;
            if inst.mods.sc0 {
                step.aux[RETURNS] = 1;
                step.dst[0] = c.register(inst.src[1], u16::from(atomic.bytes() / 4))?;
            }
            step
        }
        (_, Some(components)) => {
            let run = match (components.store, inst.mods.lds) {
                (false, true) if components.count == 1 => format_to_lds,
                (_, true) => return Err(Unsupported::NoHandler),
                (true, _) => format_store as Handler,
                (false, _) => format_load,
            };
            let mut step = step(inst, run);
            step.aux[BYTES] = components.count;
            step.aux[HALF] = components.half as u8;
            let registers = if components.half == format::Half::None {
                u16::from(components.count)
            } else {
                u16::from(components.count.div_ceil(2))
            };
            if components.store {
                step.src[1] = vector(c, inst.src[1], registers)?;
            } else if !inst.mods.lds {
                step.dst[0] = c.register(inst.dst[0], registers)?;
            }
            step
        }
        _ => return Err(Unsupported::NoHandler),
    };
    let address_registers = match (inst.mods.idxen, inst.mods.offen) {
        (true, true) => 2,
        (false, false) => 0,
        _ => 1,
    };
    if address_registers > 0 {
        step.src[0] = vector(c, inst.src[0], address_registers)?;
    }
    step.src[2] = scalar(inst.src[2])?;
    step.src[3] = scalar(inst.src[3])?;
    let Src::Scalar(code) = step.src[2] else { return Err(Unsupported::NoHandler) };
    if code > 124 {
        return Err(Unsupported::Register(format!("s{code}")));
    }
    Ok(step)
}

/// A buffer resource (V#).
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    base: u64,
    stride: u64,
    records: u64,
    swizzle: bool,
    index_stride: u64,
    add_thread: bool,
    /// Component selects, 3 bits each.
    select: u32,
    format: Format,
}

impl Resource {
    /// `typed` says that the instruction has a format, the data format then being no part of the stride.
    fn read(words: [u32; 4], typed: bool) -> Self {
        let [w0, w1, w2, w3] = words;
        let add_thread = w3 >> 23 & 1 == 1;
        let stride = u64::from(w1 >> 16 & 0x3fff);
        let data_format = w3 >> 15 & 15;
        Self {
            base: u64::from(w0) | u64::from(w1 & 0xffff) << 32,
            stride: if add_thread && !typed { stride | u64::from(data_format) << 14 } else { stride },
            records: w2.into(),
            swizzle: w1 >> 31 == 1,
            index_stride: 8 << (w3 >> 21 & 3),
            add_thread,
            select: w3 & 0xfff,
            format: Format { data: data_format as u8, number: (w3 >> 12 & 7) as u8 },
        }
    }
}

/// Where the lanes' bytes are: addresses, and which lanes the range check lets through.
struct Lanes {
    at: [u64; 64],
    inside: u64,
    resource: Resource,
    /// What offsets are relative to: the resource's base and the scalar offset, which the range check leaves out.
    base: u64,
    /// The range check is in bytes, each dword by itself.
    raw: bool,
}

/// Addresses of `bytes` for each lane; `typed` for instructions with a format. Dword accesses of several dwords are checked
/// dword by dword by the callers.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn addresses(step: &Step, wave: &mut Wave, bytes: u64, typed: bool) -> Lanes {
    let Src::Scalar(code) = step.src[2] else {
        return Lanes { at: [0; 64], inside: 0, resource: Resource::read([0; 4], typed), base: 0, raw: false };
    };
    let words = std::array::from_fn(|word| wave.s32(code + word as u8));
    let resource = Resource::read(words, typed);
    let mods = &step.inst.mods;
    let immediate = step.imm as u64 & 0xfff;
    let scalar_offset = u64::from(scalar32(step.src[3], wave));
    let zero = [0_u32; 64];
    let (index, offset) = match (step.src[0], mods.idxen, mods.offen) {
        // SAFETY: the caller's.
        (Src::Vgpr(first), true, true) => unsafe {
            let first = wave.registers(first);
            (&(*first).0, &(*first.add(1)).0)
        },
        // SAFETY: the caller's.
        (Src::Vgpr(first), true, false) => unsafe { (&(*wave.registers(first)).0, &zero) },
        // SAFETY: the caller's.
        (Src::Vgpr(first), false, true) => unsafe { (&zero, &(*wave.registers(first)).0) },
        _ => (&zero, &zero),
    };
    let raw = (resource.stride == 0 || !mods.idxen) && !resource.swizzle && !resource.add_thread;
    let base = resource.base.wrapping_add(scalar_offset);
    let mut at = [0; 64];
    let mut inside = 0_u64;
    if raw {
        // Linear and without an index that counts: what compilers emit.
        for lane in 0..64 {
            let offset = immediate + u64::from(offset[lane]);
            at[lane] = base.wrapping_add(offset);
            inside |= u64::from(offset + bytes <= resource.records) << lane;
        }
        return Lanes { at, inside, resource, base, raw };
    }
    for lane in 0..64 {
        let index = u64::from(index[lane]) + if resource.add_thread { lane as u64 } else { 0 };
        let offset = immediate + u64::from(offset[lane]);
        let linear =
            if resource.swizzle { swizzled(&resource, index, offset) } else { resource.stride * index + offset };
        let within = if resource.add_thread && !mods.idxen {
            // Scratch, which the hardware does not check; the memory map still does.
            true
        } else if mods.idxen && resource.stride != 0 {
            index < resource.records
        } else {
            // All ones are no limit.
            linear + bytes <= resource.records || resource.records == u64::from(u32::MAX)
        };
        at[lane] = base.wrapping_add(linear);
        inside |= u64::from(within) << lane;
    }
    Lanes { at, inside, resource, base, raw }
}

/// Byte offset in a swizzled buffer of 4-byte elements.
fn swizzled(resource: &Resource, index: u64, offset: u64) -> u64 {
    let (stride, wide) = (resource.stride, resource.index_stride);
    (index / wide * stride + offset / 4 * 4) * wide + index % wide * 4 + offset % 4
}

/// The address of dword `k` of a lane: elements of a swizzled buffer do not lie side by side.
#[inline(always)]
fn dword_address(lanes: &Lanes, lane: usize, k: u64) -> u64 {
    let step = if lanes.resource.swizzle { 4 * lanes.resource.index_stride } else { 4 };
    lanes.at[lane].wrapping_add(k * step)
}

#[inline(always)]
unsafe fn loads_body<const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes), false) };
    let whole = exec == u64::MAX && lanes.inside == u64::MAX && !lanes.resource.swizzle && bytes >= 4;
    if whole && lanes::is_linear(&lanes.at, bytes.into()) {
        let first = lanes.at[0];
        if let Ok(host) = lanes::locate(env, Space::Global, Access::Read, first, bytes * 64) {
            // SAFETY: `locate` vouches for the bytes of all lanes.
            unsafe {
                let to = wave.registers(step.dst[0]);
                match bytes {
                    4 => lanes::load_rows::<1, L>(host, to),
                    8 => lanes::load_rows::<2, L>(host, to),
                    12 => lanes::load_rows::<3, L>(host, to),
                    _ => lanes::load_rows::<4, L>(host, to),
                }
            }
            env.traffic.vmem_linear(Access::Read, first, bytes);
            return Flow::Next;
        }
    }
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let to = unsafe { wave.registers(step.dst[0]) };
        if bytes < 4 {
            let inside = lanes.inside >> lane & 1 == 1;
            let word =
                if inside { lanes::read(env, wave, lane, (Space::Global, lanes.at[lane]), bytes)?[0] } else { 0 };
            // SAFETY: as above.
            unsafe { (*to).0[lane] = extend.apply(word) };
            return Ok(());
        }
        for k in 0..u64::from(bytes / 4) {
            let word = dword(env, wave, &lanes, lane, k)?;
            // SAFETY: as above.
            unsafe { (*to.add(k as usize)).0[lane] = word };
        }
        Ok(())
    });
    if outcome.is_ok() {
        env.traffic.vmem(Access::Read, exec & lanes.inside, &lanes.at, bytes);
    }
    lanes::finish(env, outcome)
}

/// A raw buffer checks each dword by itself: whether dword `k` of a lane is inside.
fn dword_inside(lanes: &Lanes, lane: usize, k: u64) -> bool {
    let offset = lanes.at[lane].wrapping_sub(lanes.base);
    lanes.inside >> lane & 1 == 1 || lanes.raw && offset + k * 4 + 4 <= lanes.resource.records
}

/// Dword `k` of a lane, 0 outside the resource.
fn dword(env: &mut Env<'_>, wave: &Wave, lanes: &Lanes, lane: usize, k: u64) -> Result<u32, FaultKind> {
    if !dword_inside(lanes, lane, k) {
        return Ok(0);
    }
    lanes::read(env, wave, lane, (Space::Global, dword_address(lanes, lane, k)), 4).map(|words| words[0])
}

#[inline(always)]
unsafe fn stores_body<const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, high) = (wave.exec(), u32::from(step.aux[BYTES]), step.aux[EXTEND] == 1);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes), false) };
    let whole = exec == u64::MAX && lanes.inside == u64::MAX && !lanes.resource.swizzle && bytes >= 4;
    if whole && lanes::is_linear(&lanes.at, bytes.into()) {
        let first = lanes.at[0];
        if let Ok(host) = lanes::locate(env, Space::Global, Access::Write, first, bytes * 64) {
            // SAFETY: `locate` vouches for the bytes of all lanes.
            unsafe {
                let from = wave.registers(data);
                match bytes {
                    4 => lanes::store_rows::<1, L>(host, from),
                    8 => lanes::store_rows::<2, L>(host, from),
                    12 => lanes::store_rows::<3, L>(host, from),
                    _ => lanes::store_rows::<4, L>(host, from),
                }
            }
            env.traffic.vmem_linear(Access::Write, first, bytes);
            return Flow::Next;
        }
    }
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let from = unsafe { wave.registers(data) };
        let whole = lanes.inside >> lane & 1 == 1;
        if bytes < 4 {
            // SAFETY: as above.
            let word = unsafe { (*from).0[lane] };
            let words = [if high { word >> 16 } else { word }, 0, 0, 0];
            return if whole {
                lanes::write(env, wave, lane, (Space::Global, lanes.at[lane]), &words, bytes)
            } else {
                Ok(())
            };
        }
        for k in 0..u64::from(bytes / 4) {
            if dword_inside(&lanes, lane, k) {
                // SAFETY: as above.
                let word = unsafe { (*from.add(k as usize)).0[lane] };
                let at = dword_address(&lanes, lane, k);
                lanes::write(env, wave, lane, (Space::Global, at), &[word, 0, 0, 0], 4)?;
            }
        }
        Ok(())
    });
    if outcome.is_ok() {
        env.traffic.vmem(Access::Write, exec & lanes.inside, &lanes.at, bytes);
    }
    lanes::finish(env, outcome)
}

unsafe fn to_lds_handler(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes), false) };
    let base = (wave.m0() & 0x3fffc).wrapping_add(step.imm as u32 & 0xfff);
    let flow = to_lds(env, wave, exec, base, bytes, |env, lane| {
        let mut words = [0; 4];
        if bytes < 4 {
            if lanes.inside >> lane & 1 == 1 {
                let raw = lanes::read(env, wave, lane, (Space::Global, lanes.at[lane]), bytes)?;
                words[0] = extend.apply(raw[0]);
            }
            return Ok(words);
        }
        for (k, word) in words.iter_mut().enumerate().take(bytes as usize / 4) {
            *word = dword(env, wave, &lanes, lane, k as u64)?;
        }
        Ok(words)
    });
    if flow == Flow::Next {
        env.traffic.vmem(Access::Read, exec & lanes.inside, &lanes.at, bytes);
    }
    flow
}

unsafe fn atomics(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), u32::from(step.aux[BYTES]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes), false) };
    let place = |lane: usize| (lanes.inside >> lane & 1 == 1).then(|| (Space::Global, lanes.at[lane]));
    // SAFETY: as above.
    let outcome = unsafe { super::atomic::run(step, wave, env, exec, place) };
    if outcome.is_ok() {
        env.traffic.vmem(Access::Atomic, exec & lanes.inside, &lanes.at, bytes);
    }
    lanes::finish(env, outcome)
}

/// The format of a typed access: the instruction's (MTBUF) or the resource's (MUBUF).
fn format_of(step: &Step, resource: &Resource) -> Format {
    if step.inst.enc == crate::isa::Encoding::Mtbuf {
        let bits = step.inst.mods.format;
        Format { data: bits & 15, number: bits >> 4 & 7 }
    } else {
        resource.format
    }
}

/// Format, bytes of an element and lanes of a typed access. A resource without a format is unbound: no lane is inside.
///
/// # Safety
/// The step's registers exist.
unsafe fn typed(step: &Step, wave: &mut Wave) -> Result<(Format, u32, Lanes), FaultKind> {
    // SAFETY: the caller's.
    let mut lanes = unsafe { addresses(step, wave, 1, true) };
    let format = format_of(step, &lanes.resource);
    if format.data == 0 {
        lanes.inside = 0;
        return Ok((format, 4, lanes));
    }
    let size = format.bytes().ok_or_else(|| format.unknown())?;
    // SAFETY: the caller's.
    Ok((format, size, unsafe { addresses(step, wave, size.into(), true) }))
}

/// The components of a lane after the resource's selects; zeros outside.
fn components(
    step: &Step,
    env: &mut Env<'_>,
    wave: &Wave,
    lane: usize,
    (format, size, lanes): &(Format, u32, Lanes),
) -> Result<[u32; 4], FaultKind> {
    let mut values = [0_u32; 4];
    if lanes.inside >> lane & 1 == 1 {
        let raw = lanes::read(env, wave, lane, (Space::Global, lanes.at[lane]), *size)?;
        let found = format.unpack(raw);
        let selects = step.inst.enc != crate::isa::Encoding::Mtbuf;
        for (index, value) in values.iter_mut().enumerate() {
            let select = if selects { lanes.resource.select >> (index * 3) & 7 } else { 4 + index as u32 };
            *value = match select {
                1 => format.one(),
                4..=7 => found[select as usize - 4],
                _ => 0,
            };
        }
    }
    Ok(values)
}

/// The first component goes to LDS.
unsafe fn format_to_lds(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    // SAFETY: registers were checked when the step was made.
    let access = match unsafe { typed(step, wave) } {
        Ok(access) => access,
        Err(kind) => return env.raise(kind, None),
    };
    let base = (wave.m0() & 0x3fffc).wrapping_add(step.imm as u32 & 0xfff);
    let flow = to_lds(env, wave, exec, base, 4, |env, lane| components(step, env, wave, lane, &access));
    if flow == Flow::Next {
        env.traffic.vmem(Access::Read, exec & access.2.inside, &access.2.at, access.1);
    }
    flow
}

unsafe fn format_load(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, count, half) = (wave.exec(), usize::from(step.aux[BYTES]), step.aux[HALF]);
    // SAFETY: registers were checked when the step was made.
    let access = match unsafe { typed(step, wave) } {
        Ok(access) => access,
        Err(kind) => return env.raise(kind, None),
    };
    let outcome = lanes::for_lanes(exec, |lane| {
        let values = components(step, env, wave, lane, &access)?;
        // SAFETY: as above.
        let to = unsafe { wave.registers(step.dst[0]) };
        for (index, value) in values.iter().enumerate().take(count) {
            // SAFETY: as above.
            unsafe { format::place(to, lane, index, *value, access.0, half) };
        }
        Ok(())
    });
    if outcome.is_ok() {
        env.traffic.vmem(Access::Read, exec & access.2.inside, &access.2.at, access.1);
    }
    lanes::finish(env, outcome)
}

unsafe fn format_store(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, count, half) = (wave.exec(), usize::from(step.aux[BYTES]), step.aux[HALF]);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made.
    let (format, size, lanes) = match unsafe { typed(step, wave) } {
        Ok(access) => access,
        Err(kind) => return env.raise(kind, None),
    };
    let outcome = lanes::for_lanes(exec & lanes.inside, |lane| {
        // SAFETY: as above.
        let from = unsafe { wave.registers(data) };
        let mut values = [0_u32; 4];
        for (index, value) in values.iter_mut().enumerate().take(count) {
            // SAFETY: as above.
            *value = unsafe { format::take(from, lane, index, format, half) };
        }
        lanes::write(env, wave, lane, (Space::Global, lanes.at[lane]), &format.pack(values), size)
    });
    if outcome.is_ok() {
        env.traffic.vmem(Access::Write, exec & lanes.inside, &lanes.at, size);
    }
    lanes::finish(env, outcome)
}
