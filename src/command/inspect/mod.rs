//! `kbench inspect`.

mod document;
mod table;

use crate::cli::{InspectArgs, InspectFormat};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use anyhow::Context as _;
use document::{Document, ImageReport};
use kbench_code_object::{CodeObject, Content, Image, Kernel, LaunchShape};
use std::io::{self, Write};
use std::path::Path;

/// Reads one or two files and prints what is in them.
///
/// # Errors
/// When a file cannot be read, holds no code object, or nothing matches the options.
pub fn run(args: &InspectArgs) -> Outcome {
    let images = read(&args.file, args)?;
    let mut document = Document::new(&args.file);
    document.images = images.iter().map(|found| ImageReport::new(found, args)).collect();
    if document.images.iter().all(|image| image.kernels.is_empty()) {
        no_kernel(&images, args)?;
    }
    if let Some(base) = &args.compare {
        document.compare(base, &read(base, args)?, &images, args)?;
    }
    let mut out = io::stdout().lock();
    match args.format {
        InspectFormat::Json => serde_json::to_writer_pretty(&mut out, &document)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
            .map_err(from_output)?,
        InspectFormat::Table => table::print(&mut out, &document, args).map_err(from_output)?,
    }
    Ok(Exit::Ok)
}

/// An image of a file, and its code object when it is one.
pub(super) struct Found {
    image: Image,
    object: Option<CodeObject>,
}

fn read(path: &Path, args: &InspectArgs) -> Result<Vec<Found>, Failure> {
    let data = std::fs::read(path).with_context(|| format!("{} could not be read", path.display())).or_usage()?;
    let images = kbench_code_object::load(data).with_context(|| path.display().to_string()).or_usage()?;
    let mut found = Vec::new();
    let mut targets = Vec::new();
    for image in images {
        let object = match image.content {
            Content::CodeObject => Some(parse(&image, path)?),
            _ => None,
        };
        let target = object.as_ref().map(|object| *object.arch());
        if let Some(wanted) = &args.target {
            let name = target.map_or_else(String::new, |target| target.to_string());
            let processor = target.map_or("", |target| target.name());
            targets.push(if name.is_empty() { image.content.describe().to_owned() } else { name.clone() });
            if *wanted != name && wanted != processor {
                continue;
            }
        }
        found.push(Found { image, object });
    }
    match (&args.target, found.is_empty()) {
        (Some(wanted), true) => {
            targets.dedup();
            Err(usage(format!("{}: no code object for {wanted}; there are: {}", path.display(), targets.join(", "))))
        }
        _ => Ok(found),
    }
}

fn parse(image: &Image, path: &Path) -> Result<CodeObject, Failure> {
    let place = || match &image.entry {
        Some(entry) => format!("{}: entry {} at offset {:#x}", path.display(), entry.id, image.file_offset),
        None => path.display().to_string(),
    };
    image.code_object().with_context(place).or_usage()
}

/// Whether `--kernel` lets a kernel through: by its name, or by its demangled name.
fn selected(kernel: &Kernel, args: &InspectArgs) -> bool {
    let Some(pattern) = &args.kernel else { return true };
    pattern.is_match(&kernel.name) || pattern.is_match(&kbench_profile::names::canonical(&kernel.name))
}

fn launch_shape(kernel: &Kernel, args: &InspectArgs) -> LaunchShape {
    LaunchShape { block: args.block.unwrap_or_else(|| kernel.default_block()), dynamic_lds_bytes: args.lds }
}

/// An error when `--kernel` matched nothing; a file without kernels is none.
fn no_kernel(images: &[Found], args: &InspectArgs) -> Result<(), Failure> {
    let Some(pattern) = &args.kernel else { return Ok(()) };
    let objects = images.iter().filter_map(|found| found.object.as_ref());
    let mut names: Vec<&str> = objects.flat_map(|object| object.kernels()).map(|kernel| kernel.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let shown: Vec<&str> = names.iter().take(5).copied().collect();
    let more = names.len().saturating_sub(shown.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let path = args.file.display();
    Err(usage(format!("{path}: no kernel matches {}; there are: {}{rest}", pattern.as_str(), shown.join(", "))))
}
