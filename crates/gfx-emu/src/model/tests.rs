use super::*;
use crate::isa::{Class, Op};

#[test]
fn every_model_is_read_and_found_by_either_name() {
    assert_eq!(Model::all().len(), 8);
    for model in Model::all() {
        assert_eq!(Model::named(&model.name.to_uppercase()).unwrap().name, model.name);
        assert_eq!(Model::named(&model.marketing_name).unwrap().name, model.name);
    }
    let error = Model::named("mi999").unwrap_err().to_string();
    assert!(error.contains("mi999") && error.contains("mi300x"), "{error}");
}

/// AMD's published totals (facts/aiter-kernels.md 7.2): CUs, and dense matrix TFLOP/s of f16, f8 and f6f4.
#[test]
fn peaks_agree_with_published_totals() {
    let published = [
        ("mi210", 104, 181.0, None, None),
        ("mi250x", 110, 383.0 / 2.0, None, None),
        ("mi300a", 228, 980.6, Some(1961.2), None),
        ("mi300x", 304, 1307.4, Some(2614.9), None),
        ("mi325x", 304, 1307.4, Some(2614.9), None),
        ("mi350x", 256, 2306.9, Some(4613.7), Some(9227.5)),
        ("mi355x", 256, 2516.6, Some(5033.2), Some(10066.3)),
    ];
    for (name, cus, f16, f8, f6f4) in published {
        let model = Model::named(name).unwrap();
        assert_eq!(model.cus(), cus, "{name}");
        let peak = |input| model.peak_matrix_flops(input).map(|flops| flops / 1e12);
        assert!((peak(MatrixInput::F16).unwrap() - f16).abs() < 0.1, "{name} {:?}", peak(MatrixInput::F16));
        for (input, wanted) in [(MatrixInput::F8, f8), (MatrixInput::F6f4, f6f4)] {
            assert_eq!(peak(input).is_some(), wanted.is_some(), "{name} {input:?}");
            assert!((peak(input).unwrap_or(0.0) - wanted.unwrap_or(0.0)).abs() < 0.1, "{name} {input:?}");
        }
    }
}

/// A figure that is not public stays out, and with it what would be computed from it.
#[test]
fn unknown_figures_are_absent() {
    let model = Model::named("mi308x").unwrap();
    assert_eq!((model.cus(), model.clock_hz()), (80, None));
    assert!(model.hbm_bytes_per_second.is_none() && model.peak_matrix_flops(MatrixInput::F16).is_none());
    assert!(Model::named("mi210").unwrap().mall_bytes.is_none());
}

/// The cycles of the instructions and the peak FLOPs come from different documents: the fastest dense instruction of each type
/// gives exactly the peak, no instruction of it more.
#[test]
fn cycles_and_peak_rates_agree_for_every_matrix_type() {
    for name in ["mi210", "mi300x", "mi355x"] {
        let machine = &Model::named(name).unwrap().machine;
        for input in MatrixInput::ALL {
            let mut best = 0.0_f64;
            for op in Op::all().filter(|op| op.class() == Class::Mfma && op.is_on(machine.arch)) {
                let mut matrix = MatrixOp::of(op).unwrap();
                if op.name().ends_with("f8f6f4") && input == MatrixInput::F6f4 {
                    matrix.input = input;
                }
                let cycles = machine.matrix_cycles.cycles(op, matrix.input);
                let cycles = cycles.unwrap_or_else(|| panic!("{} lacks {}", machine.arch.name(), op.name()));
                if matrix.input == input && !matrix.sparse {
                    best = best.max(matrix.flops() as f64 * 4.0 / f64::from(cycles));
                }
            }
            assert_eq!(best, machine.flops_per_clock_per_cu.matrix(input).unwrap_or(0.0), "{name} {input:?}");
        }
    }
}

#[test]
fn caches_are_those_of_the_traffic_model() {
    assert_eq!(Model::named("mi210").unwrap().caches(), Shape::CDNA2);
    assert_eq!(Model::named("mi300x").unwrap().caches(), Shape::CDNA3);
    assert_eq!(Model::named("mi355x").unwrap().caches(), Shape::CDNA4);
    let options = Model::named("mi355x").unwrap().launch_options();
    assert_eq!((options.xcds, options.cus_per_xcd, options.lds_per_cu), (8, 32, 163_840));
}

#[test]
fn a_model_of_ones_own_is_read_and_a_wrong_one_told() {
    let text = "name = 'half'\nmarketing_name = 'Half'\narch = 'gfx942'\n\
        xcds = { value = 4, source = 'mine' }\ncus_per_xcd = { value = 38, source = 'mine' }\n";
    assert_eq!(Model::from_toml(text).unwrap().cus(), 152);
    let wrong = |from: &str, to: &str| Model::from_toml(&text.replace(from, to)).unwrap_err().to_string();
    assert!(wrong("gfx942", "gfx1100").contains("gfx1100"));
    assert!(wrong("value = 4", "value = 0").contains("0 XCDs"));
    assert!(wrong("xcds", "xcd").contains("xcd"));
    assert!(Model::from_toml(&format!("{text}clock_mhz = {{ value = nan, source = 'x' }}")).is_err());
}

#[test]
fn every_figure_has_a_source() {
    for text in DEVICE_FILES.iter().chain(ARCH_FILES.iter().map(|(_, text)| text)) {
        assert!(text.contains("source = ") && !text.contains("source = \"\""));
    }
}

proptest::proptest! {
    /// No text makes the reader panic, whatever is put in the place of a line.
    #[test]
    fn any_text_is_read_or_refused(line in 0_usize..12, text in "[ -~]{0,40}", file in 0_usize..8) {
        let mut lines: Vec<&str> = DEVICE_FILES[file].lines().collect();
        let at = line.min(lines.len() - 1);
        lines[at] = &text;
        let _ = Model::from_toml(&lines.join("\n"));
    }
}
