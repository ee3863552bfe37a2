//! Seeded data, the same bytes whatever the number of threads.
//!
//! A tensor is cut into chunks of a fixed number of elements. Each chunk draws from a generator of its own, derived from the
//! seed, the tensor's name and the chunk's index, and so does not depend on which thread fills it, or when. Values are drawn
//! from a table of equally likely ones that was encoded once: filling costs a table look-up an element, in any dtype.

use crate::dtype::Dtype;
use crate::narrow;
use crate::tensor::Tensor;
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use std::sync::LazyLock;

/// The generator of everything drawn: PCG-64 MCG, small and fast.
pub type Generator = Pcg64Mcg;

/// Elements in a chunk: even (fp4 packs two a byte), and small enough to share a tensor between threads.
const CHUNK: usize = 1 << 16;

/// Values in a table, a power of two: with 2^14 of them the 16-bit table stays in the first-level cache, and normal data
/// reach ±4 standard deviations.
const TABLE: usize = 1 << 14;

/// A generator for one purpose, told apart from others by `label`.
pub fn rng(seed: u64, label: &str) -> Generator {
    stream(seed, label, 0)
}

/// The generator of one chunk of one purpose.
fn stream(seed: u64, label: &str, chunk: u64) -> Generator {
    let mut state = mix(seed ^ 0x6b62_656e_6368);
    for byte in label.bytes() {
        state = mix(state ^ u64::from(byte));
    }
    let low = mix(state ^ chunk);
    let high = mix(low ^ state.rotate_left(32));
    Generator::new(u128::from(high) << 64 | u128::from(low))
}

/// Scrambles 64 bits so that near inputs give unrelated outputs (the finaliser of SplitMix64, Steele et al. 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

/// Fills a float tensor with normal data: each element is one of the 2^14 quantiles of N(`mean`, `std`²) at the
/// probabilities (i + ½) / 2^14, all equally likely, rounded to the dtype. They reach 4.0 standard deviations, their mean is
/// exact and their variance is 0.008 % short of the normal's.
///
/// # Panics
/// On an integer dtype or e8m0, which have no such data: a mistake in the caller.
pub fn fill_normal(tensor: &mut Tensor, seed: u64, mean: f32, std: f32) {
    assert!(tensor.spec.dtype.is_float() && tensor.spec.dtype != Dtype::E8m0, "{}", tensor.spec.name);
    fill_from(tensor, seed, |index| f64::from(mean) + f64::from(std) * quantile(index));
}

/// Fills a tensor of positive quantisation scales (f32, or e8m0 rounded to powers of two): log-uniform between half and
/// twice `magnitude`.
///
/// # Panics
/// On an integer dtype: a mistake in the caller.
pub fn fill_scales(tensor: &mut Tensor, seed: u64, magnitude: f32) {
    assert!(tensor.spec.dtype.is_float(), "{}", tensor.spec.name);
    fill_from(tensor, seed, |index| {
        let exponent = 2.0 * (index as f64 + 0.5) / TABLE as f64 - 1.0;
        f64::from(magnitude) * exponent.exp2()
    });
}

/// Fills a float tensor with exponentially distributed data of mean 1: each element is one of the 2^14 quantiles at the
/// probabilities (i + ½) / 2^14, all equally likely, rounded to the dtype. They reach from 3.1e-5 to 10.4.
///
/// # Panics
/// On an integer dtype or e8m0: a mistake in the caller.
pub fn fill_exponential(tensor: &mut Tensor, seed: u64) {
    assert!(tensor.spec.dtype.is_float() && tensor.spec.dtype != Dtype::E8m0, "{}", tensor.spec.name);
    fill_from(tensor, seed, |index| -(-(index as f64 + 0.5) / TABLE as f64).ln_1p());
}

/// Fills a tensor of any dtype with whole numbers, `low..=high` equally likely (to within 2^-64 times their number).
///
/// # Panics
/// When `high < low`: a mistake in the caller.
pub fn fill_uniform_int(tensor: &mut Tensor, seed: u64, low: i64, high: i64) {
    assert!(low <= high, "{}: {low}..={high}", tensor.spec.name);
    let (dtype, name) = (tensor.spec.dtype, tensor.spec.name);
    let elements = tensor.spec.elements() as usize;
    let numbers = (i128::from(high) - i128::from(low) + 1) as u128;
    tensor.bytes_mut().par_chunks_mut(dtype.bytes(CHUNK as u128) as usize).enumerate().for_each(|(chunk, bytes)| {
        let mut generator = stream(seed, name, chunk as u64);
        for index in 0..CHUNK.min(elements - chunk * CHUNK) {
            let number = i128::from(low) + ((u128::from(generator.next_u64()) * numbers) >> 64) as i128;
            match dtype {
                // Not through f64, which has 53 bits only.
                Dtype::I64 => bytes[index * 8..index * 8 + 8].copy_from_slice(&(number as i64).to_le_bytes()),
                _ => narrow::set(dtype, bytes, index, number as f64),
            }
        }
    });
}

/// Fills a tensor with values drawn from a table of [`TABLE`] equally likely ones.
fn fill_from(tensor: &mut Tensor, seed: u64, value: impl Fn(usize) -> f64) {
    let dtype = tensor.spec.dtype;
    let code = |index: usize| {
        let mut bytes = [0; 8];
        narrow::set(dtype, &mut bytes, 0, value(index));
        bytes
    };
    match dtype.bits() {
        64 => draw(tensor, seed, &table(code)),
        32 => draw(tensor, seed, &table(|index| first_bytes::<4>(code(index)))),
        16 => draw(tensor, seed, &table(|index| first_bytes::<2>(code(index)))),
        8 => draw(tensor, seed, &table(|index| first_bytes::<1>(code(index)))),
        _ => draw_nibbles(tensor, seed, &table(|index| code(index)[0])),
    }
}

fn first_bytes<const N: usize>(bytes: [u8; 8]) -> [u8; N] {
    std::array::from_fn(|index| bytes[index])
}

fn table<T: Copy + Default>(value: impl Fn(usize) -> T) -> Box<[T; TABLE]> {
    let mut values = Box::new([T::default(); TABLE]);
    for (index, entry) in values.iter_mut().enumerate() {
        *entry = value(index);
    }
    values
}

/// Four table indices of 64 random bits, the best ones first.
#[inline(always)]
fn indices(bits: u64) -> [usize; 4] {
    [bits >> 50, bits >> 36, bits >> 22, bits >> 8].map(|bits| bits as usize % TABLE)
}

fn draw<const N: usize>(tensor: &mut Tensor, seed: u64, table: &[[u8; N]; TABLE]) {
    let name = tensor.spec.name;
    tensor.bytes_mut().par_chunks_mut(CHUNK * N).enumerate().for_each(|(chunk, bytes)| {
        let mut generator = stream(seed, name, chunk as u64);
        let (elements, _) = bytes.as_chunks_mut::<N>();
        let (fours, rest) = elements.as_chunks_mut::<4>();
        for four in fours {
            *four = indices(generator.next_u64()).map(|index| table[index]);
        }
        for (element, index) in rest.iter_mut().zip(indices(generator.next_u64())) {
            *element = table[index];
        }
    });
}

/// As [`draw`] for two elements a byte; an unused last nibble is zero.
fn draw_nibbles(tensor: &mut Tensor, seed: u64, table: &[u8; TABLE]) {
    let (name, odd) = (tensor.spec.name, tensor.spec.elements() % 2 == 1);
    tensor.bytes_mut().par_chunks_mut(CHUNK / 2).enumerate().for_each(|(chunk, bytes)| {
        let mut generator = stream(seed, name, chunk as u64);
        for pair in bytes.chunks_mut(2) {
            let drawn = indices(generator.next_u64());
            for (byte, two) in pair.iter_mut().zip(drawn.chunks_exact(2)) {
                *byte = table[two[0]] | table[two[1]] << 4;
            }
        }
    });
    if odd && let Some(last) = tensor.bytes_mut().last_mut() {
        *last &= 0x0F;
    }
}

/// The standard normal quantile at probability (index + ½) / [`TABLE`].
fn quantile(index: usize) -> f64 {
    static UPPER: LazyLock<Vec<f64>> = LazyLock::new(upper_quantiles);
    if index < TABLE / 2 { -UPPER[TABLE / 2 - 1 - index] } else { UPPER[index - TABLE / 2] }
}

/// The quantiles above the median, by Newton's method on the distribution function, each starting at the one before.
fn upper_quantiles() -> Vec<f64> {
    let mut z = 0.0_f64;
    let mut quantiles = Vec::with_capacity(TABLE / 2);
    for index in 0..TABLE / 2 {
        let above_half = (index as f64 + 0.5) / TABLE as f64;
        // The function is concave here, so from the left of its root Newton's steps only grow towards it.
        for _ in 0..40 {
            let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
            let step = (above_half - density * odd_series(z)) / density;
            z += step;
            if step.abs() < 1e-14 {
                break;
            }
        }
        quantiles.push(z);
    }
    quantiles
}

/// Σ z^(2k+1) / (1·3·…·(2k+1)): times the density it is Φ(z) − ½ (Abramowitz and Stegun 26.2.11).
fn odd_series(z: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorSpec;

    fn filled(dtype: Dtype, elements: u64, fill: impl Fn(&mut Tensor)) -> Vec<f64> {
        let mut tensor = Tensor::zeroed(TensorSpec::input("x", dtype, &[elements])).unwrap();
        fill(&mut tensor);
        (0..elements as usize).map(|index| narrow::get(dtype, tensor.bytes(), index)).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let central = |power| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
        (mean, central(2).sqrt(), central(4) / central(2).powi(2))
    }

    #[test]
    fn quantiles_are_the_normal_distribution_s() {
        // Standard tables of the normal distribution: Φ⁻¹ of 0.75, 0.975, 0.999.
        for (probability, z) in [(0.75, 0.674_489_750_2), (0.975, 1.959_963_984_5), (0.999, 3.090_232_306_2)] {
            // Interpolated between the two quantiles beside the probability.
            let position = probability * TABLE as f64 - 0.5;
            let (low, share) = (position.floor() as usize, position.fract());
            let got = quantile(low) * (1.0 - share) + quantile(low + 1) * share;
            assert!((got - z).abs() < 1e-4, "{probability}: {got} {z}");
        }
        let all: Vec<f64> = (0..TABLE).map(quantile).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        let (mean, std, kurtosis) = moments(&all);
        assert!(mean.abs() < 1e-12);
        assert!((std * std - 1.0).abs() < 1e-4, "{std}");
        assert!((kurtosis - 3.0).abs() < 0.02, "{kurtosis}");
    }

    #[test]
    fn normal_data_have_their_moments() {
        for dtype in [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::Fp8E4m3fnuz, Dtype::Fp8E5m2] {
            let values = filled(dtype, 1_000_001, |tensor| fill_normal(tensor, 7, 0.5, 2.0));
            let (mean, std, kurtosis) = moments(&values);
            // Five standard errors of a million draws, and the rounding noise of fp8 (ε²/24 of the mean square at most).
            assert!((mean - 0.5).abs() < 0.011, "{dtype} {mean}");
            assert!((std / 2.0 - 1.0).abs() < 0.004 + narrow::epsilon(dtype).powi(2) / 24.0, "{dtype} {std}");
            assert!((kurtosis - 3.0).abs() < 0.06, "{dtype} {kurtosis}");
        }
    }

    #[test]
    fn neighbours_are_independent() {
        let values = filled(Dtype::F32, 1 << 20, |tensor| fill_normal(tensor, 3, 0.0, 1.0));
        for lag in [1, 2, 3, 4, 8, CHUNK] {
            let pairs = values.len() - lag;
            let correlation = values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>() / pairs as f64;
            assert!(correlation.abs() < 5.0 / (pairs as f64).sqrt(), "{lag}: {correlation}");
        }
    }

    #[test]
    fn threads_do_not_matter_seeds_and_names_do() {
        let bytes = |threads: usize, name: &'static str, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut tensor = Tensor::zeroed(TensorSpec::input(name, Dtype::Bf16, &[3, CHUNK as u64 + 7])).unwrap();
            pool.install(|| fill_normal(&mut tensor, seed, 0.0, 1.0));
            tensor.bytes().to_vec()
        };
        let first = bytes(1, "a", 1);
        assert_eq!(first, bytes(3, "a", 1));
        for other in [bytes(1, "b", 1), bytes(1, "a", 2)] {
            let equal = first.chunks(2).zip(other.chunks(2)).filter(|(a, b)| a == b).count();
            assert!(equal < first.len() / 200, "{equal}");
        }
    }

    #[test]
    fn fp4_fills_every_nibble() {
        let values = filled(Dtype::Fp4E2m1, CHUNK as u64 + 5, |tensor| fill_normal(tensor, 1, 0.0, 2.0));
        let mean_square = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!((mean_square - 4.0).abs() < 0.3, "{mean_square}");
        for offset in 0..2 {
            let zeros = values.iter().skip(offset).step_by(2).filter(|v| **v == 0.0).count();
            // |N(0, 2)| ≤ 0.25 rounds to zero: 9.95 % of the draws.
            assert!((zeros as f64 / (values.len() / 2) as f64 - 0.0995).abs() < 0.01);
        }
    }

    #[test]
    fn integers_are_uniform() {
        let values = filled(Dtype::I32, 90_000, |tensor| fill_uniform_int(tensor, 5, -4, 4));
        for number in -4..=4 {
            let share = values.iter().filter(|v| **v == f64::from(number)).count();
            // Binomial(90000, 1/9): 10000 ± 5 standard deviations of 94.
            assert!((9530..=10470).contains(&share), "{number}: {share}");
        }
        let wide = filled(Dtype::I64, 1000, |tensor| fill_uniform_int(tensor, 5, i64::MIN, i64::MAX));
        assert!(wide.iter().any(|v| *v < -4e18) && wide.iter().any(|v| *v > 4e18));
    }

    #[test]
    fn noise_is_exponential() {
        let values = filled(Dtype::F32, 100_000, |tensor| fill_exponential(tensor, 3));
        assert!(values.iter().all(|v| (3e-5..10.5).contains(v)));
        // P(x > t) = e^-t, within five standard deviations.
        for t in [0.1, 1.0, 3.0] {
            let (share, tail) = (values.iter().filter(|v| **v > t).count() as f64 / 1e5, f64::exp(-t));
            assert!((share - tail).abs() < 5.0 * (tail * (1.0 - tail) / 1e5).sqrt(), "{t}: {share}");
        }
    }

    #[test]
    fn scales_lie_around_their_magnitude() {
        let values = filled(Dtype::F32, 100_000, |tensor| fill_scales(tensor, 9, 0.02));
        assert!(values.iter().all(|v| (0.01..=0.04).contains(v)));
        let mean_log = values.iter().map(|v| v.log2()).sum::<f64>() / values.len() as f64;
        assert!((mean_log - 0.02_f64.log2()).abs() < 0.01);
        let powers = filled(Dtype::E8m0, 1000, |tensor| fill_scales(tensor, 9, 1.0));
        assert!(powers.iter().all(|v| [0.5, 1.0, 2.0].contains(v)));
    }
}
