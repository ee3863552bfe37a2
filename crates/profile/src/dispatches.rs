//! Kernel dispatches of one process, summed while they are read: what rocprofv3's JSON and rocpd have in common.
//!
//! Both list kernel symbols (a number and its names) apart from the dispatches (a number and two timestamps), in either order. Memory grows with the
//! kernels, never with the dispatches.

use crate::health::Issue;
use crate::inventory::Severity;
use crate::ledger::{Launches, Ledger};
use crate::naming::KernelId;
use crate::rocprofv3::tell_truncated;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most kernels of one process that are told apart; the largest libraries register some 100,000.
const MAX_KERNELS: usize = 1 << 20;
/// Most bytes of kernel names of one process.
const MAX_NAME_BYTES: usize = 256 << 20;
/// The number that kernels beyond [`MAX_KERNELS`] share.
const FURTHER: u64 = u64::MAX;
/// Most agents that are remembered.
const MAX_AGENTS: usize = 1024;

/// Duration of a dispatch in ns, or why it is dropped. Timestamps are ns of one clock.
pub(crate) fn duration(start: i128, end: i128) -> Result<u64, Issue> {
    match end - start {
        0 => Err(Issue::ZeroDurations),
        ..0 => Err(Issue::NegativeDurations),
        // A dispatch whose start was never set would last since the machine was switched on.
        _ if start <= 0 => Err(Issue::UnsetTimes),
        ns => u64::try_from(ns).map_err(|_| Issue::BadRows),
    }
}

/// The names of one kernel symbol, as far as the source has them; empty ones count as absent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SymbolNames<'a> {
    /// With template and parameter lists.
    pub(crate) demangled: &'a str,
    /// As the user asked for: demangled, truncated or mangled.
    pub(crate) formatted: &'a str,
    /// The linker's name, often with `.kd`.
    pub(crate) mangled: &'a str,
    /// Without any list.
    pub(crate) truncated: &'a str,
}

impl<'a> SymbolNames<'a> {
    /// The name that says most: a truncated one gives way to the mangled one, which has everything.
    pub(crate) fn fullest(&self) -> Option<&'a str> {
        let is_cut = !self.formatted.contains(['<', '(']) && self.mangled.starts_with("_Z");
        let formatted = if is_cut { self.mangled } else { self.formatted };
        [self.demangled, formatted, self.mangled, self.truncated].into_iter().find(|name| !name.trim().is_empty())
    }
}

/// Launches and time of one kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    calls: u64,
    ns: u64,
}

/// A GPU of the profiled machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agent {
    /// Architecture, `gfx942`.
    pub(crate) arch: String,
    /// Product name, `AMD Instinct MI300X`.
    pub(crate) product: String,
}

/// What one process dispatched.
#[derive(Debug, Default)]
pub(crate) struct Process {
    totals: HashMap<u64, Total>,
    names: HashMap<u64, Box<str>>,
    name_bytes: usize,
    gpus: BTreeMap<u64, Agent>,
    used_agents: BTreeSet<u64>,
    /// The last agent that was looked up: dispatches of one come in long runs.
    last_agent: Option<u64>,
}

impl Process {
    /// True when nothing was learnt about kernels.
    pub(crate) fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.names.is_empty()
    }

    /// Notes the name of a kernel; the first of several stays.
    pub(crate) fn symbol(&mut self, kernel: u64, names: SymbolNames<'_>) {
        let Some(name) = names.fullest() else { return };
        if self.names.len() < MAX_KERNELS && self.name_bytes + name.len() <= MAX_NAME_BYTES {
            self.names.entry(kernel).or_insert_with(|| {
                self.name_bytes += name.len();
                name.into()
            });
        }
    }

    /// Notes a GPU.
    pub(crate) fn gpu(&mut self, id: u64, agent: Agent) {
        if self.gpus.len() < MAX_AGENTS {
            self.gpus.insert(id, agent);
        }
    }

    /// Adds a dispatch that took `ns`.
    pub(crate) fn dispatch(&mut self, kernel: u64, agent: Option<u64>, ns: u64) {
        let is_known = self.totals.len() < MAX_KERNELS || self.totals.contains_key(&kernel);
        let total = self.totals.entry(if is_known { kernel } else { FURTHER }).or_default();
        total.calls += 1;
        total.ns = total.ns.saturating_add(ns);
        if agent != self.last_agent {
            self.last_agent = agent;
            if self.used_agents.len() < MAX_AGENTS {
                self.used_agents.extend(agent);
            }
        }
    }

    /// Adds everything to the ledger. `place` names the file; `process` tells kernels without a name apart.
    pub(crate) fn finish(self, ledger: &mut Ledger, place: &str, process: &str) {
        let mut totals: Vec<(u64, Total)> = self.totals.into_iter().collect();
        // In the order of their numbers, so that the outcome does not hang on the order of a hash table.
        totals.sort_unstable_by_key(|(kernel, _)| *kernel);
        let mut used: Vec<KernelId> = Vec::with_capacity(totals.len());
        let mut unnamed = Total::default();
        for (number, total) in totals {
            let kernel = match self.names.get(&number) {
                _ if number == FURTHER => ledger.names.intern("(further kernels)"),
                Some(name) => {
                    used.push(ledger.names.intern(name));
                    used[used.len() - 1]
                }
                None => {
                    unnamed.calls += total.calls;
                    unnamed.ns = unnamed.ns.saturating_add(total.ns);
                    ledger.names.intern(&format!("(unnamed kernel {number} of {process})"))
                }
            };
            ledger.add(&Launches::of_name(kernel, total.calls, total.ns, place));
        }
        if unnamed.calls > 0 {
            let text = format!(
                "{} dispatches ({} ns) of {process} are of kernels that its list of kernel symbols does not have; they keep their time under a number",
                unnamed.calls, unnamed.ns
            );
            ledger.health.tell(Severity::Warning, "unnamed_kernels", text);
        }
        tell_truncated(ledger, used.into_iter());
        let is_used = |id: &u64| self.used_agents.is_empty() || self.used_agents.contains(id);
        for (_, agent) in self.gpus.iter().filter(|(id, _)| is_used(id)) {
            tell_emulated(ledger, place, &agent.product);
            hint(ledger, "arch", &agent.arch);
            hint(ledger, "device", &agent.product);
        }
    }
}

/// Stands behind the product's name of an emulated GPU in the files that kbench writes.
pub(crate) const EMULATED: &str = " (emulated)";

/// Says that durations are none when the GPU was an emulated one: nothing else in a profile shows it.
pub(crate) fn tell_emulated(ledger: &mut Ledger, place: &str, product: &str) {
    if product.ends_with(EMULATED) {
        let text = format!(
            "{place} is of an emulated GPU ({product}): its durations are bounds on time from a model, and no kernel time was measured"
        );
        ledger.health.tell(Severity::Warning, "emulated_durations", text);
    }
}

/// Adds a word to a hint of the source, once.
fn hint(ledger: &mut Ledger, key: &str, word: &str) {
    const LONGEST: usize = 200;
    let word = word.trim();
    if word.is_empty() || word.len() > LONGEST {
        return;
    }
    let words = ledger.source.hints.entry(key.to_owned()).or_default();
    if words.is_empty() {
        words.push_str(word);
    } else if words.split(", ").all(|known| known != word) && words.len() + word.len() < LONGEST {
        words.push_str(", ");
        words.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_dropped_by_kind() {
        assert_eq!(duration(100, 160), Ok(60));
        assert_eq!(duration(i128::from(u64::MAX) - 1, i128::from(u64::MAX)), Ok(1));
        assert_eq!(duration(5, 5), Err(Issue::ZeroDurations));
        assert_eq!(duration(0, 0), Err(Issue::ZeroDurations));
        assert_eq!(duration(9, 5), Err(Issue::NegativeDurations));
        assert_eq!(duration(9, 0), Err(Issue::NegativeDurations));
        assert_eq!(duration(0, 8_000_000), Err(Issue::UnsetTimes));
        assert_eq!(duration(1, 1 + (1 << 64)), Err(Issue::BadRows));
    }

    #[test]
    fn the_fullest_name_is_taken() {
        let names = SymbolNames { demangled: "", formatted: "axpy", mangled: "_Z4axpyPKfPfid.kd", truncated: "axpy" };
        assert_eq!(names.fullest(), Some("_Z4axpyPKfPfid.kd"));
        let demangled = SymbolNames { demangled: "axpy(float const*, float*, int, double)", ..names };
        assert_eq!(demangled.fullest(), Some("axpy(float const*, float*, int, double)"));
        let formatted =
            SymbolNames { formatted: "void f<int>(int*)", mangled: "_Z1fIiEvPT_.kd", ..SymbolNames::default() };
        assert_eq!(formatted.fullest(), Some("void f<int>(int*)"));
        let plain = SymbolNames { formatted: "Cijk_Ailk", mangled: "Cijk_Ailk.kd", ..SymbolNames::default() };
        assert_eq!(plain.fullest(), Some("Cijk_Ailk"));
        assert_eq!(SymbolNames { truncated: "f", ..SymbolNames::default() }.fullest(), Some("f"));
        assert_eq!(SymbolNames::default().fullest(), None);
    }
}
