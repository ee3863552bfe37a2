//! The fast form: experts with their routed rows, in blocks of output columns, parallel over these blocks.
//!
//! A block of weights is decoded once and multiplied with every row of its expert. Few rows are multiplied as dot products
//! (the decode then reads weights at memory speed), more as register tiles over transposed rows.

use super::routing::Sorted;
use super::shape::{Activation, MoeGemm, Product, Quant, Stage};
use super::weights::{INNER, Weights};
use crate::dtype::Dtype;
use crate::narrow;
use crate::simd::{DotRows, Left, Matmul, PAD, padded, scale_blocks};
use crate::tensor::{Tensor, TensorSet};
use rayon::prelude::*;
use std::ops::Range;

/// Up to so many rows dot products are faster than tiles, which work on 16 rows at least.
const DOT_ROWS: usize = 6;
/// Width of a panel of transposed rows.
const PANEL: usize = 2 * PAD;
/// Rows of an expert handled together.
const GROUP_ROWS: usize = 1024;
/// f32 of gathered rows held at a time (64 MB), unless one group is larger.
const GATHERED: usize = 1 << 24;

/// Where rows of the left operand come from.
pub(super) struct Rows<'a> {
    source: Source<'a>,
    k: usize,
    /// Row of a slot: slot / per_row.
    per_row: usize,
}

enum Source<'a> {
    Plain(&'a [f32]),
    Tensor { x: &'a Tensor, scales: Option<&'a [f32]>, quant: Quant },
}

impl<'a> Rows<'a> {
    /// Rows of `x`.
    pub(super) fn tensor(case: &MoeGemm, tensors: &'a TensorSet) -> Self {
        let scales = case.quant.scales_input().then(|| tensors.get("x_scale").view::<f32>());
        Self {
            source: Source::Tensor { x: tensors.get("x"), scales, quant: case.quant },
            k: case.products()[0].k as usize,
            per_row: if case.stage == Stage::Down { 1 } else { case.topk as usize },
        }
    }

    /// Rows of f32, one a slot.
    pub(super) fn plain(values: &'a [f32], k: usize) -> Self {
        Self { source: Source::Plain(values), k, per_row: 1 }
    }

    fn load(&self, slot: u32, out: &mut [f32]) {
        let row = slot as usize / self.per_row;
        match self.source {
            Source::Plain(values) => out.copy_from_slice(&values[row * self.k..][..self.k]),
            Source::Tensor { x, scales, quant } => {
                narrow::decode_slice(x.spec.dtype, x.bytes(), row * self.k, out);
                let Some(scales) = scales else { return };
                let block = if quant == Quant::Block128 { 128 } else { self.k };
                let line = &scales[row * self.k.div_ceil(block)..];
                scale_blocks(out, block, line);
            }
        }
    }
}

/// What becomes of a product.
#[derive(Clone, Copy)]
pub(super) enum Epilogue<'a> {
    /// One output row a slot: act(gate)·up, or act(x).
    Activate { gated: bool, act: Activation },
    /// One output row a token: the weighted sum over its slots.
    Sum { weights: &'a [f32], topk: usize },
}

/// Rows of one expert that are handled together, gathered for multiplying.
struct Group {
    expert: usize,
    slots: Range<usize>,
    gathered: Gathered,
}

enum Gathered {
    /// [rows × padded k], zero-padded.
    Rows(Vec<f32>),
    /// Panels of up to [`PANEL`] rows, transposed: [k × width] each, one after another.
    Panels(Vec<f32>),
}

/// A block of output columns, owned by one thread at a time.
struct Task<'a> {
    columns: Range<usize>,
    /// The block's part of every output row.
    pieces: Vec<&'a mut [u8]>,
    /// Sums [tokens × columns] of [`Epilogue::Sum`], else empty.
    sums: Vec<f32>,
}

/// Computes one product for all routed rows into `out` ([slots or tokens, n]).
pub(super) fn run(
    case: &MoeGemm,
    product: &Product,
    tensors: &TensorSet,
    rows: &Rows<'_>,
    epilogue: Epilogue<'_>,
    out_dtype: Dtype,
    out: &mut [u8],
) {
    let gated = matches!(epilogue, Epilogue::Activate { gated: true, .. });
    let width = product.n as usize / if gated { 2 } else { 1 };
    let weights = Weights::new(case, product, tensors);
    let mut tasks = tasks(width, out_dtype, epilogue, out);
    for batch in batches(&case.sorted, rows.k) {
        let groups: Vec<Group> =
            batch.into_par_iter().map(|(expert, slots)| gather(case, rows, expert, slots)).collect();
        tasks.par_iter_mut().for_each_init(Scratch::default, |scratch, task| {
            for group in &groups {
                let parts = if gated { [Some(0), Some(width)] } else { [Some(0), None] };
                scratch.multiply(&weights, group, &task.columns, parts, rows.k);
                let slots = &case.sorted.slots[group.slots.clone()];
                match epilogue {
                    Epilogue::Activate { act, .. } => scratch.activate(task, slots, gated, act, out_dtype),
                    Epilogue::Sum { weights, topk } => scratch.sum(task, slots, weights, topk),
                }
            }
        });
    }
    tasks.into_par_iter().for_each(|task| {
        let columns = task.columns.len();
        for (values, piece) in task.sums.chunks_exact(columns).zip(task.pieces) {
            narrow::encode_slice(out_dtype, values, 0, piece);
        }
    });
}

/// Cuts the output into blocks of columns.
fn tasks<'a>(width: usize, out_dtype: Dtype, epilogue: Epilogue<'_>, out: &'a mut [u8]) -> Vec<Task<'a>> {
    let size = (out_dtype.bits() / 8) as usize;
    let rows = out.len() / (width * size);
    // Many rows make a block of columns worth more, and their pieces would be too many.
    let block = if rows > 4096 { 128 } else { 32 };
    let starts = (0..width).step_by(block);
    let columns = starts.map(|start| start..(start + block).min(width));
    let mut tasks: Vec<Task<'a>> = columns
        .map(|columns| {
            let sums = if matches!(epilogue, Epilogue::Sum { .. }) { rows * columns.len() } else { 0 };
            Task { columns, pieces: Vec::with_capacity(rows), sums: vec![0.0; sums] }
        })
        .collect();
    for row in out.chunks_exact_mut(width * size) {
        for (piece, task) in row.chunks_mut(block * size).zip(&mut tasks) {
            task.pieces.push(piece);
        }
    }
    tasks
}

/// Experts' rows in groups of at most [`GROUP_ROWS`], in batches of about [`GATHERED`] values.
fn batches(sorted: &Sorted, k: usize) -> Vec<Vec<(usize, Range<usize>)>> {
    let mut batches = vec![Vec::new()];
    let mut held = 0;
    for (expert, pair) in sorted.starts.windows(2).enumerate() {
        for start in (pair[0]..pair[1]).step_by(GROUP_ROWS) {
            let slots = start..(start + GROUP_ROWS).min(pair[1]);
            let values = padded(slots.len()) * padded(k);
            if held > 0 && held + values > GATHERED {
                batches.push(Vec::new());
                held = 0;
            }
            held += values;
            if let Some(batch) = batches.last_mut() {
                batch.push((expert, slots));
            }
        }
    }
    batches
}

/// Loads the rows of a group in the form its product wants.
fn gather(case: &MoeGemm, rows: &Rows<'_>, expert: usize, slots: Range<usize>) -> Group {
    let (count, k) = (slots.len(), rows.k);
    let members = &case.sorted.slots[slots.clone()];
    if count <= DOT_ROWS {
        let stride = padded(k);
        let mut values = vec![0.0; count * stride];
        for (slot, row) in members.iter().zip(values.chunks_exact_mut(stride)) {
            rows.load(*slot, &mut row[..k]);
        }
        return Group { expert, slots, gathered: Gathered::Rows(values) };
    }
    let mut values = vec![0.0; padded(count) * k];
    let mut row = vec![0.0; k];
    for (index, slot) in members.iter().enumerate() {
        rows.load(*slot, &mut row);
        let (panel, lane) = (index / PANEL, index % PANEL);
        let width = panel_width(count, panel);
        let panel = &mut values[panel * PANEL * k..];
        for (column, value) in panel.chunks_mut(width).zip(&row) {
            column[lane] = *value;
        }
    }
    Group { expert, slots, gathered: Gathered::Panels(values) }
}

/// Padded rows of panel `panel` when there are `count` rows in all.
fn panel_width(count: usize, panel: usize) -> usize {
    padded(count - panel * PANEL).min(PANEL)
}

/// Buffers of one thread.
#[derive(Default)]
struct Scratch {
    /// Decoded weights [columns × INNER].
    weights: Vec<f32>,
    /// Products [parts · columns × rows].
    products: Vec<f32>,
    /// Padded rows: the stride of `products`.
    stride: usize,
    /// One output row.
    line: Vec<f32>,
}

impl Scratch {
    /// products[part][column][row] = Σ_k w·x, for the block's columns at each part's offset in n.
    fn multiply(
        &mut self,
        weights: &Weights<'_>,
        group: &Group,
        columns: &Range<usize>,
        parts: [Option<usize>; 2],
        k: usize,
    ) {
        let (count, width) = (group.slots.len(), columns.len());
        self.stride = padded(count);
        self.products.clear();
        self.products.resize(parts.len() * width * self.stride, 0.0);
        self.weights.resize(width * INNER, 0.0);
        for (part, offset) in parts.iter().enumerate() {
            let Some(offset) = offset else { continue };
            let products = &mut self.products[part * width * self.stride..][..width * self.stride];
            for start in (0..k).step_by(INNER) {
                let inner = start..(start + INNER).min(k);
                let stride = padded(inner.len());
                for (column, row) in columns.clone().zip(self.weights.chunks_exact_mut(stride)) {
                    row[inner.len()..].fill(0.0);
                    weights.load(group.expert, offset + column, inner.clone(), row);
                }
                match &group.gathered {
                    Gathered::Rows(values) => DotRows {
                        c: products,
                        c_stride: self.stride,
                        a: &self.weights,
                        b: &values[start..],
                        b_stride: padded(k),
                        m: width,
                        n: count,
                        k: stride,
                    }
                    .run(),
                    Gathered::Panels(values) => {
                        for panel in 0..count.div_ceil(PANEL) {
                            let lanes = panel_width(count, panel);
                            Matmul {
                                c: &mut products[panel * PANEL..],
                                c_stride: self.stride,
                                a: Left::Rows(&self.weights, stride),
                                b: &values[panel * PANEL * k + start * lanes..],
                                b_stride: lanes,
                                m: width,
                                n: lanes,
                                k: inner.len(),
                            }
                            .run();
                        }
                    }
                }
            }
        }
    }

    /// Writes act(gate)·up of each row to its slot's output.
    fn activate(&mut self, task: &mut Task<'_>, slots: &[u32], gated: bool, act: Activation, out_dtype: Dtype) {
        let width = task.columns.len();
        let (gate, up) = self.products.split_at(width * self.stride);
        self.line.resize(width, 0.0);
        for (row, slot) in slots.iter().enumerate() {
            for (column, value) in self.line.iter_mut().enumerate() {
                let at = column * self.stride + row;
                *value = act.apply(gate[at]) * if gated { up[at] } else { 1.0 };
            }
            narrow::encode_slice(out_dtype, &self.line, 0, task.pieces[*slot as usize]);
        }
    }

    /// Adds each row, weighted, to its token's sum.
    fn sum(&mut self, task: &mut Task<'_>, slots: &[u32], weights: &[f32], topk: usize) {
        let width = task.columns.len();
        for (row, slot) in slots.iter().enumerate() {
            let (token, weight) = (*slot as usize / topk, weights[*slot as usize]);
            let sums = &mut task.sums[token * width..][..width];
            for (sum, products) in sums.iter_mut().zip(self.products.chunks_exact(self.stride)) {
                *sum += weight * products[row];
            }
        }
    }
}
