//! MUBUF and MTBUF: memory through a buffer resource, with its range check and swizzle.

use super::flat::{RETURNS, to_lds};
use super::format::{self, Format};
use super::kind::{Extend, Kind, kind};
use super::lanes::{self, Space};
use super::{leveled, number, pick, registers, scalar, scalar32, step, vector};
use crate::exec::{Compiler, Env, Flow, Handler, Src, Step, Unsupported, Wave};
use crate::fault::Access;
use crate::isa::{Inst, Op};

// `aux`: 0 bytes of a lane (or components), 1 the extension or half, 2 whether data is 16 bits a component, 4 returns.
const BYTES: usize = 0;
const EXTEND: usize = 1;
const HALF: usize = 2;

leveled!(loads = loads_body);
leveled!(stores = stores_body);

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
                step.dst[0] = number(c, inst.dst[0], u16::from(bytes.div_ceil(4)))?;
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
                step.dst[0] = number(c, inst.src[1], u16::from(atomic.bytes() / 4))?;
            }
            step
        }
        (_, Some(components)) if !inst.mods.lds => {
            let mut step = step(inst, if components.store { format_store } else { format_load });
            step.aux[BYTES] = components.count;
            step.aux[HALF] = components.half as u8;
            let registers = if components.half == format::Half::None {
                u16::from(components.count)
            } else {
                u16::from(components.count.div_ceil(2))
            };
            if components.store {
                step.src[1] = vector(c, inst.src[1], registers)?;
            } else {
                step.dst[0] = number(c, inst.dst[0], registers)?;
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
    fn read(words: [u32; 4]) -> Self {
        let [w0, w1, w2, w3] = words;
        let add_thread = w3 >> 23 & 1 == 1;
        let stride = u64::from(w1 >> 16 & 0x3fff);
        let data_format = w3 >> 15 & 15;
        Self {
            base: u64::from(w0) | u64::from(w1 & 0xffff) << 32,
            stride: if add_thread { stride | u64::from(data_format) << 14 } else { stride },
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
}

/// Addresses of `bytes` for each lane. Dword accesses of several dwords are checked dword by dword by the callers.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn addresses(step: &Step, wave: &mut Wave, bytes: u64) -> Lanes {
    let Src::Scalar(code) = step.src[2] else {
        return Lanes { at: [0; 64], inside: 0, resource: Resource::read([0; 4]) };
    };
    let words = std::array::from_fn(|word| wave.s32(code + word as u8));
    let resource = Resource::read(words);
    let mods = &step.inst.mods;
    let immediate = step.imm as u64 & 0xfff;
    let scalar_offset = u64::from(scalar32(step.src[3], wave));
    let zero = [0_u32; 64];
    let (index, offset) = match (step.src[0], mods.idxen, mods.offen) {
        // SAFETY: the caller's.
        (Src::Vgpr(first), true, true) => unsafe {
            let first = registers(wave, first);
            (&(*first).0, &(*first.add(1)).0)
        },
        // SAFETY: the caller's.
        (Src::Vgpr(first), true, false) => unsafe { (&(*registers(wave, first)).0, &zero) },
        // SAFETY: the caller's.
        (Src::Vgpr(first), false, true) => unsafe { (&zero, &(*registers(wave, first)).0) },
        _ => (&zero, &zero),
    };
    let raw = resource.stride == 0 || !(mods.idxen || resource.swizzle || resource.add_thread);
    let mut at = [0; 64];
    let mut inside = 0_u64;
    if raw && !resource.swizzle && !resource.add_thread {
        // Linear without an index: what compilers emit.
        let base = resource.base.wrapping_add(scalar_offset);
        for lane in 0..64 {
            let offset = immediate + u64::from(offset[lane]);
            at[lane] = base.wrapping_add(offset);
            inside |= u64::from(offset + bytes <= resource.records) << lane;
        }
        return Lanes { at, inside, resource };
    }
    for lane in 0..64 {
        let index = u64::from(index[lane]) + if resource.add_thread { lane as u64 } else { 0 };
        let offset = immediate + u64::from(offset[lane]);
        let within = if raw {
            offset + bytes <= resource.records
        } else if resource.stride != 0 && !resource.swizzle {
            index < resource.records
        } else {
            // Scratch resources say their whole size in bytes.
            swizzled(&resource, index, offset) + bytes <= resource.records.max(1)
                || resource.records == u64::from(u32::MAX)
        };
        let linear =
            if resource.swizzle { swizzled(&resource, index, offset) } else { resource.stride * index + offset };
        at[lane] = resource.base.wrapping_add(scalar_offset).wrapping_add(linear);
        inside |= u64::from(within) << lane;
    }
    Lanes { at, inside, resource }
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
unsafe fn loads_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes)) };
    let whole = exec == u64::MAX && lanes.inside == u64::MAX && !lanes.resource.swizzle && bytes >= 4;
    if whole && lanes::is_linear(&lanes.at, bytes.into()) {
        let first = lanes.at[0];
        if let Ok(host) = lanes::locate(env, Space::Global, Access::Read, first, bytes * 64) {
            // SAFETY: `locate` vouches for the bytes of all lanes.
            unsafe {
                let to = registers(wave, step.dst[0]);
                match bytes {
                    4 => lanes::load_rows::<1>(host, to),
                    8 => lanes::load_rows::<2>(host, to),
                    12 => lanes::load_rows::<3>(host, to),
                    _ => lanes::load_rows::<4>(host, to),
                }
            }
            env.traffic.vmem_linear(Access::Read, first, bytes);
            return Flow::Next;
        }
    }
    let records = lanes.resource.records;
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let to = unsafe { registers(wave, step.dst[0]) };
        if bytes < 4 {
            let inside = lanes.inside >> lane & 1 == 1;
            let word =
                if inside { lanes::read(env, wave, lane, (Space::Global, lanes.at[lane]), bytes)?[0] } else { 0 };
            // SAFETY: as above.
            unsafe { (*to).0[lane] = extend.apply(word) };
            return Ok(());
        }
        for k in 0..u64::from(bytes / 4) {
            let inside = lanes.inside >> lane & 1 == 1 || dword_inside(&lanes, step, lane, k, records);
            let at = dword_address(&lanes, lane, k);
            let word = if inside { lanes::read(env, wave, lane, (Space::Global, at), 4)?[0] } else { 0 };
            // SAFETY: as above.
            unsafe { (*to.add(k as usize)).0[lane] = word };
        }
        Ok(())
    });
    env.traffic.vmem(Access::Read, exec & lanes.inside, &lanes.at, bytes);
    lanes::finish(env, outcome)
}

/// A raw buffer checks each dword by itself: whether dword `k` of a lane that is not wholly inside is.
fn dword_inside(lanes: &Lanes, step: &Step, lane: usize, k: u64, records: u64) -> bool {
    let raw = !step.inst.mods.idxen && !lanes.resource.swizzle && !lanes.resource.add_thread;
    let base = lanes.resource.base;
    // The scalar offset is not part of the check; with one, partial lanes count as outside.
    let offset = lanes.at[lane].wrapping_sub(base);
    let scalar = matches!(step.src[3], Src::Const(0) | Src::None);
    raw && scalar && offset.checked_add(k * 4 + 4).is_some_and(|end| end <= records)
}

#[inline(always)]
unsafe fn stores_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, high) = (wave.exec(), u32::from(step.aux[BYTES]), step.aux[EXTEND] == 1);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes)) };
    let whole = exec == u64::MAX && lanes.inside == u64::MAX && !lanes.resource.swizzle && bytes >= 4;
    if whole && lanes::is_linear(&lanes.at, bytes.into()) {
        let first = lanes.at[0];
        if let Ok(host) = lanes::locate(env, Space::Global, Access::Write, first, bytes * 64) {
            // SAFETY: `locate` vouches for the bytes of all lanes.
            unsafe {
                let from = registers(wave, data);
                match bytes {
                    4 => lanes::store_rows::<1>(host, from),
                    8 => lanes::store_rows::<2>(host, from),
                    12 => lanes::store_rows::<3>(host, from),
                    _ => lanes::store_rows::<4>(host, from),
                }
            }
            env.traffic.vmem_linear(Access::Write, first, bytes);
            return Flow::Next;
        }
    }
    let records = lanes.resource.records;
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let from = unsafe { registers(wave, data) };
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
            if whole || dword_inside(&lanes, step, lane, k, records) {
                // SAFETY: as above.
                let word = unsafe { (*from.add(k as usize)).0[lane] };
                let at = dword_address(&lanes, lane, k);
                lanes::write(env, wave, lane, (Space::Global, at), &[word, 0, 0, 0], 4)?;
            }
        }
        Ok(())
    });
    env.traffic.vmem(Access::Write, exec & lanes.inside, &lanes.at, bytes);
    lanes::finish(env, outcome)
}

unsafe fn to_lds_handler(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes)) };
    let base = (wave.m0() & 0x3fffc).wrapping_add(step.imm as u32 & 0xfff);
    let outcome = to_lds(env, wave, exec, base, bytes, extend, |lane| {
        (lanes.inside >> lane & 1 == 1).then(|| (Space::Global, lanes.at[lane]))
    });
    env.traffic.vmem(Access::Read, exec & lanes.inside, &lanes.at, bytes);
    lanes::finish(env, outcome)
}

unsafe fn atomics(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), u32::from(step.aux[BYTES]));
    // SAFETY: registers were checked when the step was made.
    let lanes = unsafe { addresses(step, wave, u64::from(bytes)) };
    let place = |lane: usize| (lanes.inside >> lane & 1 == 1).then(|| (Space::Global, lanes.at[lane]));
    // SAFETY: as above.
    let outcome = unsafe { super::atomic::run(step, wave, env, exec, place) };
    env.traffic.vmem(Access::Atomic, exec & lanes.inside, &lanes.at, bytes);
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

unsafe fn format_load(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, count, half) = (wave.exec(), usize::from(step.aux[BYTES]), step.aux[HALF]);
    // SAFETY: registers were checked when the step was made.
    let probe = unsafe { addresses(step, wave, 1) };
    let format = format_of(step, &probe.resource);
    let Some(size) = format.bytes() else { return env.raise(format.unknown(), None) };
    // SAFETY: as above.
    let lanes = unsafe { addresses(step, wave, size.into()) };
    let typed = step.inst.enc == crate::isa::Encoding::Mtbuf;
    let outcome = lanes::for_lanes(exec, |lane| {
        let mut values = [0_u32; 4];
        if lanes.inside >> lane & 1 == 1 {
            let raw = lanes::read(env, wave, lane, (Space::Global, lanes.at[lane]), size)?;
            let components = format.unpack(raw);
            for (index, value) in values.iter_mut().enumerate() {
                let select = if typed { 4 + index as u32 } else { lanes.resource.select >> (index * 3) & 7 };
                *value = match select {
                    1 => format.one(),
                    4..=7 => components[select as usize - 4],
                    _ => 0,
                };
            }
        }
        // SAFETY: as above.
        let to = unsafe { registers(wave, step.dst[0]) };
        for (index, value) in values.iter().enumerate().take(count) {
            // SAFETY: as above.
            unsafe { format::place(to, lane, index, *value, format, half) };
        }
        Ok(())
    });
    env.traffic.vmem(Access::Read, exec & lanes.inside, &lanes.at, size);
    lanes::finish(env, outcome)
}

unsafe fn format_store(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, count, half) = (wave.exec(), usize::from(step.aux[BYTES]), step.aux[HALF]);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made.
    let probe = unsafe { addresses(step, wave, 1) };
    let format = format_of(step, &probe.resource);
    let Some(size) = format.bytes() else { return env.raise(format.unknown(), None) };
    // SAFETY: as above.
    let lanes = unsafe { addresses(step, wave, size.into()) };
    let outcome = lanes::for_lanes(exec & lanes.inside, |lane| {
        // SAFETY: as above.
        let from = unsafe { registers(wave, data) };
        let mut values = [0_u32; 4];
        for (index, value) in values.iter_mut().enumerate().take(count) {
            // SAFETY: as above.
            *value = unsafe { format::take(from, lane, index, format, half) };
        }
        lanes::write(env, wave, lane, (Space::Global, lanes.at[lane]), &format.pack(values), size)
    });
    env.traffic.vmem(Access::Write, exec & lanes.inside, &lanes.at, size);
    lanes::finish(env, outcome)
}
