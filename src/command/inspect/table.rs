//! The document as text.

use super::document::{Document, FileComparison, ImageReport, KernelReport, ObjectComparison};
use crate::cli::InspectArgs;
use crate::report::units;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use kbench_code_object::{Arg, Difference, KernelDescriptor, Occupancy};
use std::io::{self, Write};

/// Prints everything: images with their kernels, or what differs between two files.
pub(super) fn print(out: &mut dyn Write, document: &Document, args: &InspectArgs) -> io::Result<()> {
    if let Some(comparison) = &document.comparison {
        return compared(out, &document.file, comparison);
    }
    writeln!(out, "{}: {}", document.file, counted(document.images.len(), "image"))?;
    for image in &document.images {
        writeln!(out, "\n{}", headline(image))?;
        if !image.kernels.is_empty() {
            writeln!(out, "\n{}", resources(&image.kernels))?;
        }
        for report in &image.kernels {
            if let Some(reason) = &report.occupancy_error {
                writeln!(out, "{}: no occupancy: {reason}", name(&report.kernel.name))?;
            }
            if args.kernel.is_some() {
                details(out, report)?;
            }
        }
        if !image.descriptors_without_kernel.is_empty() {
            let names = image.descriptors_without_kernel.join(", ");
            writeln!(out, "descriptors without metadata, which no runtime can launch: {names}")?;
        }
    }
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn headline(image: &ImageReport) -> String {
    let mut parts = Vec::new();
    match (&image.target, image.code_object_version) {
        (Some(target), Some(version)) => parts.push(format!("{target}, code object {version}")),
        _ => parts.push(image.content.describe().to_owned()),
    }
    if let Some(entry) = &image.entry {
        parts.push(format!("entry {} at offset {:#x}", entry.id, image.file_offset));
    }
    if let Some(compression) = image.compression {
        let (method, version) = (compression.method.as_str(), compression.version);
        let (from, to) = (compression.compressed_bytes, compression.uncompressed_bytes);
        parts.push(format!("in a {method} bundle (v{version}, {from} of {to} bytes)"));
    }
    parts.push(format!("{} bytes", image.bytes));
    if let (Some(memory), Some(relocations)) = (image.memory_bytes, image.relocations) {
        parts.push(format!("{memory} bytes in memory, {}", counted(relocations, "relocation")));
    }
    if image.target.is_some() {
        parts.push(counted(image.kernels.len(), "kernel"));
    }
    parts.join("; ")
}

fn name(mangled: &str) -> String {
    units::shorten(&kbench_profile::names::canonical(mangled), 60)
}

fn plain_table<'a>(header: impl IntoIterator<Item = &'a str>, numbers_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in table.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn resources(reports: &[KernelReport]) -> Table {
    let per_unit = match reports.iter().find_map(|report| report.occupancy) {
        Some(occupancy) => format!("WGs/{}", occupancy.unit.as_str()),
        None => "WGs/CU".to_owned(),
    };
    let header = [
        "kernel",
        "code",
        "VGPRs",
        "AGPRs",
        "SGPRs",
        "spills",
        "LDS",
        "scratch",
        "kernarg",
        "wave",
        "block",
        "waves/SIMD",
        &per_unit,
        "limited by",
    ];
    let mut table = plain_table(header, 1);
    for report in reports {
        let kernel = &report.kernel;
        let spills = match (kernel.vgpr_spills, kernel.sgpr_spills) {
            (None, None) => "?".to_owned(),
            (vgprs, sgprs) => (vgprs.unwrap_or(0) + sgprs.unwrap_or(0)).to_string(),
        };
        let dynamic = if kernel.uses_dynamic_stack { "+" } else { "" };
        let [block, waves, workgroups, limiter] = occupancy_cells(report.occupancy);
        table.add_row([
            name(&kernel.name),
            kernel.code_size.to_string(),
            kernel.vgprs.to_string(),
            kernel.agprs.to_string(),
            kernel.sgprs.to_string(),
            spills,
            kernel.lds_bytes.to_string(),
            format!("{}{dynamic}", kernel.scratch_bytes),
            kernel.kernarg_size.to_string(),
            kernel.wave_size.to_string(),
            block,
            waves,
            workgroups,
            limiter,
        ]);
    }
    table
}

fn occupancy_cells(occupancy: Option<Occupancy>) -> [String; 4] {
    match occupancy {
        None => std::array::from_fn(|_| "–".to_owned()),
        Some(occupancy) => [
            occupancy.block.to_string(),
            units::significant(occupancy.waves_per_simd, 3),
            occupancy.workgroups.to_string(),
            occupancy.limiter.as_str().to_owned(),
        ],
    }
}

fn details(out: &mut dyn Write, report: &KernelReport) -> io::Result<()> {
    let kernel = &report.kernel;
    writeln!(out, "\n{}", kernel.name)?;
    writeln!(
        out,
        "  descriptor {} at {:#x}, entry at {:#x}, {} bytes of code",
        kernel.symbol, kernel.descriptor_address, kernel.entry_address, kernel.code_size
    )?;
    if let Some([x, y, z]) = kernel.reqd_workgroup {
        writeln!(out, "  needs workgroups of {x} x {y} x {z}")?;
    } else if let Some(most) = kernel.max_workgroup {
        writeln!(out, "  compiled for workgroups of at most {most} work-items")?;
    }
    writeln!(out, "  arguments ({} bytes, aligned to {})", kernel.kernarg_size, kernel.kernarg_align)?;
    for arg in &kernel.args {
        writeln!(out, "    {}", argument(arg))?;
    }
    for (key, value) in descriptor_fields(&kernel.descriptor) {
        writeln!(out, "  {key:<28} {value}")?;
    }
    for (key, value) in &kernel.other {
        writeln!(out, "  {key:<28} {value}")?;
    }
    Ok(())
}

fn argument(arg: &Arg) -> String {
    let mut text = format!("{:>4} +{:<3} {}", arg.offset, arg.size, arg.kind);
    for part in [&arg.type_name, &arg.name].into_iter().flatten() {
        text.push_str(&format!(" {part}"));
    }
    let access = arg.actual_access.as_ref().or(arg.access.as_ref());
    let words = [
        arg.address_space.as_ref().map(|space| space.as_str()),
        access.map(|access| access.as_str()),
        arg.is_const.then_some("const"),
        arg.is_restrict.then_some("restrict"),
        arg.is_volatile.then_some("volatile"),
    ];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    if words.is_empty() { text } else { format!("{text} ({})", words.join(", ")) }
}

/// The descriptor's fields that are set, or that tell something by not being set.
fn descriptor_fields(descriptor: &KernelDescriptor) -> Vec<(&'static str, String)> {
    let KernelDescriptor { rsrc1, rsrc2, rsrc3, code_properties, kernarg_preload, .. } = descriptor;
    let words = format!("{:#010x} {:#010x} {:#010x}", rsrc1.raw, rsrc2.raw, rsrc3.raw);
    let mut fields =
        vec![("compute_pgm_rsrc1 2 3", words), ("allocated VGPRs", descriptor.allocated_vgprs().to_string())];
    if let Some(sgprs) = descriptor.allocated_sgprs() {
        fields.push(("allocated SGPRs", sgprs.to_string()));
    }
    if let Some(offset) = rsrc3.accum_offset {
        fields.push(("first AGPR at", offset.to_string()));
    }
    fields.push((
        "f32 rounding, subnormals",
        format!("{:?}, {:?}", rsrc1.float_round_mode_32, rsrc1.float_denorm_mode_32),
    ));
    let mode = format!("{:?}, {:?}", rsrc1.float_round_mode_16_64, rsrc1.float_denorm_mode_16_64);
    fields.push(("f16 f64 rounding, subnormals", mode));
    fields.push(("user SGPRs", rsrc2.user_sgpr_count.to_string()));
    if kernarg_preload.length_dwords > 0 {
        let (length, offset) = (kernarg_preload.length_dwords, kernarg_preload.offset_dwords);
        fields.push(("preloaded arguments", format!("{length} dwords from dword {offset}")));
    }
    fields.push(("work-item ids", format!("{:?}", rsrc2.enable_vgpr_workitem_id)));
    let flags = [
        ("dx10_clamp", rsrc1.dx10_clamp),
        ("ieee_mode", rsrc1.ieee_mode),
        ("fp16_overflow", rsrc1.fp16_overflow),
        ("wgp_mode", rsrc1.wgp_mode),
        ("mem_ordered", rsrc1.mem_ordered),
        ("fwd_progress", rsrc1.fwd_progress),
        ("wg_rr_en", rsrc1.wg_rr_en),
        ("tg_split", rsrc3.tg_split),
        ("private_segment", Some(rsrc2.enable_private_segment)),
        ("workgroup_id_x", Some(rsrc2.enable_sgpr_workgroup_id_x)),
        ("workgroup_id_y", Some(rsrc2.enable_sgpr_workgroup_id_y)),
        ("workgroup_id_z", Some(rsrc2.enable_sgpr_workgroup_id_z)),
        ("private_segment_buffer", Some(code_properties.enable_sgpr_private_segment_buffer)),
        ("dispatch_ptr", Some(code_properties.enable_sgpr_dispatch_ptr)),
        ("queue_ptr", Some(code_properties.enable_sgpr_queue_ptr)),
        ("kernarg_segment_ptr", Some(code_properties.enable_sgpr_kernarg_segment_ptr)),
        ("dispatch_id", Some(code_properties.enable_sgpr_dispatch_id)),
        ("flat_scratch_init", Some(code_properties.enable_sgpr_flat_scratch_init)),
        ("private_segment_size", Some(code_properties.enable_sgpr_private_segment_size)),
        ("dynamic_stack", Some(code_properties.uses_dynamic_stack)),
    ];
    let set: Vec<&str> = flags.iter().filter(|(_, value)| *value == Some(true)).map(|(name, _)| *name).collect();
    fields.push(("enabled", set.join(" ")));
    fields
}

fn compared(out: &mut dyn Write, candidate: &str, comparison: &FileComparison) -> io::Result<()> {
    writeln!(out, "base {}, candidate {candidate}", comparison.base)?;
    for object in &comparison.code_objects {
        let [base, candidate] = &object.comparison.targets;
        let targets = if base == candidate { base.clone() } else { format!("{base} -> {candidate}") };
        let verdict = if object.same { ": nothing differs" } else { "" };
        writeln!(out, "\n{targets}{verdict}")?;
        if !object.comparison.kernels.is_empty() {
            writeln!(out, "\n{}", differences(object))?;
        }
        for name in &object.comparison.added {
            writeln!(out, "added: {name}")?;
        }
        for name in &object.comparison.removed {
            writeln!(out, "removed: {name}")?;
        }
    }
    for target in &comparison.added_targets {
        writeln!(out, "only in the candidate: code for {target}")?;
    }
    for target in &comparison.removed_targets {
        writeln!(out, "only in the base: code for {target}")?;
    }
    Ok(())
}

fn differences(object: &ObjectComparison) -> Table {
    let mut table =
        plain_table(["kernel", "machine code", "arguments", "waves/SIMD", "differences (base -> candidate)"], 5);
    for (kernel, [base, candidate]) in object.comparison.kernels.iter().zip(&object.occupancy) {
        let waves = |occupancy: &Option<Occupancy>| match occupancy {
            Some(occupancy) => units::significant(occupancy.waves_per_simd, 3),
            None => "–".to_owned(),
        };
        let (before, after) = (waves(base), waves(candidate));
        let figures: Vec<String> = kernel.differences.iter().map(difference).collect();
        table.add_row([
            name(&kernel.name),
            kernel.code.as_str().to_owned(),
            if kernel.same_arguments { "same" } else { "different" }.to_owned(),
            if before == after { before } else { format!("{before} -> {after}") },
            if figures.is_empty() { "none".to_owned() } else { figures.join(", ") },
        ]);
    }
    table
}

fn difference(difference: &Difference) -> String {
    // Words of the descriptor are bit fields.
    let hex = difference.field.starts_with("compute_pgm") || difference.field.ends_with("properties");
    let text = |value: Option<u64>| match value {
        Some(value) if hex => format!("{value:#x}"),
        Some(value) => value.to_string(),
        None => "?".to_owned(),
    };
    format!("{} {} -> {}", difference.field, text(difference.base), text(difference.candidate))
}
