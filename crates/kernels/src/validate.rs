//! A build against itself, against the code object that it launches, and against a device: before anything is launched.

use crate::expr::Scope;
use crate::kernarg::{self, Field};
use crate::manifest::{Build, Launch, Layout, Rule, Variant};
use crate::object::{ArgInfo, KernelInfo, ObjectInfo};
use crate::plan::{LaunchPlan, PlannedLaunch};
use crate::symbols::{DeviceInfo, NoSymbols};
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; the launch is possible.
    Warning,
    /// The build cannot be launched as it is.
    Error,
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// The manifest.
    pub file: String,
    /// Line in it.
    pub line: usize,
    /// What does not fit, and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.severity == Severity::Error { "error" } else { "warning" };
        write!(f, "{}:{}: {word}: {}", self.file, self.line, self.message)
    }
}

/// Gathers findings about one build.
struct Checker<'a> {
    file: &'a str,
    build: &'a Build,
    findings: Vec<Finding>,
}

/// Checks a build alone: fields that overlap or lie beyond the declared size, constants that a variant lacks, sizes that
/// are wrong for every case.
pub fn check_build(file: &str, build: &Build) -> Vec<Finding> {
    let mut checker = Checker { file, build, findings: Vec::new() };
    checker.constants();
    checker.early_constants();
    for (index, launch) in build.launches.iter().enumerate() {
        let place = format!("launch {}", index + 1);
        let Some(fields) = checker.fields(&place, launch) else { continue };
        checker.overlaps(&place, &fields);
        if let Some(size) = launch.kernarg_size {
            for field in fields.iter().filter(|field| field.end() > size) {
                let message = format!(
                    "{place}: argument `{}` ends at byte {}, beyond the kernarg_size of {size}",
                    field.name,
                    field.end()
                );
                checker.error(field.line, message);
            }
        }
        for (variant, size) in checker.known_sizes(&launch.block) {
            if size > 1024 {
                let message = format!("{place}{variant}: the block has {size} work-items; no GPU takes more than 1024");
                checker.error(launch.line, message);
            }
        }
    }
    checker.findings
}

/// Checks a build against the code object that it launches.
pub fn check_object(file: &str, build: &Build, object: &ObjectInfo) -> Vec<Finding> {
    let mut checker = Checker { file, build, findings: Vec::new() };
    if !build.targets.contains(&object.arch) {
        let message = format!("the code object is for {}, the build for {}", object.arch, build.targets.join(", "));
        checker.error(build.line, message);
    }
    for (index, launch) in build.launches.iter().enumerate() {
        for variant in &build.variants {
            let name = Build::kernel_name(launch, variant);
            match object.kernel(&name) {
                Some(kernel) => checker.kernel(&format!("launch {}", index + 1), launch, variant, kernel),
                None => checker.no_kernel(launch, &name, object),
            }
        }
    }
    checker.findings
}

/// Checks the launches of a case against the code object and the device: LDS, blocks.
pub fn check_plan(
    file: &str,
    build: &Build,
    plan: &LaunchPlan,
    object: &ObjectInfo,
    device: &DeviceInfo,
) -> Vec<Finding> {
    let mut checker = Checker { file, build, findings: Vec::new() };
    for planned in &plan.launches {
        let Some(launch) = build.launches.get(planned.index) else { continue };
        match object.kernel(&planned.kernel) {
            Some(kernel) => checker.planned(launch, planned, kernel, device),
            None => checker.no_kernel(launch, &planned.kernel, object),
        }
    }
    checker.findings
}

/// Bytes of explicit arguments that a launch passes: its `kernarg_size`, else what its fields and the kernel's explicit
/// arguments need.
pub fn explicit_size(launch: &PlannedLaunch, kernel: &KernelInfo) -> u32 {
    let fields = launch.args.iter().map(|arg| arg.field.end()).max().unwrap_or(0);
    launch.kernarg_size.unwrap_or_else(|| fields.max(kernel.explicit_size()))
}

impl Checker<'_> {
    fn add(&mut self, severity: Severity, line: usize, message: String) {
        let message = format!("build \"{}\": {message}", self.build.name);
        let finding = Finding { severity, file: self.file.to_owned(), line, message };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn error(&mut self, line: usize, message: String) {
        self.add(Severity::Error, line, message);
    }

    fn warning(&mut self, line: usize, message: String) {
        self.add(Severity::Warning, line, message);
    }

    fn fields(&mut self, place: &str, launch: &Launch) -> Option<Vec<Field>> {
        match kernarg::fields(launch) {
            Ok(fields) => Some(fields),
            Err(index) => {
                let message = format!("{place}: args[{index}] ends beyond {} bytes", kernarg::MAX_SIZE);
                self.error(launch.line, message);
                None
            }
        }
    }

    /// A name that one variant defines and another lacks is a shape key in the other one: almost surely forgotten.
    fn constants(&mut self) {
        for variant in &self.build.variants {
            for other in &self.build.variants {
                if let Some(name) = other.constants.keys().find(|name| !variant.constants.contains_key(*name)) {
                    let message = format!(
                        "variant \"{}\" has no constant {name}, which variant \"{}\" has",
                        variant.name, other.name
                    );
                    self.error(self.build.line, message);
                    break;
                }
            }
        }
    }

    /// The build's own conditions are asked before a variant is chosen, so they cannot use its constants.
    fn early_constants(&mut self) {
        for rule in &self.build.when {
            let constant =
                |name: &&str| self.build.variants.iter().any(|variant| variant.constants.contains_key(*name));
            if let Some(name) = rule.expr.names().find(constant) {
                let message = format!(
                    "when: \"{}\" uses {name}, a constant of a variant; move it to the variant's when",
                    rule.expr
                );
                self.error(rule.line, message);
            }
        }
    }

    fn overlaps(&mut self, place: &str, fields: &[Field]) {
        let mut sorted: Vec<&Field> = fields.iter().collect();
        sorted.sort_by_key(|field| field.offset);
        for pair in sorted.windows(2) {
            let [a, b] = pair else { continue };
            if a.end() > b.offset {
                let message = format!(
                    "{place}: argument `{}` at bytes {}..{} overlaps `{}` at {}..{}",
                    b.name,
                    b.offset,
                    b.end(),
                    a.name,
                    a.offset,
                    a.end()
                );
                self.error(b.line.max(a.line), message);
            }
        }
    }

    /// The product of sizes, for each variant whose constants alone decide it.
    fn known_sizes(&self, rules: &[Rule; 3]) -> Vec<(String, i128)> {
        let known = |variant: &Variant| {
            let device = DeviceInfo::of_arch(self.build.targets.first().map_or("", String::as_str), 0);
            let scope = Scope { symbols: &NoSymbols, constants: &variant.constants, device: &device, local: None };
            let value = |rule: &Rule| rule.expr.int(&scope).ok();
            let [x, y, z] = rules;
            let size = value(x)?.checked_mul(value(y)?)?.checked_mul(value(z)?)?;
            let place = if variant.name.is_empty() { String::new() } else { format!(", variant \"{}\"", variant.name) };
            Some((place, size))
        };
        self.build.variants.iter().filter_map(known).collect()
    }

    fn no_kernel(&mut self, launch: &Launch, name: &str, object: &ObjectInfo) {
        let names: Vec<&str> = object.kernels.iter().map(|kernel| kernel.resources.name.as_str()).take(8).collect();
        let more = if object.kernels.len() > names.len() { ", ..." } else { "" };
        let message = match (name, names.is_empty()) {
            (_, true) => "the code object has no kernel".to_owned(),
            ("*", false) => {
                format!("kernel = \"*\" needs a code object with one kernel; this one has {}{more}", names.join(", "))
            }
            _ => format!("the code object has no kernel {name}; it has {}{more}", names.join(", ")),
        };
        self.error(launch.line, message);
    }

    fn kernel(&mut self, place: &str, launch: &Launch, variant: &Variant, kernel: &KernelInfo) {
        let Some(fields) = self.fields(place, launch) else { return };
        let segment = kernel.resources.kernarg_bytes;
        let explicit = kernel.explicit_size();
        let end = kernarg::fields_end(&fields).max(launch.kernarg_size.unwrap_or(0));
        if launch.kernarg_size.is_none() {
            for field in fields.iter().filter(|field| field.end() > segment) {
                let message = format!(
                    "{place}: argument `{}` ends at byte {}, beyond the kernel's {segment} bytes of arguments; give \
                     kernarg_size = {end} if the kernel reads only the first of them",
                    field.name,
                    field.end()
                );
                self.error(field.line, message);
            }
        } else if end > segment {
            let unread = fields.iter().filter(|field| field.end() > segment).count();
            let message = format!(
                "{place}: {end} bytes are passed, the kernel's metadata has {segment}: {unread} arguments are not read"
            );
            self.warning(launch.line, message);
        }
        if let Some(size) = launch.kernarg_size.filter(|size| *size < explicit) {
            let message =
                format!("{place}: kernarg_size is {size}, the kernel's explicit arguments take {explicit} bytes");
            self.error(launch.line, message);
        }
        for arg in &kernel.args {
            self.argument(place, launch, &fields, arg);
        }
        for (field, hidden) in fields
            .iter()
            .flat_map(|field| kernel.args.iter().filter(|arg| arg.is_hidden()).map(move |arg| (field, arg)))
        {
            if field.offset < hidden.end() && hidden.offset < field.end() {
                let message = format!(
                    "{place}: argument `{}` at bytes {}..{} lies on {}, which the driver writes",
                    field.name,
                    field.offset,
                    field.end(),
                    hidden.kind
                );
                self.error(field.line, message);
            }
        }
        self.known_block(place, launch, variant, kernel);
    }

    /// One explicit argument of the metadata against the fields.
    fn argument(&mut self, place: &str, launch: &Launch, fields: &[Field], arg: &ArgInfo) {
        // Hand-written kernels describe the rest of each 16-byte slot as an argument of its own.
        let padding = launch.layout == Layout::Slot16 && !arg.offset.is_multiple_of(16) && !arg.is_pointer();
        if arg.is_hidden() || arg.size == 0 || padding {
            return;
        }
        let name = match &arg.name {
            Some(name) => format!("`{name}` ({}, bytes {}..{})", arg.kind, arg.offset, arg.end()),
            None => format!("{} at bytes {}..{}", arg.kind, arg.offset, arg.end()),
        };
        let on: Vec<&Field> =
            fields.iter().filter(|field| field.offset < arg.end() && arg.offset < field.end()).collect();
        let covered: u32 =
            on.iter().map(|field| field.end().min(arg.end()).saturating_sub(field.offset.max(arg.offset))).sum();
        let Some(first) = on.first() else {
            if arg.size <= 8 {
                let message = format!(
                    "{place}: nothing is given for the kernel's argument {name}; write {{ null = true }} or {{ u32 = 0 }} \
                     if that is meant"
                );
                self.error(launch.line, message);
            }
            return;
        };
        if arg.is_pointer() {
            if first.offset != arg.offset || !(first.is_pointer || first.size == arg.size) {
                let message = format!(
                    "{place}: argument `{}` at bytes {}..{} lies on the kernel's pointer {name}",
                    first.name,
                    first.offset,
                    first.end()
                );
                self.error(first.line, message);
            }
            return;
        }
        for field in &on {
            let spills = field.offset < arg.offset || field.end() > arg.end();
            if spills && field.is_pointer && field.offset == arg.offset {
                let message = format!(
                    "{place}: the pointer `{}` is passed where the kernel's metadata has {name}: {} bytes for 8",
                    field.name, arg.size
                );
                self.warning(field.line, message);
            } else if spills {
                let message = format!(
                    "{place}: argument `{}` at bytes {}..{} does not fit the kernel's argument {name}",
                    field.name,
                    field.offset,
                    field.end()
                );
                self.error(field.line, message);
            }
        }
        if covered < arg.size && arg.size <= 8 && on.iter().all(|field| field.end() <= arg.end()) {
            let message = format!(
                "{place}: `{}` gives {covered} of the {} bytes of the kernel's argument {name}",
                first.name, arg.size
            );
            self.error(first.line, message);
        }
    }

    /// Block and dynamic LDS, where constants decide them.
    fn known_block(&mut self, place: &str, launch: &Launch, variant: &Variant, kernel: &KernelInfo) {
        let device = DeviceInfo::of_arch(self.build.targets.first().map_or("", String::as_str), 0);
        let scope = Scope { symbols: &NoSymbols, constants: &variant.constants, device: &device, local: None };
        let value = |rule: &Rule| rule.expr.fit::<u32>(&scope, "u32").ok();
        let [x, y, z] = &launch.block;
        if let (Some(x), Some(y), Some(z)) = (value(x), value(y), value(z)) {
            self.block(place, launch, [x, y, z], kernel);
        }
    }

    fn block(&mut self, place: &str, launch: &Launch, block: [u32; 3], kernel: &KernelInfo) {
        let [x, y, z] = block;
        let size = u64::from(x) * u64::from(y) * u64::from(z);
        let most = kernel.resources.max_block;
        if let Some(reqd) = kernel.reqd_block.filter(|reqd| *reqd != block) {
            let message = format!(
                "{place}: the block is {x} x {y} x {z}, the kernel {} needs {} x {} x {}",
                kernel.resources.name, reqd[0], reqd[1], reqd[2]
            );
            self.error(launch.line, message);
        } else if size > u64::from(most) {
            let message = format!(
                "{place}: the block has {size} work-items, the kernel {} takes at most {most}",
                kernel.resources.name
            );
            self.error(launch.line, message);
        }
    }

    fn planned(&mut self, launch: &Launch, planned: &PlannedLaunch, kernel: &KernelInfo, device: &DeviceInfo) {
        let place = format!("launch {}", planned.index + 1);
        self.block(&place, launch, planned.block, kernel);
        let size: u64 = planned.block.iter().map(|size| u64::from(*size)).product();
        if size > u64::from(device.max_block) {
            let message = format!("{place}: the block has {size} work-items, the device takes {}", device.max_block);
            self.error(launch.line, message);
        }
        let lds = u64::from(kernel.resources.lds_bytes) + u64::from(planned.dynamic_lds);
        if lds > u64::from(device.lds_bytes) {
            let message = format!(
                "{place}: {} needs {lds} bytes of LDS ({} static, {} dynamic), a workgroup of {} has {}",
                kernel.resources.name, kernel.resources.lds_bytes, planned.dynamic_lds, device.arch, device.lds_bytes
            );
            self.error(launch.line, message);
        }
    }
}
