//! The position of a value on an axis, in per cent of the axis' length.
//!
//! An axis is linear and begins at zero. If its values span more than a factor of [`WIDE`], it is logarithmic instead,
//! because small values could not be told apart.

/// Values that differ by more than this factor are drawn on a logarithmic axis.
const WIDE: f64 = 30.0;

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ChartScale {
    /// From zero to this value.
    Linear(f64),
    /// From the first power of ten to the second.
    Logarithmic(i32, i32),
}

impl ChartScale {
    /// The axis for the positive ones of `values`; `None` if there are none.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the logarithm of a finite number is below 400"
    )]
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let is_shown = |value: &f64| *value > 0.0 && value.is_finite();
        let values: Vec<f64> = values.into_iter().filter(is_shown).collect();
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        if most <= WIDE * least {
            return Some(Self::Linear(most * 1.04));
        }
        // The axis starts below the least value, so that its dot is not at the edge.
        let (low, high) = ((least * 0.8).log10().floor(), most.log10().ceil());
        Some(Self::Logarithmic(low as i32, high as i32))
    }

    /// The position of `value`, from 0 to 100. A value outside of the axis is placed at its end.
    pub(super) fn place(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(low, high) => {
                let low = f64::from(low);
                (value.max(f64::MIN_POSITIVE).log10() - low) / (f64::from(high) - low)
            }
        };
        share.clamp(0.0, 1.0) * 100.0
    }

    /// The values that have a tick, and whether the tick has a label. There are few enough labels for a phone.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a quotient below five"
    )]
    pub(super) fn ticks(self) -> Vec<(f64, bool)> {
        const MOST: i32 = 4;
        match self {
            Self::Linear(most) => {
                let unit = 10_f64.powf((most / f64::from(MOST)).log10().floor());
                let is_enough = |step: &f64| most / step <= f64::from(MOST);
                let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * unit);
                let step = step.into_iter().find(is_enough).unwrap_or(10.0 * unit);
                let count = (most / step).floor() as u32;
                let tick = |tick| (f64::from(tick) * step, true);
                (0..=count).map(tick).collect()
            }
            Self::Logarithmic(low, high) => {
                let every = (high - low - 1) / MOST + 1;
                let tick = |power| (10_f64.powi(power), (power - low) % every == 0);
                (low..=high).map(tick).collect()
            }
        }
    }

    /// What readers must know about the axis.
    pub(super) const fn in_words(self) -> &'static str {
        match self {
            Self::Linear(_) => "The scale is linear and begins at zero.",
            Self::Logarithmic(..) => {
                "The scale is logarithmic: each step to the right is ten times as much."
            }
        }
    }
}

#[cfg(test)]
#[path = "scale_test.rs"]
mod tests;
