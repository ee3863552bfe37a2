//! Nested operators of a category sheet: `GEMM.csv` lists a kernel under `aten::addmm` and again under the operator that called it.

use super::ops::OpRow;
use std::collections::HashMap;

/// Calls and time of a kernel under one operator.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Total {
    calls: u64,
    ns: u64,
}

/// Takes kernels out of the rows of operators that repeat another operator's. An operator repeats when, for one kernel, the others together have exactly
/// the calls and time of the one with most: the outer and its inner ones. The outer is kept, the first of two alike. Returns the
/// time that was taken out, ns.
pub(crate) fn remove(rows: &mut Vec<OpRow>) -> u128 {
    let mut by_kernel: HashMap<String, Vec<(String, Total)>> = HashMap::new();
    for row in rows.iter() {
        for kernel in &row.kernels {
            let ops = by_kernel.entry(kernel.name.clone()).or_default();
            let place = ops.iter().position(|(op, _)| *op == row.op).unwrap_or_else(|| {
                ops.push((row.op.clone(), Total::default()));
                ops.len() - 1
            });
            let total = &mut ops[place].1;
            total.calls = total.calls.saturating_add(kernel.calls);
            total.ns = total.ns.saturating_add(kernel.total_ns);
        }
    }
    // Of each kernel that is listed twice, the operator to keep.
    let kept: HashMap<String, String> = by_kernel
        .into_iter()
        .filter_map(|(kernel, ops)| {
            let outer = (0..ops.len()).max_by_key(|index| (ops[*index].1.ns, std::cmp::Reverse(*index)))?;
            let inner = ops.iter().enumerate().filter(|(index, _)| *index != outer).map(|(_, (_, total))| *total);
            let inner = inner.fold(Total::default(), |sum, total| Total {
                calls: sum.calls.saturating_add(total.calls),
                ns: sum.ns.saturating_add(total.ns),
            });
            (ops.len() > 1 && inner == ops[outer].1).then(|| (kernel, ops[outer].0.clone()))
        })
        .collect();
    let mut removed = 0;
    rows.retain_mut(|row| {
        let before = row.kernels.len();
        row.kernels.retain(|kernel| {
            let is_kept = kept.get(&kernel.name).is_none_or(|op| *op == row.op);
            if !is_kept {
                removed += u128::from(kernel.total_ns);
                row.busy_ns = row.busy_ns.map(|ns| ns.saturating_sub(kernel.total_ns));
            }
            is_kept
        });
        before == 0 || !row.kernels.is_empty()
    });
    removed
}

#[cfg(test)]
mod tests {
    use super::super::cells::KernelUse;
    use super::super::ops::Found;
    use super::*;

    fn row(op: &str, kernels: &[(&str, u64, u64)]) -> OpRow {
        let kernels = kernels.iter().map(|(name, calls, total_ns)| KernelUse {
            name: (*name).to_owned(),
            calls: *calls,
            total_ns: *total_ns,
        });
        OpRow {
            op: op.to_owned(),
            found: Found::Nothing,
            calls: 1,
            busy_ns: None,
            kernels: kernels.collect(),
            line: 2,
            is_graph: false,
        }
    }

    #[test]
    fn an_outer_operator_hides_its_inner_ones() {
        let mut rows = vec![
            row("outer", &[("k", 3, 30)]),
            row("aten::mm", &[("k", 1, 10)]),
            row("aten::addmm", &[("k", 2, 20)]),
            row("alone", &[("z", 1, 5)]),
        ];
        assert_eq!(remove(&mut rows), 30);
        let left: Vec<&str> = rows.iter().map(|row| row.op.as_str()).collect();
        assert_eq!(left, ["outer", "alone"]);
    }

    #[test]
    fn the_first_of_two_alike_stays_and_chance_sharing_stays_whole() {
        let mut rows = vec![row("a", &[("k", 1, 10)]), row("b", &[("k", 1, 10), ("m", 1, 1)])];
        assert_eq!(remove(&mut rows), 10);
        assert_eq!((rows[0].op.as_str(), rows[1].kernels.len()), ("a", 1));
        // One kernel under two operators that have nothing to do with each other.
        let mut rows = vec![row("a", &[("k", 4, 40)]), row("b", &[("k", 3, 31)])];
        assert_eq!(remove(&mut rows), 0);
        assert_eq!(rows.len(), 2);
    }
}
