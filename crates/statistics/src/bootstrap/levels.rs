//! Two levels: reports are drawn with replacement, and in each drawn report its rounds (or boots, and their batches).
//!
//! A few reports scatter less around their own middle than around the true one, and resamples of them still less. So
//! their distances from the middle are first widened, by the ratio of the t distribution's width to the normal one's.
//! Everything is computed with logarithms, which turn ratios into differences.

use super::interval::{MIN_ROUNDS, ends};
use super::sorted::{Sorted, median_in_place};
use crate::Random;

/// The interval of the ratio of two sides that were measured separately. Each side has the logarithms of its reports'
/// samples. `None` if a side is empty or a single report with too few rounds.
pub fn of_sides(
    old: Vec<Sorted>,
    new: Vec<Sorted>,
    resamples: usize,
    random: &mut Random,
) -> Option<[f64; 2]> {
    let (mut old, mut new) = (Drawn::of(old)?, Drawn::of(new)?);
    interval(resamples, || new.draw(random) - old.draw(random))
}

/// The interval of the median of the turns' ratios; there are at least two turns.
pub fn of_turns(
    mut old: Vec<Sorted>,
    mut new: Vec<Sorted>,
    resamples: usize,
    random: &mut Random,
) -> Option<[f64; 2]> {
    let turns = new.iter().zip(&old);
    let ratios: Vec<f64> = turns
        .map(|(new, old)| new.median() - old.median())
        .collect();
    let mut drawn = ratios.clone();
    let centre = median_in_place(&mut drawn);
    let more = widening(ratios.len()) - 1.0;
    interval(resamples, || {
        for drawn in &mut drawn {
            let turn = random.below(ratios.len());
            let ratio = new[turn].resample(random) - old[turn].resample(random);
            *drawn = ratio + more * (ratios[turn] - centre);
        }
        median_in_place(&mut drawn)
    })
}

/// One side, with the values that its resampling needs.
struct Drawn {
    reports: Vec<Sorted>,
    medians: Vec<f64>,
    centre: f64,
    widening: f64,
    drawn: Vec<f64>,
}

impl Drawn {
    fn of(reports: Vec<Sorted>) -> Option<Self> {
        let widening = match reports.as_slice() {
            [] => return None,
            [only] if only.len() < MIN_ROUNDS => return None,
            [only] => widening(only.len()),
            several => widening(several.len()),
        };
        let medians: Vec<f64> = reports.iter().map(Sorted::median).collect();
        let mut drawn = medians.clone();
        Some(Self {
            reports,
            medians,
            centre: median_in_place(&mut drawn),
            widening,
            drawn,
        })
    }

    /// The logarithm of the side's median in one resample.
    fn draw(&mut self, random: &mut Random) -> f64 {
        if let [only] = self.reports.as_mut_slice() {
            return self.centre + self.widening * (only.resample(random) - self.centre);
        }
        for drawn in &mut self.drawn {
            let report = random.below(self.medians.len());
            let more = (self.widening - 1.0) * (self.medians[report] - self.centre);
            *drawn = self.reports[report].resample(random) + more;
        }
        median_in_place(&mut self.drawn)
    }
}

/// The ends of a ratio's interval, from draws of the ratio's logarithm.
fn interval(resamples: usize, mut draw: impl FnMut() -> f64) -> Option<[f64; 2]> {
    Some(ends(resamples, || Some(draw()))?.map(f64::exp))
}

/// How much wider `count` values must scatter for their resamples to cover the true middle as often as claimed: by
/// sqrt(n / (n - 1)), because they scatter around their own middle, and by the ratio of Student's t quantile to the
/// normal one, because their scatter is itself only an estimate.
fn widening(count: usize) -> f64 {
    const NORMAL: f64 = 1.959_964;
    let n = count as f64;
    let free = n - 1.0;
    let student = match count {
        0 | 1 => return 1.0,
        2 => 12.7062,
        3 => 4.3027,
        4 => 3.1824,
        5 => 2.7764,
        // The Cornish-Fisher expansion, whose error is below 0.003 from here on.
        _ => {
            let z = NORMAL;
            let first = (z.powi(3) + z) / (4.0 * free);
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * free.powi(2));
            let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z)
                / (384.0 * free.powi(3));
            z + first + second + third
        }
    };
    (n / free).sqrt() * student / NORMAL
}

#[cfg(test)]
#[path = "levels_test.rs"]
mod tests;
