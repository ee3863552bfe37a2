//! The reference and its naive twin.

use super::shape::{Part, largest};
use super::{KvCache, KvQuant, Layout};
use crate::families::attention::naive::at;
use crate::families::row_quant::RowQuant;
use crate::{TensorSet, narrow};
use rayon::prelude::*;
use std::collections::HashMap;

pub(super) fn reference(case: &KvCache, tensors: &mut TensorSet) {
    // Tokens by slot: a page's are neighbours, and pages are written in parallel.
    let mut by_slot: Vec<(u64, usize)> = tensors
        .get("slot_mapping")
        .view::<i64>()
        .iter()
        .enumerate()
        .filter_map(|(token, slot)| Some((u64::try_from(*slot).ok()?, token)))
        .collect();
    by_slot.par_sort_unstable();
    for part in case.parts() {
        write_part(case, &part, &by_slot, tensors);
    }
}

/// Writes one operand into its cache, and its scales.
fn write_part(case: &KvCache, part: &Part, by_slot: &[(u64, usize)], tensors: &mut TensorSet) {
    let mut cache = tensors.take(part.cache);
    let mut scales = (case.quant == KvQuant::PerToken).then(|| tensors.take(part.scale));
    let given = match case.quant {
        KvQuant::PerTensor => 1.0 / tensors.get(part.scale).view::<f32>()[0],
        _ => 1.0,
    };
    let source = tensors.get(part.source).bytes();
    let places = Places::new(case, part);
    let pages = case.pages as usize;
    let page_bytes = cache.spec.bytes() as usize / pages;
    let page_scales = (case.block_size * case.kv_heads) as usize;
    let scale_pages: Vec<Option<&mut [f32]>> = match &mut scales {
        Some(scales) => scales.view_mut::<f32>().chunks_mut(page_scales).map(Some).collect(),
        None => std::iter::repeat_with(|| None).take(pages).collect(),
    };
    cache.bytes_mut().par_chunks_mut(page_bytes).zip(scale_pages).enumerate().for_each_init(
        || (vec![0.0; places.width], vec![0; places.width * places.element_bytes]),
        |(values, codes), (page, (bytes, mut scales))| {
            let first_slot = page as u64 * case.block_size;
            let start = by_slot.partition_point(|(slot, _)| *slot < first_slot);
            let tokens = by_slot[start..].iter().take_while(|(slot, _)| slot - first_slot < case.block_size);
            for (slot, token) in tokens {
                let slot = (slot - first_slot) as usize;
                for head in 0..places.heads {
                    narrow::decode_slice(case.x, source, (token * places.heads + head) * places.width, values);
                    if let Some(scales) = &mut scales {
                        let scale = &mut scales[places.scale(slot, head)];
                        RowQuant::PerToken.encode_row(values, case.kv, codes, std::slice::from_mut(scale));
                    } else {
                        if case.quant == KvQuant::PerTensor {
                            values.iter_mut().for_each(|value| *value *= given);
                        }
                        narrow::encode_slice(case.kv, values, 0, codes);
                    }
                    places.store(codes, slot, head, bytes);
                }
            }
        },
    );
    tensors.put(cache);
    scales.into_iter().for_each(|scales| tensors.put(scales));
}

/// Where elements of one operand stand in a page.
struct Places {
    layout: Layout,
    /// Values stand otherwise than keys in some layouts.
    is_value: bool,
    heads: usize,
    width: usize,
    block: usize,
    chunk: usize,
    element_bytes: usize,
    /// `Layout::Mla`: elements of a token's place, and the first one of this operand.
    row: usize,
    first: usize,
}

impl Places {
    fn new(case: &KvCache, part: &Part) -> Self {
        Self {
            layout: case.layout,
            is_value: part.source == "value",
            heads: case.kv_heads as usize,
            width: (part.width() / case.kv_heads) as usize,
            block: case.block_size as usize,
            chunk: case.chunk() as usize,
            element_bytes: (case.kv.bits() / 8) as usize,
            row: (case.head_dim + case.rope_dim) as usize,
            first: part.first as usize,
        }
    }

    /// Elements of a vector that stand together.
    fn run(&self) -> usize {
        match self.layout {
            Layout::Flash | Layout::Mla => self.width,
            Layout::Aiter | Layout::Shuffled if !self.is_value => self.chunk,
            Layout::Aiter | Layout::Shuffled => 1,
        }
    }

    /// Index of element `d` of a vector in its page.
    fn index(&self, slot: usize, head: usize, d: usize) -> usize {
        let Self { width, block, chunk, .. } = *self;
        match (self.layout, self.is_value) {
            (Layout::Flash, _) => (slot * self.heads + head) * width + d,
            (Layout::Mla, _) => slot * self.row + self.first + d,
            (_, false) => ((head * (width / chunk) + d / chunk) * block + slot) * chunk + d % chunk,
            (Layout::Aiter, true) => (head * width + d) * block + slot,
            (Layout::Shuffled, true) => ((head * (block / chunk) + slot / chunk) * width + d) * chunk + slot % chunk,
        }
    }

    /// Index of a vector's scale in its page.
    fn scale(&self, slot: usize, head: usize) -> usize {
        match self.layout {
            Layout::Flash | Layout::Mla => slot * self.heads + head,
            Layout::Aiter | Layout::Shuffled => head * self.block + slot,
        }
    }

    /// Puts an encoded vector in its place.
    fn store(&self, codes: &[u8], slot: usize, head: usize, page: &mut [u8]) {
        let run = self.run();
        for (piece, codes) in codes.chunks_exact(run * self.element_bytes).enumerate() {
            let first = self.index(slot, head, piece * run) * self.element_bytes;
            page[first..first + codes.len()].copy_from_slice(codes);
        }
    }
}

/// Elements one by one in f64: what a token brings, before it is rounded to the cache's dtype, or what the element was.
pub(super) fn naive(case: &KvCache, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let slots = tensors.get("slot_mapping").view::<i64>();
    let tokens: HashMap<u64, u64> =
        slots.iter().enumerate().filter_map(|(token, slot)| Some((u64::try_from(*slot).ok()?, token as u64))).collect();
    let old = tensors.get(name);
    let is_scale = case.scales().contains(&name);
    indices
        .iter()
        .map(|&index| {
            let place = coordinates(&old.spec.dims, index as u64);
            let vector = if is_scale { scale_vector(case, &place) } else { cache_vector(case, name, &place) };
            let Some(token) = tokens.get(&(vector.page * case.block_size + vector.slot)) else {
                return narrow::get(old.spec.dtype, old.bytes(), index);
            };
            let [keys, values] = case.parts();
            let second = name.starts_with('v') || (case.layout == Layout::Mla && vector.d >= case.head_dim);
            let (part, d) = if second { (&values, vector.d - values.first) } else { (&keys, vector.d) };
            let source = tensors.get(part.source);
            let element = |d| match case.layout {
                Layout::Mla => at(source, &[*token, d]),
                _ => at(source, &[*token, vector.head, d]),
            };
            let own_scale = || {
                let largest_value = (0..case.head_dim).map(|d| element(d).abs()).fold(0.0, f64::max);
                largest_value / f64::from(largest(case.kv))
            };
            match case.quant {
                _ if is_scale => own_scale(),
                KvQuant::None => element(d),
                KvQuant::PerTensor => element(d) / f64::from(tensors.get(part.scale).view::<f32>()[0]),
                KvQuant::PerToken if element(d) == 0.0 => 0.0,
                KvQuant::PerToken => element(d) / own_scale(),
            }
        })
        .collect()
}

/// A place of a cache.
struct Vector {
    page: u64,
    slot: u64,
    head: u64,
    d: u64,
}

fn coordinates(dims: &[u64], mut index: u64) -> Vec<u64> {
    let mut place = vec![0; dims.len()];
    for (entry, dim) in place.iter_mut().zip(dims).rev() {
        *entry = index % dim;
        index /= dim;
    }
    place
}

fn cache_vector(case: &KvCache, name: &str, place: &[u64]) -> Vector {
    let x = case.chunk();
    match (case.layout, name, place) {
        (Layout::Mla, _, &[page, slot, d]) => Vector { page, slot, head: 0, d },
        (Layout::Flash, _, &[page, slot, head, d]) => Vector { page, slot, head, d },
        (Layout::Aiter, "v_cache", &[page, head, d, slot]) => Vector { page, slot, head, d },
        (Layout::Shuffled, "v_cache", &[page, head, chunk, d, part]) => {
            Vector { page, slot: chunk * x + part, head, d }
        }
        (_, _, &[page, head, chunk, slot, part]) => Vector { page, slot, head, d: chunk * x + part },
        // The dims are the case's own, all of which are above.
        _ => Vector { page: 0, slot: 0, head: 0, d: 0 },
    }
}

fn scale_vector(case: &KvCache, place: &[u64]) -> Vector {
    match (case.layout, place) {
        (Layout::Flash | Layout::Mla, &[page, slot, head]) => Vector { page, slot, head, d: 0 },
        (_, &[page, head, slot]) => Vector { page, slot, head, d: 0 },
        _ => Vector { page: 0, slot: 0, head: 0, d: 0 },
    }
}
