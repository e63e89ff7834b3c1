//! One VMM with one kind of traffic: the source, which is the VM that is paused and saved. It stays for many instants.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;

use super::args::SweepArgs;
use super::observe::started;
use super::vm::{SweepFolder, SweepGuest, SweptVm, SweptVmm, VmError};
use vmbell_bench::timing;
use vmbell_report::Timing;
use vmbell_sweep::guest::{Ready, steps_after};
use vmbell_sweep::instant::Instant;
use vmbell_sweep::report::Traffic;

/// What the limiter holds back a request for. Cloud Hypervisor's own timer rounds it up to 100 ms.
const LIMITER_MS: u32 = 20;
const LIMITED: Duration = Duration::from_millis(100);
/// The guest's bound with and without a limiter.
const BOUNDS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(100)];
/// The range of the delays without a limiter.
const RANGE: Duration = Duration::from_millis(2);
/// The answers of a step without a limiter.
const STEP: u32 = 16;

/// The sweep of one VMM with one kind of traffic.
pub(super) struct TrafficSweep<'a> {
    pub(super) args: &'a SweepArgs,
    pub(super) desk: &'a SweepFolder<'a>,
    pub(super) vmm: &'a dyn SweptVmm,
    pub(super) traffic: Traffic,
    pub(super) source: Option<Source>,
}

/// The VM that is paused and saved.
pub(super) struct Source {
    pub(super) vm: Box<dyn SweptVm>,
    pub(super) ready: Ready,
    /// Whether it was paused before its traffic.
    pub(super) has_learned: bool,
    /// The descriptors of the eventfds that are unread at a pause without a request: the VMM's own, by which it pauses.
    pub(super) own: Option<BTreeSet<u32>>,
}

impl Source {
    /// Goes on with another process that has the same guest.
    pub(super) fn replace(&mut self, vm: Box<dyn SweptVm>) {
        self.vm = vm;
        // It has other descriptors.
        self.own = None;
    }
}

/// Why no instant of a kind of traffic can be tried.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The guest has no such traffic with this VMM.
    HasNone(String),
    /// The VMM failed.
    Failed(String),
    /// This host, this user's rights or a description do not allow the sweep.
    Host(anyhow::Error),
    /// The command has to stop.
    Stopped,
}

impl From<anyhow::Error> for Obstacle {
    fn from(error: anyhow::Error) -> Self {
        Self::Host(error)
    }
}

impl<'a> TrafficSweep<'a> {
    pub(super) fn new(
        args: &'a SweepArgs,
        desk: &'a SweepFolder<'a>,
        vmm: &'a dyn SweptVmm,
        traffic: Traffic,
    ) -> Self {
        Self {
            args,
            desk,
            vmm,
            traffic,
            source: None,
        }
    }

    fn limiter_ms(&self) -> u32 {
        match self.traffic.limited {
            true => LIMITER_MS,
            false => 0,
        }
    }

    fn bound(&self) -> Duration {
        BOUNDS[usize::from(!self.traffic.limited)]
    }

    /// Whether an emulator runs the guest's CPU.
    pub(super) fn is_emulated(&self) -> bool {
        self.vmm.accelerator() == "tcg" || !matches!(timing::here(), Ok(Timing::Native))
    }

    /// The answers of a step.
    fn step(&self) -> u32 {
        if self.traffic.limited { 1 } else { STEP }
    }

    /// The steps that a guest has to make after an event.
    pub(super) fn steps(&self, ready: &Ready) -> u64 {
        steps_after(ready.in_flight, self.step())
    }

    /// The longest time in which a guest goes on, or prints that something is lost and what revived it.
    pub(super) fn judge_limit(&self) -> Duration {
        let answers = steps_after(self.traffic.in_flight, 1);
        let limited = match self.traffic.limited {
            true => LIMITED * u32::try_from(answers).unwrap_or(u32::MAX),
            false => Duration::ZERO,
        };
        4 * self.bound() + limited + Duration::from_secs(2)
    }

    pub(super) fn cmdline(&self) -> String {
        let Traffic {
            device,
            wait,
            event_idx,
            packed,
            in_flight,
            ..
        } = self.traffic;
        format!(
            "sweep={} wait={} inflight={in_flight} bound={} step={}{}{}",
            device.name(),
            wait.name(),
            self.bound().as_micros(),
            self.step(),
            if event_idx { " eventidx" } else { "" },
            if packed { " packed" } else { "" }
        )
    }

    /// The instant with this number.
    pub(super) fn instant(&self, number: u32) -> Instant {
        let range = match self.limiter_ms() {
            0 => RANGE,
            ms => Duration::from_millis(ms.into()),
        };
        let range = u64::try_from(range.as_nanos()).unwrap_or(u64::MAX);
        Instant::new(number, self.args.seed, range)
    }

    /// Starts the source unless it runs, and returns its rings.
    pub(super) fn start(&mut self) -> Result<Ready, Obstacle> {
        if let Some(source) = &self.source {
            return Ok(source.ready);
        }
        let cmdline = self.cmdline();
        let vm = self.vmm.start(&self.guest(&cmdline));
        let mut vm = vm.map_err(|error| match error {
            VmError::Stopped => Obstacle::Stopped,
            VmError::Host(error) => Obstacle::Host(error),
            error @ (VmError::Vmm(_) | VmError::TimedOut(_)) => Obstacle::Failed(error.to_string()),
        })?;
        let ready = started(vm.as_mut(), self.args.start_timeout, self.desk.limit)?;
        self.source = Some(Source {
            vm,
            ready,
            has_learned: false,
            own: None,
        });
        Ok(ready)
    }

    pub(super) fn guest<'g>(&'g self, cmdline: &'g str) -> SweepGuest<'g> {
        SweepGuest {
            desk: self.desk,
            cmdline,
            traffic: &self.traffic,
            limiter_ms: self.limiter_ms(),
        }
    }
}
