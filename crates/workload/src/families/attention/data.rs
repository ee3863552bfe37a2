//! Filling queries so that attention is equally peaked at every context length.

use super::{Mask, Span};
use crate::narrow;
use crate::random;
use crate::tensor::Tensor;

/// Standard deviation of scores at which about eight keys share the weight whatever the context length: exp(s²) is the
/// ratio of keys to effective keys for normal scores. Outputs then are of order 1 at every length, so that one absolute
/// tolerance means the same for all, and the attention is as peaked as that of a trained model.
fn score_deviation(mask: Mask, span: Span) -> f32 {
    const EFFECTIVE_KEYS: f64 = 8.0;
    const LEAST: f64 = 0.5;
    let keys = mask.touched_keys(span);
    let keys = match mask.window() {
        0 => keys.end - keys.start,
        window => window.min(keys.end - keys.start),
    };
    (keys as f64 / EFFECTIVE_KEYS).max(1.0).ln().sqrt().max(LEAST) as f32
}

/// Fills queries whose sequences stand one after another with normal data of the deviation that each sequence needs, in
/// units of `unit` (what 1.0 is stored as). `row` is the number of elements of one query of all heads.
pub(crate) fn fill_queries(tensor: &mut Tensor, seed: u64, mask: Mask, spans: &[Span], row: u64, unit: f32) {
    random::fill_normal(tensor, seed, 0.0, unit);
    let dtype = tensor.spec.dtype;
    let mut buffer = vec![0.0; row as usize];
    let mut first = 0;
    for span in spans {
        let deviation = score_deviation(mask, *span);
        for _ in 0..span.q_len {
            narrow::decode_slice(dtype, tensor.bytes(), first, &mut buffer);
            buffer.iter_mut().for_each(|value| *value *= deviation);
            narrow::encode_slice(dtype, &buffer, first, tensor.bytes_mut());
            first += buffer.len();
        }
    }
}
