//! Names of the formats of typed buffers.

use super::Text;

/// ` format:[..]`, left out for the default.
pub(super) fn write(out: &mut Text, format: u8) {
    match out.arch.is_gfx11() {
        true => gfx11(out, format),
        false => gfx9(out, format),
    }
}

const DATA_FORMATS: [&str; 16] = [
    "INVALID",
    "8",
    "16",
    "8_8",
    "32",
    "16_16",
    "10_11_11",
    "11_11_10",
    "10_10_10_2",
    "2_10_10_10",
    "8_8_8_8",
    "32_32",
    "16_16_16_16",
    "32_32_32",
    "32_32_32_32",
    "RESERVED_15",
];
const NUMBER_FORMATS: [&str; 8] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"];

/// A typed format of GFX9; 8-bit UNORM is the default and left out, and so is a default half of another one.
fn gfx9(out: &mut Text, format: u8) {
    let (data, number) = (usize::from(format & 15), usize::from(format >> 4));
    let names = (DATA_FORMATS.get(data), NUMBER_FORMATS.get(number));
    let (Some(data_name), Some(number_name)) = names else { return };
    match (data, number) {
        (1, 0) => {}
        (_, 0) => out.push(format_args!(" format:[BUF_DATA_FORMAT_{data_name}]")),
        (1, _) => out.push(format_args!(" format:[BUF_NUM_FORMAT_{number_name}]")),
        _ => out.push(format_args!(" format:[BUF_DATA_FORMAT_{data_name},BUF_NUM_FORMAT_{number_name}]")),
    }
}

/// The layouts of GFX11's formats in the order of their numbers, each with the numeric formats that it has.
const UNIFIED: [(&str, &[&str]); 14] = [
    ("8", &INTEGERS),
    ("16", &ALL),
    ("8_8", &INTEGERS),
    ("32", &WIDE),
    ("16_16", &ALL),
    ("10_11_11", &["FLOAT"]),
    ("11_11_10", &["FLOAT"]),
    ("10_10_10_2", &["UNORM", "SNORM", "UINT", "SINT"]),
    ("2_10_10_10", &INTEGERS),
    ("8_8_8_8", &INTEGERS),
    ("32_32", &WIDE),
    ("16_16_16_16", &ALL),
    ("32_32_32", &WIDE),
    ("32_32_32_32", &WIDE),
];
const INTEGERS: [&str; 6] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT"];
const ALL: [&str; 7] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "FLOAT"];
const WIDE: [&str; 3] = ["UINT", "SINT", "FLOAT"];

/// A typed format of GFX11: one number for layout and numeric format; 1, 8-bit UNORM, is the default.
fn gfx11(out: &mut Text, format: u8) {
    if format <= 1 {
        return out.flag("format:[BUF_FMT_INVALID]", format == 0);
    }
    let mut names = UNIFIED.iter().flat_map(|(layout, numbers)| numbers.iter().map(move |number| (layout, number)));
    match names.nth(usize::from(format) - 1) {
        Some((layout, number)) => out.push(format_args!(" format:[BUF_FMT_{layout}_{number}]")),
        None => out.push(format_args!(" format:{format}")),
    }
}
