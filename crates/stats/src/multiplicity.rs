//! Correction of p-values for testing several cases at once.

use crate::StatsError;

/// Which error the correction bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// The chance of even one false finding among all cases (Holm 1979). Valid for any dependence.
    Holm,
    /// The expected share of false findings among all findings (Benjamini and Hochberg 1995). Valid for independent and
    /// for positively dependent cases.
    BenjaminiHochberg,
    /// None: each case errs at its own level.
    None,
}

impl Correction {
    /// Adjusted p-values in the order given: a case is a finding at level α when its adjusted value is at most α.
    ///
    /// # Errors
    /// [`StatsError::OutOfRange`] when a value is not in 0..=1.
    pub fn adjust(self, p: &[f64]) -> Result<Vec<f64>, StatsError> {
        if let Some(index) = p.iter().position(|p| !(0.0..=1.0).contains(p)) {
            return Err(StatsError::OutOfRange { index, value: p[index] });
        }
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
        let count = p.len() as f64;
        let mut adjusted = p.to_vec();
        match self {
            Correction::None => {}
            Correction::Holm => {
                let mut largest = 0.0_f64;
                for (place, &case) in order.iter().enumerate() {
                    largest = largest.max((count - place as f64) * p[case]).min(1.0);
                    adjusted[case] = largest;
                }
            }
            Correction::BenjaminiHochberg => {
                let mut smallest = 1.0_f64;
                for (place, &case) in order.iter().enumerate().rev() {
                    smallest = smallest.min(count / (place + 1) as f64 * p[case]);
                    adjusted[case] = smallest;
                }
            }
        }
        Ok(adjusted)
    }

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Correction::Holm => "holm",
            Correction::BenjaminiHochberg => "benjamini_hochberg",
            Correction::None => "none",
        }
    }
}
