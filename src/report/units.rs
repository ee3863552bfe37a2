//! Numbers for people: units, and no more digits than the interval supports.

/// A duration in ns with a unit and about `digits` significant digits: `12.3 µs`.
pub fn time(ns: f64, digits: usize) -> String {
    let (value, unit) = match ns.abs() {
        ns_abs if ns_abs < 1e3 => (ns, "ns"),
        ns_abs if ns_abs < 1e6 => (ns / 1e3, "µs"),
        ns_abs if ns_abs < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", significant(value, digits))
}

/// A median with its interval: `12.34 µs ±0.4 %`; digits follow from the interval's width, and an unknown interval is
/// said so.
pub fn time_with_interval(median_ns: f64, interval: Option<[f64; 2]>) -> String {
    match relative_half_width(median_ns, interval) {
        Some(half) => format!("{} ±{} %", time(median_ns, digits_for(half)), significant(half * 100.0, 2)),
        None => format!("{} ±?", time(median_ns, 3)),
    }
}

/// Half the interval's width over the median.
pub fn relative_half_width(median_ns: f64, interval: Option<[f64; 2]>) -> Option<f64> {
    interval.filter(|_| median_ns > 0.0).map(|[low, high]| (high - low) / 2.0 / median_ns)
}

/// Significant digits that a relative uncertainty supports, 2 to 5.
fn digits_for(relative: f64) -> usize {
    match relative {
        r if r > 0.05 => 2,
        r if r > 0.005 => 3,
        r if r > 0.0005 => 4,
        _ => 5,
    }
}

/// A number with about `digits` significant digits, never in exponent form.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

/// A share as percent: `12.3 %`; what is too small to show is said to be so, not 0.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        value if value < 0.1 => "<0.1 %".to_owned(),
        value => format!("{value:.1} %"),
    }
}

/// Bytes with a decimal unit: `1.16 GB`.
pub fn bytes(bytes: u128) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit < UNITS.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", if unit == 0 { format!("{bytes}") } else { significant(value, 3) }, UNITS[unit])
}

/// A count with a decimal unit: `37.1 G`.
pub fn count(count: u128) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit < UNITS.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    let number = if unit == 0 { format!("{count}") } else { significant(value, 3) };
    format!("{number} {}", UNITS[unit]).trim_end().to_owned()
}

/// Shortens text to `width` characters with an ellipsis in the middle, so that both the start and the telling end of a
/// kernel name stay.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 5 {
        return text.to_owned();
    }
    let tail = (width - 1) / 3;
    let head: String = text.chars().take(width - 1 - tail).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{head}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time(1.5, 3), "1.50 ns");
        assert_eq!(time(12_345.0, 3), "12.3 µs");
        assert_eq!(time(1_234_567.0, 4), "1.235 ms");
        assert_eq!(time(2.5e9, 2), "2.5 s");
    }

    #[test]
    fn digits_follow_the_interval() {
        assert_eq!(time_with_interval(123_456.0, Some([123_450.0, 123_460.0])), "123.46 µs ±0.0041 %");
        assert_eq!(time_with_interval(123_456.0, Some([110_000.0, 136_000.0])), "123 µs ±11 %");
        assert_eq!(time_with_interval(123_456.0, None), "123 µs ±?");
    }

    #[test]
    fn small_shares_are_not_zero() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.1234), "12.3 %");
    }

    #[test]
    fn bytes_and_counts() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_158_266_880), "1.16 GB");
        assert_eq!(count(12), "12");
        assert_eq!(count(37_000_000_000), "37.0 G");
    }

    #[test]
    fn shortening_keeps_both_ends() {
        let short = shorten("Cijk_Alik_Bljk_BBS_BH_MT128x224x64", 17);
        assert_eq!(short.chars().count(), 17);
        assert!(short.starts_with("Cijk_Alik_B") && short.ends_with("24x64"), "{short}");
    }
}
