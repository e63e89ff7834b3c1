//! Counts the exits of interrupts that a vCPU sends to itself and does not end, to tell the exits of EOIs from them.
//!
//! An interrupt of a higher priority (class) is delivered while another is in service (Intel SDM vol. 3, 13.8.3; Arm
//! IHI 0069, "Preemption"), so a guest takes several without an EOI. It ends them in a separate, uncounted entry.

use super::super::guest::{GuestRun, ScenarioGuest};
use crate::{RunSample, SubjectError};
use vmbell_guest::Parameters;

/// What the program does with its interrupts (`eoi.S`).
const LEAVE_IN_SERVICE: u64 = 1;
const END: u64 = 2;

/// The interrupts of the longer of two runs; the shorter run has one. On x86-64 each needs a higher priority class than
/// the last; from the programs' vector on there are 11 classes. On arm64 KVM keeps active interrupts in the CPU's list
/// registers, of which there may be only four, and delivers none when all are taken (Linux `vgic_irq_cmp`).
const MOST: u64 = if cfg!(target_arch = "aarch64") { 3 } else { 9 };

/// How often both runs are made. The median counts, so that a disturbed run has no effect.
const TRIES: usize = 9;

/// The exits of interrupts that are not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivalExits {
    /// `None` if the backend cannot count light exits.
    light: Option<ExitsOfTwoRuns>,
    heavy: ExitsOfTwoRuns,
}

/// The exits of both runs. Their difference is the cost of the interrupts, and the rest is the cost of entering the
/// guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ExitsOfTwoRuns {
    with_one: u64,
    with_most: u64,
}

impl ArrivalExits {
    /// Counts the exits of `guest`, which runs the EOI program.
    pub(super) fn count(guest: &mut ScenarioGuest) -> Result<Self, SubjectError> {
        let (mut one, mut most) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            one.push(leave(guest, 1)?);
            most.push(leave(guest, MOST)?);
        }
        let exits = |pick: fn(&RunSample) -> Option<u64>| {
            Some(ExitsOfTwoRuns {
                with_one: middle(&one, pick)?,
                with_most: middle(&most, pick)?,
            })
        };
        Ok(Self {
            light: exits(|sample| sample.light),
            heavy: exits(|sample| Some(sample.heavy)).unwrap_or_default(),
        })
    }

    /// Leaves only the exits of the EOIs in `sample`. Each of its operations was an interrupt and the EOI.
    pub(super) fn subtract(&self, sample: &mut RunSample) {
        let ops = sample.ops;
        let without = |all: u64, exits: ExitsOfTwoRuns| all.saturating_sub(exits.of(ops));
        let light = sample.light.zip(self.light);
        sample.light = light.map(|(all, exits)| without(all, exits));
        sample.heavy = without(sample.heavy, self.heavy);
    }
}

impl ExitsOfTwoRuns {
    /// The expected exits of a run with this number of interrupts.
    fn of(self, interrupts: u64) -> u64 {
        let more = self.with_most.saturating_sub(self.with_one);
        self.with_one + more * interrupts.saturating_sub(1) / (MOST - 1)
    }
}

/// Makes a run in which the guest takes `interrupts` without ending any. Then the guest ends them.
fn leave(guest: &mut ScenarioGuest, interrupts: u64) -> Result<RunSample, SubjectError> {
    let mut go = |value| -> Result<GuestRun, SubjectError> {
        guest.run(&Parameters {
            count: interrupts,
            value,
            ..Parameters::default()
        })
    };
    let run = go(LEAVE_IN_SERVICE)?;
    go(END)?;
    Ok(run.sample(interrupts, 0.0))
}

fn middle(samples: &[RunSample], pick: fn(&RunSample) -> Option<u64>) -> Option<u64> {
    let mut all = samples.iter().map(pick).collect::<Option<Vec<u64>>>()?;
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose entry costs two exits and whose interrupts cost one each.
    const EXITS: ExitsOfTwoRuns = ExitsOfTwoRuns {
        with_one: 3,
        with_most: 2 + MOST,
    };

    #[test]
    fn the_exits_of_the_run_and_of_its_interrupts_are_subtracted() {
        let arrival = ArrivalExits {
            light: Some(EXITS),
            heavy: ExitsOfTwoRuns::default(),
        };
        let mut sample = RunSample {
            ops: 1000,
            light: Some(2 + 1000 + 1000),
            heavy: 7,
            ..RunSample::default()
        };
        arrival.subtract(&mut sample);
        assert_eq!((sample.light, sample.heavy), (Some(1000), 7));
    }

    #[test]
    fn what_is_not_counted_stays_so() {
        let arrival = ArrivalExits {
            light: None,
            heavy: EXITS,
        };
        let mut sample = RunSample {
            ops: 10,
            heavy: 12,
            ..RunSample::default()
        };
        arrival.subtract(&mut sample);
        assert_eq!((sample.light, sample.heavy), (None, 0));
    }
}
