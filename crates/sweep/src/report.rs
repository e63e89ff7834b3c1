//! The result of a sweep. Its JSON is this model. A shard has the same model with a part of the instants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnosis::Fault;
use crate::edit::Edit;
use crate::guest::{Help, Loss, Wait};
use crate::instant::{Instant, Shard};
use crate::process::UnreadEventfd;
use crate::ring::{OpenRing, RingState};
use crate::verdict::Verdict;

/// The version of the JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// The device that the guest uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A disk, which is read.
    Blk,
    /// An entropy device.
    Rng,
    /// A network card, which sends frames.
    Net,
}

impl Device {
    /// The name, as in the guest's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blk => "blk",
            Self::Rng => "rng",
            Self::Net => "net",
        }
    }
}

/// The guest's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Traffic {
    /// The device.
    pub device: Device,
    /// How the guest waits for answers.
    pub wait: Wait,
    /// Whether the guest asks for EVENT_IDX.
    pub event_idx: bool,
    /// Whether the ring is packed.
    pub packed: bool,
    /// The maximum number of requests in flight.
    pub in_flight: u16,
    /// Whether the VMM's rate limiter keeps requests open.
    pub limited: bool,
}

/// How requests are kept open for longer, so that more pauses find one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// Not at all.
    None,
    /// By the VMM's own rate limiter, if the device has one.
    Limiter,
}

/// What is done to the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// Nothing: the control group.
    Control,
    /// The VM is paused and resumed.
    Pause,
    /// A snapshot of it is restored in a new process.
    Restore,
    /// Two processes restore the same snapshot and run at the same time.
    Clones,
    /// A snapshot is restored, and the next one is that of the restored VM.
    Chain,
    /// The VM migrates to another process while it runs.
    Migration,
}

impl Event {
    /// The name in options and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Pause => "pause",
            Self::Restore => "restore",
            Self::Clones => "clones",
            Self::Chain => "chain",
            Self::Migration => "migration",
        }
    }
}

/// One event at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstantResult {
    /// When.
    #[serde(flatten)]
    pub instant: Instant,
    /// What was open at the pause; nothing in the control group.
    pub open: OpenRing,
    /// The ring at the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingState>,
    /// The eventfds that were unread at the pause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadEventfd>,
    /// The verdict.
    pub verdict: Verdict,
    /// The fault, if a VM did not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What the first VM that did not go on printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Why the VMM failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// By what the same loss is known in the control group, where no ring was read, so that it may have another name.
#[derive(PartialEq, Eq)]
enum Symptom {
    /// The guest went on after this help.
    Help(Help),
    /// This fault, which does not depend on the ring.
    Fault(Fault),
}

impl InstantResult {
    fn symptom(&self) -> Option<Symptom> {
        use Fault::{DeviceDead, KickLost, KickOrRequestLost, RequestForgotten, Starvation};
        Some(match (self.fault?, self.loss) {
            (
                KickLost | RequestForgotten | KickOrRequestLost | DeviceDead | Starvation,
                Some(loss),
            ) => Symptom::Help(loss.help),
            (fault, _) => Symptom::Fault(fault),
        })
    }
}

/// All instants of one event, with one kind of traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventResults {
    /// The traffic.
    pub traffic: Traffic,
    /// The event.
    pub event: Event,
    /// Why this VMM or traffic does not have the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_none: Option<String>,
    /// The instants, by their numbers.
    pub instants: Vec<InstantResult>,
}

impl EventResults {
    /// The counts of its instants.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for result in &self.instants {
            counts.instants += 1;
            match result.verdict {
                Verdict::Lost => {
                    counts.lost += 1;
                    if let Some(fault) = result.fault {
                        *counts.faults.entry(fault).or_default() += 1;
                    }
                }
                Verdict::Emulator => counts.emulator += 1,
                Verdict::Starvation => counts.starvation += 1,
                Verdict::Inconclusive if result.fault.is_some() => counts.unexplained += 1,
                Verdict::Kept => counts.kept += 1,
                Verdict::Inconclusive => {}
            }
        }
        counts
    }
}

/// Counts over the instants of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instants tried.
    pub instants: usize,
    /// Instants with something open, after which all VMs went on.
    pub kept: usize,
    /// Lost notifications.
    pub lost: usize,
    /// Failures that are explained by a bug of the emulator.
    pub emulator: usize,
    /// Failures that are explained by a thread that did not run.
    pub starvation: usize,
    /// Guests that did not go on although nothing was open, or not in each restore, or in the control group too.
    pub unexplained: usize,
    /// The names of the lost notifications.
    pub faults: BTreeMap<Fault, usize>,
}

impl Counts {
    /// The instants that say something about the VMM: a notification could be lost, and it is known whether it was. A
    /// VMM that failed lost its guest whatever was open.
    pub fn open(&self) -> usize {
        self.kept + self.lost
    }
}

/// A VMM of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptVmm {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `kvm` or `tcg`.
    pub accelerator: String,
    /// Why it was not swept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why the sweep of this VMM ended: it did not start, or started no guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Its results.
    pub events: Vec<EventResults>,
}

impl SweptVmm {
    /// Whether the same traffic fails in this way without the event too, so that the event is not its cause.
    pub fn control_has(&self, event: &EventResults, result: &InstantResult) -> bool {
        let is_control = |of: &&EventResults| {
            event.event != Event::Control
                && of.event == Event::Control
                && of.traffic == event.traffic
        };
        let control = self.events.iter().filter(is_control);
        control
            .flat_map(|control| &control.instants)
            .any(|of| of.fault.is_some() && of.symptom() == result.symptom())
    }

    /// Makes what the control group lost too inconclusive: the event did not lose it.
    pub fn excuse(&mut self) {
        let seen = self.clone();
        for (event, of) in self.events.iter_mut().zip(&seen.events) {
            for result in &mut event.instants {
                if result.verdict == Verdict::Lost && seen.control_has(of, result) {
                    result.verdict = Verdict::Inconclusive;
                }
            }
        }
    }
}

/// A sweep, or a shard of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepReport {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The seed of the instants.
    pub seed: u64,
    /// The number of instants of each event in the whole sweep.
    pub instants: u32,
    /// How requests are kept open.
    pub window: Window,
    /// How many more times a snapshot was restored whose guest hung.
    pub again: u32,
    /// The values of `--vmm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// Whether a repeated run gives the same result: only in the deterministic lab.
    pub repeats: bool,
    /// The fault that every snapshot was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
    /// The part of the sweep that this report has; `None` for the whole sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The VMMs.
    pub vmms: Vec<SweptVmm>,
}

/// What a sweep has shown, as an exit status tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// At least one VMM lost a notification, or did not run.
    Lost,
    /// Some event of a VMM never had anything open, or a guest did not go on for an unknown reason.
    Inconclusive,
    /// No notification was lost, and each event of each VMM had something open.
    NothingLost,
    /// No VMM could be swept.
    Skipped,
}

impl SweptVmm {
    /// What the sweep has shown about it. In the control group, only a failure of the VMM counts; an event that it does
    /// not have is no obstacle, and one that it has needs something open with some traffic.
    pub fn shown(&self) -> Shown {
        if self.skipped.is_some() {
            return Shown::Skipped;
        }
        let (mut has_lost, mut unexplained) = (self.failed.is_some(), 0);
        let mut kept = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.has_none.is_none()) {
            if event.event == Event::Control {
                let mut faults = event.instants.iter().map(|result| result.fault);
                has_lost |= faults.any(|fault| fault == Some(Fault::VmmFailed));
                continue;
            }
            let counts = event.counts();
            has_lost |= counts.lost != 0;
            unexplained += counts.unexplained;
            *kept.entry(event.event).or_insert(0) += counts.kept;
        }
        match () {
            () if has_lost => Shown::Lost,
            () if unexplained != 0 || kept.is_empty() => Shown::Inconclusive,
            () if kept.values().any(|kept| *kept == 0) => Shown::Inconclusive,
            () => Shown::NothingLost,
        }
    }

    fn has_event(&self) -> bool {
        let mut events = self.events.iter();
        events.any(|event| event.event != Event::Control && event.has_none.is_none())
    }
}

impl SweepReport {
    /// What the sweep has shown about all VMMs. One that has none of the events is no obstacle if another one has some.
    pub fn shown(&self) -> Shown {
        let swept = || self.vmms.iter().filter(|vmm| vmm.skipped.is_none());
        let with_event = || swept().filter(|vmm| vmm.has_event()).map(SweptVmm::shown);
        match () {
            () if swept().next().is_none() => Shown::Skipped,
            () if swept().any(|vmm| vmm.shown() == Shown::Lost) => Shown::Lost,
            () if with_event().next().is_none() => Shown::Inconclusive,
            () if with_event().any(|shown| shown == Shown::Inconclusive) => Shown::Inconclusive,
            () => Shown::NothingLost,
        }
    }
}

#[cfg(test)]
#[path = "report_test.rs"]
mod tests;
