//! `kbench kernels`: what there is, which build runs a case, and whether a launch descriptor fits.

use crate::cli::{CheckArgs, KernelsArgs, KernelsCommand, KernelsFormat, ListArgs};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::kernels::{self, CaseSymbols};
use crate::plan::{Plan, Selection as Cases};
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use kbench_code_object::{Content, LaunchShape};
use kbench_kernels::manifest::{Build, Code, Manifest};
use kbench_kernels::validate::{self, Finding, Severity};
use kbench_kernels::{Case, DeviceInfo, Library, ObjectInfo, Refusal, plan, select};
use kbench_profile::ReadOptions;
use kbench_workload::{CaseOptions, Family, Fp8Flavor};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Lists, or checks.
///
/// # Errors
/// When something cannot be read, or a descriptor does not fit.
pub fn run(args: &KernelsArgs) -> Outcome {
    match &args.command {
        Some(KernelsCommand::Check(args)) => check(args),
        Some(KernelsCommand::List(args)) => list(args),
        None => list(&args.list),
    }
}

fn list(args: &ListArgs) -> Outcome {
    let library = match &args.kernels {
        Some(path) => kernels::open(path).or_usage()?,
        None => kernels::builtin().or_device()?,
    };
    if args.shapes.is_empty() { inventory(args, &library) } else { cases(args, &library) }
}

/// A kernel of a code object, for output.
#[derive(Serialize)]
struct KernelRow {
    family: String,
    kernel: String,
    arch: String,
    origin: &'static str,
    file: String,
    sha256: String,
    compiler: String,
    vgprs: u32,
    agprs: u32,
    sgprs: u32,
    lds_bytes: u32,
    scratch_bytes: u32,
    spills: u32,
    max_block: u32,
    /// Waves on a SIMD at the largest block; absent where the architecture is not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    waves_per_simd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limiter: Option<&'static str>,
}

fn inventory(args: &ListArgs, library: &Library) -> Outcome {
    let wanted = |family: &str| args.family.is_empty() || args.family.iter().any(|wanted| wanted.name() == family);
    let mut rows: Vec<KernelRow> = Vec::new();
    for (file, build) in library.builds().filter(|(_, build)| wanted(&build.family)) {
        for arch in build.targets.iter().filter(|arch| args.arch.as_ref().is_none_or(|wanted| wanted == *arch)) {
            let code = match library.code(file, build, arch) {
                Ok(Some(code)) => code,
                // A descriptor without its file lists nothing; `kernels check` says why.
                Ok(None) | Err(_) => continue,
            };
            if rows.iter().any(|row| row.sha256 == code.sha256) {
                continue;
            }
            let compiler =
                library.object(file, build, arch).map_or_else(String::new, |object| object.compiler.version.clone());
            for object in objects(&code.bytes, &code.file)? {
                for kernel in object.kernels() {
                    let shape = LaunchShape { block: kernel.default_block(), dynamic_lds_bytes: 0 };
                    let occupancy = kernel.occupancy(object.arch(), shape).ok();
                    rows.push(KernelRow {
                        family: build.family.clone(),
                        kernel: kernel.name.clone(),
                        arch: object.arch().name().to_owned(),
                        origin: library.origin.name(),
                        file: code.file.clone(),
                        sha256: code.sha256.clone(),
                        compiler: compiler.clone(),
                        vgprs: kernel.vgprs,
                        agprs: kernel.agprs,
                        sgprs: kernel.sgprs,
                        lds_bytes: kernel.lds_bytes,
                        scratch_bytes: kernel.scratch_bytes,
                        spills: kernel.vgpr_spills.unwrap_or(0) + kernel.sgpr_spills.unwrap_or(0),
                        max_block: kernel.default_block(),
                        waves_per_simd: occupancy.as_ref().map(|occupancy| occupancy.waves_per_simd),
                        limiter: occupancy.map(|occupancy| occupancy.limiter.as_str()),
                    });
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(usage(format!("{}: there is no kernel that was asked for", library.name)));
    }
    let mut out = io::stdout().lock();
    if args.format == KernelsFormat::Json {
        return json(&mut out, &serde_json::json!({ "schema": "kbench.kernel-list/1", "kernels": rows }));
    }
    let mut table = plain_table();
    table.set_header([
        "family",
        "kernel",
        "arch",
        "VGPR",
        "AGPR",
        "SGPR",
        "LDS B",
        "scratch B",
        "spills",
        "block",
        "waves/SIMD",
        "limit",
    ]);
    for row in &rows {
        table.add_row([
            row.family.clone(),
            row.kernel.clone(),
            row.arch.clone(),
            row.vgprs.to_string(),
            row.agprs.to_string(),
            row.sgprs.to_string(),
            row.lds_bytes.to_string(),
            row.scratch_bytes.to_string(),
            row.spills.to_string(),
            row.max_block.to_string(),
            row.waves_per_simd.map_or_else(|| "–".to_owned(), |waves| format!("{waves:.1}")),
            row.limiter.unwrap_or("–").to_owned(),
        ]);
    }
    writeln!(out, "{}: {} kernels\n\n{table}", library.name, rows.len()).map_err(from_output)?;
    Ok(Exit::Ok)
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn json(out: &mut dyn Write, value: &serde_json::Value) -> Outcome {
    let text = serde_json::to_string_pretty(value).or_device()?;
    writeln!(out, "{text}").map_err(from_output)?;
    Ok(Exit::Ok)
}

/// The code objects of a file.
fn objects(bytes: &[u8], file: &str) -> Result<Vec<kbench_code_object::CodeObject>, Failure> {
    let images = kbench_code_object::load(bytes.to_vec()).with_context(|| file.to_owned()).or_usage()?;
    images
        .iter()
        .filter(|image| image.content == Content::CodeObject)
        .map(|image| image.code_object().with_context(|| file.to_owned()).or_usage())
        .collect()
}

/// What would run a case, for output.
#[derive(Serialize)]
struct CaseRow {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    build: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

fn cases(args: &ListArgs, library: &Library) -> Outcome {
    let device = kernels::device(args.arch.as_deref().unwrap_or("gfx942"));
    let fp8 = Fp8Flavor::of_arch(&device.arch);
    let inventory = kbench_profile::read(&args.shapes, &ReadOptions::default()).or_usage()?;
    let selection = Cases { families: args.family.clone(), ..Cases::default() };
    let planned = Plan::new(&inventory, &selection, CaseOptions { fp8, seed: 1 });
    let mut rows = Vec::new();
    for case in &planned.cases {
        let mut row =
            CaseRow { id: case.id.clone(), build: None, kernels: Vec::new(), reason: None, refused: Vec::new() };
        match &case.workload {
            Err(reason) => row.reason = Some(reason.clone()),
            Ok(workload) => choose(&mut row, library, case.family, &CaseSymbols::new(workload.as_ref(), fp8), &device),
        }
        rows.push(row);
    }
    let mut out = io::stdout().lock();
    if args.format == KernelsFormat::Json {
        return json(
            &mut out,
            &serde_json::json!({ "schema": "kbench.kernel-choice/1", "arch": device.arch, "cases": rows }),
        );
    }
    for row in &rows {
        let mut text = format!("{}\n", row.id);
        match (&row.build, &row.reason) {
            (Some(build), _) => text.push_str(&format!("    {build}: {}\n", row.kernels.join(", "))),
            (None, Some(reason)) => text.push_str(&format!("    not run: {reason}\n")),
            (None, None) => text.push_str("    not run\n"),
        }
        for refused in &row.refused {
            text.push_str(&format!("        {refused}\n"));
        }
        out.write_all(text.as_bytes()).map_err(from_output)?;
    }
    let run = rows.iter().filter(|row| row.build.is_some()).count();
    writeln!(out, "\n{run} of {} cases have a build for {}", rows.len(), device.arch).map_err(from_output)?;
    Ok(Exit::Ok)
}

fn choose(row: &mut CaseRow, library: &Library, family: Family, symbols: &CaseSymbols, device: &DeviceInfo) {
    let dtype = |role: &str| symbols.dtype(role);
    let case = Case { family: family.name(), dtype: &dtype, symbols };
    let found = select(library.builds(), &case, device);
    row.refused = found.refused.iter().map(|(_, build, refusal)| format!("{}: {refusal}", build.name)).collect();
    let Some((index, build, variant)) = found.chosen else {
        row.reason = Some(format!("no build of {family} in {} takes it on {}", library.name, device.arch));
        return;
    };
    let file = library.builds().nth(index).map_or("", |(file, _)| file);
    let has_code = library.code(file, build, &device.arch);
    match (plan(file, build, variant, symbols, device), has_code) {
        (Ok(planned), Ok(Some(_))) => {
            let name = if variant.name.is_empty() { String::new() } else { format!("/{}", variant.name) };
            row.build = Some(format!("{}{name}", build.name));
            row.kernels = planned
                .launches
                .iter()
                .map(|launch| {
                    let ([x, y, z], [bx, by, bz]) = (launch.grid, launch.block);
                    format!("{} {x}x{y}x{z} of {bx}x{by}x{bz}", launch.kernel)
                })
                .collect();
        }
        (Ok(_), Ok(None)) => row.reason = Some(format!("{}: there is no code object for {}", build.name, device.arch)),
        (Err(error), _) => row.reason = Some(error.to_string()),
        (_, Err(error)) => row.reason = Some(error.to_string()),
    }
}

fn check(args: &CheckArgs) -> Outcome {
    let name = args.descriptor.display().to_string();
    let text = fs::read_to_string(&args.descriptor).with_context(|| format!("{name} could not be read")).or_usage()?;
    let manifest = Manifest::parse(&name, &text).or_usage()?;
    let device = kernels::device(&args.arch);
    let mut findings = Vec::new();
    let mut lines = Vec::new();
    for build in &manifest.builds {
        findings.extend(validate::check_build(&name, build));
        let found = code_of(args, build)?;
        for object in &found {
            findings.extend(validate::check_object(&name, build, object));
        }
        let said = match found.as_slice() {
            [] => "no code object to hold it against".to_owned(),
            objects => objects
                .iter()
                .map(|object| format!("{} with {} kernels", object.arch, object.kernels.len()))
                .collect::<Vec<_>>()
                .join(", "),
        };
        lines.push(format!("build \"{}\": {said}", build.name));
        if let Some(shape) = &args.shape {
            let object = found.iter().find(|object| object.arch == device.arch);
            lines.push(at_shape(args, &name, build, shape, object, &device, &mut findings)?);
        }
    }
    let mut out = io::stdout().lock();
    for line in lines.into_iter().chain(findings.iter().map(Finding::to_string)) {
        writeln!(out, "{line}").map_err(from_output)?;
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        return Err(usage(format!("{name}: {errors} errors; nothing of it can be launched until they are mended")));
    }
    writeln!(out, "{name}: fits").map_err(from_output)?;
    Ok(Exit::Ok)
}

/// The code objects to hold a build against: those of the file given, else of the one that it names, if that is there.
fn code_of(args: &CheckArgs, build: &Build) -> Result<Vec<ObjectInfo>, Failure> {
    let path = match (&args.file, &build.code) {
        (Some(path), _) => path.clone(),
        (None, Code::File(name)) => {
            let beside = args.descriptor.parent().unwrap_or(Path::new("")).join(name);
            if !beside.exists() {
                return Ok(Vec::new());
            }
            beside
        }
        (None, Code::Source { .. }) => return Ok(Vec::new()),
    };
    let shown = path.display().to_string();
    let bytes = fs::read(&path).with_context(|| format!("{shown} could not be read")).or_usage()?;
    let objects: Vec<ObjectInfo> = objects(&bytes, &shown)?.iter().map(ObjectInfo::of).collect();
    if objects.is_empty() {
        return Err(usage(format!("{shown} holds no AMDGPU code object")));
    }
    // A bundle holds objects for several architectures: those that the build is not for do not concern it.
    let fitting: Vec<ObjectInfo> =
        objects.iter().filter(|object| build.targets.contains(&object.arch)).cloned().collect();
    Ok(if fitting.is_empty() { objects } else { fitting })
}

/// Evaluates a build at a shape; what it would launch.
fn at_shape(
    args: &CheckArgs,
    name: &str,
    build: &Build,
    shape: &kbench_workload::ShapeMap,
    object: Option<&ObjectInfo>,
    device: &DeviceInfo,
    findings: &mut Vec<Finding>,
) -> Result<String, Failure> {
    let family: Family = build.family.parse().or_usage()?;
    let fp8 = Fp8Flavor::of_arch(&device.arch);
    let dtypes = args.dtypes.clone().unwrap_or_default();
    let workload = kbench_workload::case(family, shape, &dtypes, CaseOptions { fp8, seed: 1 }).or_usage()?;
    let symbols = CaseSymbols::new(workload.as_ref(), fp8);
    let dtype = |role: &str| symbols.dtype(role);
    let case = Case { family: family.name(), dtype: &dtype, symbols: &symbols };
    let variant = match kbench_kernels::select::variant_for(name, build, &case, device) {
        Ok(variant) => variant,
        Err(Refusal::Error(error)) => return Err(usage(error)),
        Err(refusal) => return Ok(format!("  at this shape: not run: {refusal}")),
    };
    let planned = plan(name, build, variant, &symbols, device).or_usage()?;
    if let Some(object) = object {
        findings.extend(validate::check_plan(name, build, &planned, object, device));
    }
    let mut text = String::from("  at this shape:");
    for buffer in &planned.buffers {
        text.push_str(&format!("\n    buffer {}: {} bytes", buffer.name, buffer.bytes));
    }
    for launch in &planned.launches {
        text.push_str(&format!(
            "\n    {}: grid {:?}, block {:?}, {} bytes of dynamic LDS, {} arguments",
            launch.kernel,
            launch.grid,
            launch.block,
            launch.dynamic_lds,
            launch.args.len()
        ));
    }
    Ok(text)
}
