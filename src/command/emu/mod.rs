//! `kbench emu`: one kernel of any code object on an emulated GPU.

mod args;

use crate::cli::{BoundsChoice, EmuArgs, EmuFormat};
use crate::device::DEFAULT_MODEL;
use crate::device::gpu::Emulated;
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::report::document::LaunchDoc;
use crate::report::units;
use anyhow::Context as _;
use args::Arguments;
use kbench_code_object::Content;
use kbench_gfx_emu::bound::{CacheState, bound};
use kbench_gfx_emu::counters::{Counters, Mix};
use kbench_gfx_emu::exec::Wave;
use kbench_gfx_emu::launch::{Barriers, Launch, LaunchError, Module, Options, launch};
use kbench_gfx_emu::mem::{Bounds, Memory};
use kbench_gfx_emu::model::Model;
use kbench_rocm_emu::report::{LaunchBound, LaunchCounter, LaunchLine, LaunchReport, Ran};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Opcodes that the table shows.
const OPCODES: usize = 12;
/// Source lines that the table shows.
const LINES: usize = 12;

/// Loads, runs, writes buffers, prints what was counted.
///
/// # Errors
/// On bad arguments or files (2), when the kernel faults (5), when an output cannot be written.
pub fn run(args: &EmuArgs) -> Outcome {
    let bytes =
        fs::read(&args.file).with_context(|| format!("{} could not be read", args.file.display())).or_usage()?;
    let (model, code) = choose(args, bytes)?;
    let mut memory = Memory::new(model.memory_bytes());
    memory.set_bounds(match args.bounds {
        BoundsChoice::Exact => Bounds::Exact,
        BoundsChoice::Page => Bounds::Page,
    });
    memory.track_uninitialised(args.check_uninitialised);
    let module =
        Module::load(&mut memory, model.arch(), &code).with_context(|| args.file.display().to_string()).or_usage()?;
    let name = kernel_name(args, &module)?;
    let kernel = module.kernel(&name).ok_or_else(|| no_kernel(args, &module, &name))?.clone();
    let arguments = Arguments::new(&args.args, &kernel, args.kernarg_size, &mut memory).or_usage()?;
    let request = Launch {
        kernel: name,
        grid: args.grid,
        block: args.block,
        dynamic_lds: args.lds,
        kernarg: arguments.kernarg.clone(),
    };
    let outcome = match launch(&mut memory, &module, &request, &options(args, model, &module)) {
        Ok(outcome) => outcome,
        Err(error @ LaunchError::Fault(_)) => return Err(error).or_device(),
        Err(error) => return Err(usage(error)),
    };
    let written = arguments.write_outputs(&memory).or_usage()?;
    let counters = Counters::of(&outcome, model);
    let mix = Mix::of(&outcome).histogram(model.arch());
    let bound = bound(&outcome, model, CacheState::Cold);
    let ran = Ran {
        model,
        module: &module,
        kernel: &kernel,
        launch: &request,
        outcome: &outcome,
        bound: &bound,
        counters: &counters,
    };
    let report = LaunchReport::of(&ran);
    let lines = report.lines.clone();
    let emulated = Emulated::of(vec![report]);
    let mut out = io::stdout().lock();
    match args.format {
        EmuFormat::Json => {
            let document = Document::new(model, &emulated, &counters, mix, &lines);
            let text = serde_json::to_string_pretty(&document).or_device()?;
            writeln!(out, "{text}").map_err(from_output)?;
        }
        EmuFormat::Table => {
            print(&mut out, model, &emulated, &counters, (&mix, &lines)).map_err(from_output)?;
            for (file, bytes) in written {
                writeln!(out, "{}: {} written", file.display(), units::bytes(bytes.into())).map_err(from_output)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// The model and the code object: what was asked for, or a model that the file has a code object for.
fn choose(args: &EmuArgs, bytes: Vec<u8>) -> Result<(&'static Model, Vec<u8>), Failure> {
    let file = args.file.display();
    let images = kbench_code_object::load(bytes).with_context(|| file.to_string()).or_usage()?;
    let mut objects = Vec::new();
    for image in images.iter().filter(|image| image.content == Content::CodeObject) {
        objects.push(image.code_object().with_context(|| file.to_string()).or_usage()?);
    }
    let archs: Vec<&str> = objects.iter().map(|object| object.arch().name()).collect();
    let model = match &args.device {
        Some(name) if name.ends_with(".toml") => own_model(Path::new(name))?,
        Some(name) => Model::named(name).or_usage()?,
        None => {
            let default = Model::named(DEFAULT_MODEL).or_usage()?;
            let fits = |model: &&Model| archs.contains(&model.arch().name());
            Some(default).filter(fits).or_else(|| Model::all().iter().find(fits)).ok_or_else(|| {
                usage(format!("{file}: it is for {}, which the emulator has no model of", archs.join(", ")))
            })?
        }
    };
    let object = objects.iter().find(|object| object.arch().name() == model.arch().name()).ok_or_else(|| {
        let (name, arch) = (&model.marketing_name, model.arch().name());
        usage(format!("{file}: {name} needs a code object for {arch}, the file has {}", archs.join(", ")))
    })?;
    Ok((model, object.bytes().to_vec()))
}

/// A model out of a file, which lives as long as the process.
fn own_model(file: &Path) -> Result<&'static Model, Failure> {
    let text = fs::read_to_string(file).with_context(|| format!("{} could not be read", file.display())).or_usage()?;
    let model = Model::from_toml(&text).with_context(|| file.display().to_string()).or_usage()?;
    Ok(Box::leak(Box::new(model)))
}

fn kernel_name(args: &EmuArgs, module: &Module) -> Result<String, Failure> {
    match (&args.kernel, module.kernels()) {
        (Some(name), _) => Ok(name.clone()),
        (None, [only]) => Ok(only.name.clone()),
        (None, _) => Err(no_kernel(args, module, "")),
    }
}

fn no_kernel(args: &EmuArgs, module: &Module, name: &str) -> Failure {
    let known: Vec<&str> = module.kernels().iter().map(|kernel| kernel.name.as_str()).take(12).collect();
    let known = known.join(", ");
    let more = if module.kernels().len() > 12 { ", ..." } else { "" };
    let what =
        if name.is_empty() { "--kernel says which to run".to_owned() } else { format!("there is no kernel `{name}`") };
    usage(format!("{}: {what}; it has {known}{more}", args.file.display()))
}

fn options(args: &EmuArgs, model: &Model, module: &Module) -> Options {
    let mut options = model.launch_options();
    options.instruction_limit = args.limit;
    options.sample = args.sample;
    options.threads = args.threads.unwrap_or(options.threads).max(1);
    options.barriers = if args.strict_barriers { Barriers::Strict } else { Barriers::Hardware };
    if args.trace {
        let arch = model.arch();
        let image = module.object().memory_image(module.base(), |_| None).unwrap_or_default();
        let first = module.code_start();
        options.trace = Some(Box::new(move |wave: &Wave, pc: u32, [x, y, z]: [u32; 3]| {
            let offset = first as usize + pc as usize * 4;
            let text = kbench_gfx_emu::isa::decode(arch, &image, offset).map(|inst| inst.text(arch));
            let text = text.unwrap_or_else(|_| "?".to_owned());
            // A closed pipe ends the printing, not the run.
            let _ =
                writeln!(io::stderr(), "({x},{y},{z}) w{} {offset:#08x} {text:<64} exec={:016x}", wave.id, wave.exec());
        }));
    }
    options
}

/// The JSON form.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    device: &'a str,
    arch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<&'a LaunchBound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_bound: Option<&'a str>,
    counters: &'a BTreeMap<String, LaunchCounter>,
    launches: Vec<LaunchDoc>,
    all_counters: Vec<CounterDoc<'a>>,
    instructions: Vec<OpcodeDoc>,
    /// Source lines, the most executed first; none without debug information (`-g`).
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lines: &'a [LaunchLine],
}

#[derive(Serialize)]
struct CounterDoc<'a> {
    name: &'a str,
    value: f64,
    unit: String,
    kind: &'static str,
}

#[derive(Serialize)]
struct OpcodeDoc {
    opcode: String,
    executions: u64,
}

impl<'a> Document<'a> {
    fn new(
        model: &'a Model,
        emulated: &'a Emulated,
        counters: &'a Counters,
        mix: Vec<(String, u64)>,
        lines: &'a [LaunchLine],
    ) -> Self {
        let all_counters = counters
            .list
            .iter()
            .map(|counter| CounterDoc {
                name: counter.name,
                value: counter.value,
                unit: counter.unit.to_string(),
                kind: counter.kind.name(),
            })
            .collect();
        let instructions = mix.into_iter().map(|(opcode, executions)| OpcodeDoc { opcode, executions }).collect();
        Self {
            schema: "kbench.emu/1",
            device: &model.marketing_name,
            arch: model.arch().name(),
            bound: emulated.bound.as_ref(),
            no_bound: emulated.no_bound.as_deref(),
            counters: &emulated.counters,
            launches: emulated.launches.iter().map(LaunchDoc::from).collect(),
            all_counters,
            instructions,
            lines,
        }
    }
}

fn print(
    out: &mut dyn Write,
    model: &Model,
    emulated: &Emulated,
    counters: &Counters,
    (mix, lines): (&[(String, u64)], &[LaunchLine]),
) -> io::Result<()> {
    writeln!(out, "{} (emulated), {}: no time is measured\n", model.marketing_name, model.arch().name())?;
    for launch in &emulated.launches {
        let [x, y, z] = launch.grid;
        let [bx, by, bz] = launch.block;
        writeln!(out, "{}  grid {x}x{y}x{z}  block {bx}x{by}x{bz}  LDS {} B", launch.kernel, launch.lds_bytes)?;
        if let Some(sampled) = &launch.sampled {
            writeln!(out, "a sample of {} of {} workgroups ran: counters are scaled", sampled.ran, sampled.workgroups)?;
        }
        for finding in &launch.findings {
            writeln!(out, "finding: {finding}")?;
        }
        for (mnemonic, how) in &launch.not_exact {
            writeln!(out, "not exact: {mnemonic}: {how}")?;
        }
    }
    match (&emulated.bound, &emulated.no_bound) {
        (Some(bound), _) => {
            writeln!(out, "bound {} by {}", units::time(bound.ns, 3), bound.limiter)?;
            let mut parts: Vec<_> = bound.by_resource.iter().filter(|(_, ns)| **ns > 0.0).collect();
            parts.sort_by(|a, b| b.1.total_cmp(a.1));
            let parts: Vec<String> =
                parts.iter().map(|(name, ns)| format!("{name} {}", units::time(**ns, 3))).collect();
            writeln!(out, "  {}", parts.join("  "))?;
        }
        (None, Some(reason)) => writeln!(out, "{reason}")?,
        (None, None) => {}
    }
    writeln!(out)?;
    for counter in counters.list.iter().filter(|counter| counter.value != 0.0) {
        let value =
            if counter.value.fract() == 0.0 { format!("{}", counter.value) } else { format!("{:.3}", counter.value) };
        writeln!(out, "{:<34} {value:>20} {:<12} {}", counter.name, counter.unit, counter.kind.name())?;
    }
    writeln!(out, "\nmost executed:")?;
    for (opcode, executions) in mix.iter().take(OPCODES) {
        writeln!(out, "  {executions:>12}  {opcode}")?;
    }
    if !lines.is_empty() {
        writeln!(out, "\nmost executed lines:")?;
    }
    for line in lines.iter().take(LINES) {
        writeln!(out, "  {:>12}  {}:{}", line.instructions, line.file, line.line)?;
    }
    Ok(())
}
