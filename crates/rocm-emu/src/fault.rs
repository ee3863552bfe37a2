//! Faults on purpose: the little language of `ROCM_EMU_FAULT`, and when its rules take effect.
//!
//! Rules are separated by commas or blanks; `docs/emulated-hip.md` has the table of them.

use crate::error::HipError;
use std::str::FromStr;

/// When a rule takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
enum When {
    /// At the N-th allocation or launch, from 1.
    Nth(u64),
    /// At each launch of a kernel whose name has this in it.
    Kernel(String),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The launch is never done, and nothing behind it on the device.
    Hang,
    /// The process is aborted, as the real runtime does at some faults.
    Abort,
    /// A memory fault of the kernel.
    Memory,
    /// The device is gone.
    Lost,
    /// The launch call itself fails; nothing else does.
    LaunchFails,
}

/// Rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    allocations: Vec<u64>,
    launches: Vec<(When, Fault)>,
}

/// Why a text is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{rule}` is no fault: {reason}; known are oom@N, hang@KERNEL, abort@KERNEL, fault@KERNEL, launch-fail@N and \
     lost-device[@N], separated by commas, where KERNEL is a part of a kernel's name or the number of a launch"
)]
pub struct FaultPlanError {
    /// The rule.
    pub rule: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, FaultPlanError> {
        let mut plan = Self::default();
        for rule in text.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|rule| !rule.is_empty()) {
            let wrong = |reason| FaultPlanError { rule: rule.to_owned(), reason };
            let (name, at) = match rule.split_once('@') {
                Some((name, at)) => (name, Some(at).filter(|at| !at.is_empty())),
                None => (rule, None),
            };
            let number = |at: &str| at.parse().ok().filter(|at| *at > 0).ok_or(wrong("N is a whole number from 1"));
            let place = |at: Option<&str>| {
                let at = at.ok_or(wrong("it lacks @ and a kernel"))?;
                let is_number = at.bytes().all(|byte| byte.is_ascii_digit());
                if is_number { number(at).map(When::Nth) } else { Ok(When::Kernel(at.to_owned())) }
            };
            let count = |at: Option<&str>| number(at.ok_or(wrong("it lacks @ and a number"))?);
            let rule = match name {
                "oom" => {
                    plan.allocations.push(count(at)?);
                    continue;
                }
                "hang" => (place(at)?, Fault::Hang),
                "abort" => (place(at)?, Fault::Abort),
                "fault" => (place(at)?, Fault::Memory),
                "launch-fail" => (When::Nth(count(at)?), Fault::LaunchFails),
                "lost-device" => (When::Nth(at.map_or(Ok(1), number)?), Fault::Lost),
                _ => return Err(wrong("there is no such fault")),
            };
            plan.launches.push(rule);
        }
        Ok(plan)
    }
}

/// A plan under way: it counts allocations and launches.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    plan: FaultPlan,
    allocations: u64,
    launches: u64,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self { plan, allocations: 0, launches: 0 }
    }

    /// Counts an allocation.
    ///
    /// # Errors
    /// Out of memory, where the plan says so.
    pub(crate) fn allocate(&mut self) -> crate::error::Result {
        self.allocations += 1;
        if self.plan.allocations.contains(&self.allocations) { Err(HipError::OutOfMemory) } else { Ok(()) }
    }

    /// Counts a launch; gives what is to go wrong with it.
    pub(crate) fn launch(&mut self, kernel: &str) -> Option<Fault> {
        self.launches += 1;
        let applies = |(when, fault): &&(When, Fault)| match when {
            // A device that was lost stays so.
            When::Nth(at) if *fault == Fault::Lost => self.launches >= *at,
            When::Nth(at) => self.launches == *at,
            When::Kernel(part) => kernel.contains(part.as_str()),
        };
        self.plan.launches.iter().find(applies).map(|(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_take_effect_when_they_say() {
        let plan: FaultPlan = "oom@2, hang@gemm,fault@3;launch-fail@4 lost-device@6".parse().unwrap();
        let mut faults = Faults::new(plan);
        assert_eq!([1, 2, 3].map(|_| faults.allocate().is_err()), [false, true, false]);
        let launches = ["a", "my_gemm_1", "b", "c", "d", "e", "f"].map(|kernel| faults.launch(kernel));
        let lost = Some(Fault::Lost);
        let want = [None, Some(Fault::Hang), Some(Fault::Memory), Some(Fault::LaunchFails), None, lost, lost];
        assert_eq!(launches, want);
        assert_eq!("".parse(), Ok(FaultPlan::default()));
    }

    #[test]
    fn wrong_rules_are_named() {
        for text in
            ["oom", "oom@x", "oom@0", "hang", "hang@", "launch-fail@gemm", "lost-device@-1", "melt@1", "fault@0"]
        {
            let error = text.parse::<FaultPlan>().unwrap_err();
            assert_eq!(error.rule, text);
            assert!(error.to_string().starts_with(&format!("`{text}` is no fault")));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_plan_or_an_error(text in "([a-z\\-]{0,12}@?[0-9a-z]{0,24}[,; ]?){0,6}|\\PC{0,40}") {
            if let Ok(plan) = text.parse::<FaultPlan>() {
                let mut faults = Faults::new(plan);
                for kernel in ["a", "gemm", ""] {
                    let _ = (faults.launch(kernel), faults.allocate());
                }
            }
        }
    }
}
