//! Which kernel of a step is which call of the model.

use crate::model::Expected;
use crate::naming::KernelId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most kernels that one call may run (attention with its reduction, a split GEMM with its sum).
const MAX_KERNELS: usize = 4;
/// Most ways of running a step that are tried.
const MAX_WAYS: usize = 256;
/// Calls that engines run fused into others, or outside of the step, together.
const OPTIONAL: [&[&str]; 4] = [&["q_norm", "k_norm"], &["lm_head"], &["final_norm"], &["router"]];

/// Where the kernels of one family stand in a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Each kernel's call, as an index into what is expected.
    Known(Vec<usize>),
    /// The kernels do not fit, or in more than one way.
    Unknown,
}

/// As [`find`]; where the kernels do not fit, those that only finish what another began (`finishes`: reductions of split attention or GEMMs)
/// are taken for parts of the call before them, so that calls of one family may differ in whether they are split.
pub(super) fn find_finished(kernels: &[KernelId], finishes: &[bool], order: &[usize], expected: &[Expected]) -> Place {
    let place = find(kernels, order, expected);
    if place != Place::Unknown || finishes.first() != Some(&false) || !finishes.contains(&true) {
        return place;
    }
    let leading = kernels.iter().zip(finishes).filter(|(_, finishes)| !**finishes).map(|(kernel, _)| *kernel);
    let Place::Known(calls) = find(&leading.collect::<Vec<_>>(), order, expected) else { return Place::Unknown };
    let mut calls = calls.into_iter();
    let mut call = 0;
    let of_kernel = finishes.iter().map(|finishes| {
        if !finishes {
            call = calls.next().unwrap_or(call);
        }
        call
    });
    Place::Known(of_kernel.collect())
}

/// Lays the kernels of a family, in order of time, beside the expected calls of that family in order of the model.
pub(super) fn find(kernels: &[KernelId], order: &[usize], expected: &[Expected]) -> Place {
    let mut fits: Vec<(usize, usize, Vec<usize>)> = ways(order, expected)
        .into_iter()
        .filter_map(|(left_out, calls)| Some((left_out, kernels.len() / calls.len(), fit(kernels, &calls)?)))
        .collect();
    // The plainest way stands: the fewest calls left out, then the fewest kernels a call (two GEMM stages rather than one of two kernels).
    fits.sort_by_key(|(left_out, each, _)| (*left_out, *each));
    let Some((left_out, each, first)) = fits.first() else { return Place::Unknown };
    let as_plain = fits.iter().filter(|fit| (fit.0, fit.1) == (*left_out, *each));
    match as_plain.into_iter().all(|(_, _, fit)| says_the_same(first, fit, expected)) {
        true => Place::Known(first.clone()),
        false => Place::Unknown,
    }
}

fn says_the_same(a: &[usize], b: &[usize], expected: &[Expected]) -> bool {
    let says = |index: usize| (&expected[index].shape, &expected[index].dtypes, &expected[index].missing);
    a.iter().zip(b).all(|(a, b)| says(*a) == says(*b))
}

/// The sequences of calls that a step may be: one variant where engines differ, optional calls there or not. With each, how many optional
/// calls it leaves out: a way that leaves out none is tried first.
fn ways(order: &[usize], expected: &[Expected]) -> Vec<(usize, Vec<usize>)> {
    let mut variants: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for index in order {
        if let Some(variant) = expected[*index].variant {
            variants.entry(&expected[*index].layers).or_default().insert(variant);
        }
    }
    // Each choice takes one variant for each kind of layers.
    let mut choices: Vec<HashMap<&str, &str>> = vec![HashMap::new()];
    for (layers, variants) in variants {
        let mut more = Vec::new();
        for choice in choices {
            for variant in &variants {
                let mut choice = choice.clone();
                choice.insert(layers, *variant);
                more.push(choice);
            }
        }
        more.truncate(MAX_WAYS);
        choices = more;
    }
    let optional: Vec<&[&str]> =
        OPTIONAL.into_iter().filter(|roles| order.iter().any(|index| roles.contains(&expected[*index].role))).collect();
    let mut ways = Vec::new();
    for choice in &choices {
        for left_out in 0..1_usize << optional.len() {
            let is_left_out = |role: &str| {
                optional.iter().enumerate().any(|(bit, roles)| left_out >> bit & 1 == 1 && roles.contains(&role))
            };
            let runs = |index: &usize| {
                let call = &expected[*index];
                let chosen = call.variant.is_none_or(|variant| choice.get(call.layers.as_str()) == Some(&variant));
                chosen && !is_left_out(call.role)
            };
            let calls: Vec<usize> = order.iter().copied().filter(runs).collect();
            if !calls.is_empty() && ways.len() < MAX_WAYS {
                ways.push((left_out.count_ones() as usize, calls));
            }
        }
    }
    ways
}

/// The call of each kernel when every call runs the same number of kernels and each role always the same ones.
fn fit(kernels: &[KernelId], calls: &[usize]) -> Option<Vec<usize>> {
    let each = kernels.len() / calls.len();
    if !(1..=MAX_KERNELS).contains(&each) || each * calls.len() != kernels.len() {
        return None;
    }
    let mut of_call: HashMap<usize, &[KernelId]> = HashMap::new();
    for (call, kernels) in calls.iter().zip(kernels.chunks_exact(each)) {
        if *of_call.entry(*call).or_insert(kernels) != kernels {
            return None;
        }
    }
    // Several kernels a call are parts of it, not calls that were not expected: no kernel may be a part by itself.
    let is_split = each > 1 && of_call.values().any(|kernels| kernels.iter().all(|kernel| *kernel == kernels[0]));
    (!is_split).then(|| calls.iter().flat_map(|call| std::iter::repeat_n(*call, each)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Phase;
    use crate::naming::Names;
    use crate::read::ReadOptions;
    use kbench_workload::{Dtypes, Family, ShapeMap};

    fn call(role: &'static str, layers: &str, variant: Option<&'static str>) -> Expected {
        Expected {
            role,
            family: Family::Gemm,
            shape: ShapeMap::new().with_word("role", role),
            dtypes: Dtypes::default(),
            calls: 1,
            layers: layers.to_owned(),
            phase: Phase::Decode,
            variant,
            missing: Vec::new(),
            assumed: Vec::new(),
        }
    }

    /// Letters as kernels.
    fn kernels(text: &str) -> Vec<KernelId> {
        let mut names = Names::new(&ReadOptions::default()).unwrap();
        text.chars().map(|c| names.intern(&c.to_string())).collect()
    }

    #[test]
    fn calls_are_told_by_order_and_constant_names() {
        let expected = [call("qkv", "full", None), call("o", "full", None), call("lm_head", "none", None)];
        let order = [0, 1, 0, 1, 2];
        assert_eq!(find(&kernels("ababc"), &order, &expected), Place::Known(order.to_vec()));
        // One kernel may serve two roles, but a role not two kernels.
        assert_eq!(find(&kernels("aaaaa"), &order, &expected), Place::Known(order.to_vec()));
        assert_eq!(find(&kernels("abbac"), &order, &expected), Place::Unknown);
        // The head ran elsewhere.
        assert_eq!(find(&kernels("abab"), &order, &expected), Place::Known(vec![0, 1, 0, 1]));
        assert_eq!(find(&kernels("aba"), &order, &expected), Place::Unknown);
        assert_eq!(find(&[], &order, &expected), Place::Unknown);
    }

    #[test]
    fn a_call_of_several_kernels() {
        let expected = [call("attention", "full", None)];
        assert_eq!(find(&kernels("arar"), &[0, 0], &expected), Place::Known(vec![0; 4]));
        // Twice the same kernel is twice the calls, which were not expected.
        assert_eq!(find(&kernels("aaaa"), &[0, 0], &expected), Place::Unknown);
        assert_eq!(find(&kernels("arra"), &[0, 0], &expected), Place::Unknown);
    }

    /// Layers with a window run one kernel, full ones a split one (`f`) with its reduction (`r`).
    #[test]
    fn reductions_belong_to_the_call_before_them() {
        let expected = [call("attention", "window", None), call("attention", "full", None)];
        let found = |text: &str, order: &[usize]| {
            let finishes: Vec<bool> = text.chars().map(|kernel| kernel == 'r').collect();
            find_finished(&kernels(text), &finishes, order, &expected)
        };
        assert_eq!(found("wfrwfr", &[0, 1, 0, 1]), Place::Known(vec![0, 1, 1, 0, 1, 1]));
        assert_eq!(found("wrwr", &[0, 0]), Place::Known(vec![0; 4]));
        assert_eq!(found("rwfwf", &[0, 1, 0, 1]), Place::Unknown, "nothing that it could finish");
        assert_eq!(found("wfrffr", &[0, 1, 0, 1]), Place::Unknown, "a role of two kernels");
    }

    #[test]
    fn variants_are_told_by_their_counts() {
        let expected = [
            call("gate_up", "moe", Some("two stages")),
            call("down", "moe", Some("two stages")),
            call("fused", "moe", Some("one stage")),
        ];
        let order = [0, 1, 2, 0, 1, 2];
        assert_eq!(find(&kernels("fgfg"), &order, &expected), Place::Known(vec![0, 1, 0, 1]));
        assert_eq!(find(&kernels("ff"), &order, &expected), Place::Known(vec![2, 2]));
        // The fused variant in two kernels would fit `fgfg` as well: it is not as plain.
        assert_eq!(find(&kernels("fff"), &order, &expected), Place::Unknown);
    }

    #[test]
    fn ways_that_differ_are_no_answer() {
        let expected = [call("a", "moe", Some("one")), call("b", "moe", Some("other"))];
        assert_eq!(find(&kernels("xx"), &[0, 1, 0, 1], &expected), Place::Unknown);
    }
}
