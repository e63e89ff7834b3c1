//! One instant: waits for a step of the guest's traffic and for the instant's delay, does what the event says, and
//! judges. A snapshot is restored only if something is open.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::observe::{Peek, heard, judge, peek};
use super::traffic::{Obstacle, Source, TrafficSweep};
use super::vm::{MAX_SNAPSHOT, SweptVm, VmError};
use vmbell_sweep::diagnosis::{Behaviour, Paused};
use vmbell_sweep::guest::{GuestFault, Ready};
use vmbell_sweep::instant::Instant;
use vmbell_sweep::report::{Event, InstantResult};
use vmbell_sweep::ring::OpenRing;
use vmbell_sweep::verdict::{Verdict, verdict};

/// The restores of the clones event.
const CLONES: usize = 2;

/// When something was lost that the event did not lose.
const BEFORE: &str = "before the event";
/// The VM ran on while its memory was sent, with KVM's log of dirty pages.
const SENDING: &str = "before the event, or while memory was sent";

/// An instant that is being tried.
pub(super) struct Trial {
    pub(super) paused: Paused,
    pub(super) result: InstantResult,
}

impl Trial {
    fn new(instant: Instant, sweep: &TrafficSweep<'_>, ready: &Ready) -> Self {
        let open = OpenRing::default();
        Self {
            paused: Paused {
                open,
                taken: false,
                place: ready.place,
                event_idx: ready.event_idx,
                unread: None,
                source_went_on: None,
                wait: sweep.traffic.wait,
                emulated: sweep.is_emulated(),
                restored: false,
            },
            result: InstantResult {
                instant,
                open,
                ring: None,
                unread: Vec::new(),
                verdict: Verdict::Inconclusive,
                fault: None,
                loss: None,
                message: None,
            },
        }
    }

    /// Takes what was seen at the pause.
    fn saw(&mut self, peek: Peek, source: &mut Source) {
        let event_idx = source.ready.event_idx;
        self.paused.open = peek.ring.open(event_idx);
        self.paused.taken = peek.ring.taken(event_idx) == Some(true);
        let unread: BTreeSet<u32> = peek
            .unread
            .iter()
            .map(|eventfd| eventfd.descriptor)
            .collect();
        self.paused.unread = source.own.as_ref().map(|own| !unread.is_subset(own));
        self.result.open = self.paused.open;
        self.result.ring = Some(peek.ring);
        self.result.unread = peek.unread;
    }

    /// Judges the VMs after the event, in each round of restores.
    fn conclude(&mut self, rounds: &[Vec<Behaviour>]) {
        (self.result.verdict, self.result.fault) = verdict(&self.paused, rounds);
        let behaviours = || rounds.iter().flatten();
        self.result.loss = behaviours().find_map(|behaviour| match behaviour {
            Behaviour::Found(GuestFault::Lost(loss)) => Some(*loss),
            _ => None,
        });
        let message = behaviours().find_map(|behaviour| match behaviour {
            Behaviour::Failed(message) | Behaviour::Late(message) => Some(message.clone()),
            _ => None,
        });
        self.result.message = self.result.message.take().or(message);
    }

    /// Takes a fault from before the ring was read, so that it is unknown what was open.
    fn failed_before(&mut self, behaviour: Behaviour, when: &str) {
        self.conclude(&[vec![behaviour]]);
        self.result.verdict = Verdict::Inconclusive;
        self.note(when);
    }

    /// Says where the fault was.
    fn note(&mut self, text: &str) {
        let message = self.result.message.take();
        let message = message.map_or_else(String::new, |message| format!(": {message}"));
        self.result.message = Some(format!("{text}{message}"));
    }
}

impl TrafficSweep<'_> {
    /// Tries one instant of an event.
    pub(super) fn try_instant(
        &mut self,
        event: Event,
        number: u32,
    ) -> Result<InstantResult, Obstacle> {
        // The source of the control group was never paused. At the start of another one, its own eventfds can be told
        // from those of notifications.
        if event != Event::Control {
            self.source.take_if(|source| !source.has_learned);
        }
        self.start()?;
        let source = self.source.take();
        let mut source = source.context("the source does not run")?;
        let instant = self.instant(number);
        let mut trial = Trial::new(instant, self, &source.ready);
        // A source whose guest hangs, or whose VMM failed, is replaced.
        if self.run(event, &mut source, &mut trial)? {
            self.source = Some(source);
        }
        Ok(trial.result)
    }

    /// Does what the event says; false if the source does not go on.
    fn run(&self, event: Event, source: &mut Source, trial: &mut Trial) -> Result<bool, Obstacle> {
        source.vm.process().forget_lines();
        if event != Event::Control && !source.has_learned {
            let mut first = Trial::new(trial.result.instant, self, &source.ready);
            if !self.learn(source, &mut first)? {
                trial.result = first.result;
                if event != Event::Pause {
                    trial.result.verdict = Verdict::Inconclusive;
                }
                trial.note("at the pause before the traffic");
                return Ok(false);
            }
        }
        let next = heard(source.vm.as_mut())?.step + 1;
        let before = self.judge(source.vm.as_mut(), next)?;
        if before != Behaviour::WentOn {
            trial.failed_before(before, BEFORE);
            return Ok(false);
        }
        thread::sleep(Duration::from_nanos(trial.result.instant.delay_ns));
        if event == Event::Control {
            let enough = heard(source.vm.as_mut())?.step + self.steps(&source.ready);
            let after = self.judge(source.vm.as_mut(), enough)?;
            let goes_on = after == Behaviour::WentOn;
            trial.conclude(&[vec![after]]);
            return Ok(goes_on);
        }
        match event {
            Event::Control | Event::Pause => self.pause_and_resume(source, trial, None),
            Event::Restore => self.pause_and_resume(source, trial, Some(1)),
            Event::Clones => self.pause_and_resume(source, trial, Some(CLONES)),
            Event::Chain => self.continue_restored(source, trial),
            Event::Migration => self.migrate(source, trial),
        }
    }

    /// Migrates the source while it runs, and goes on with the process that received it; false if that does not go on.
    fn migrate(&self, source: &mut Source, trial: &mut Trial) -> Result<bool, Obstacle> {
        let cmdline = self.cmdline();
        let mut destination = match source.vm.send(&self.guest(&cmdline)) {
            Ok(vm) => vm,
            Err(error) => {
                trial.conclude(&[vec![self.refused(error)?]]);
                return Ok(false);
            }
        };
        let Some(enough) = self.look(source, trial, SENDING)? else {
            return Ok(false);
        };
        let switched = source.vm.switch_over();
        let after = match switched.and_then(|()| destination.resume()) {
            Ok(()) => self.judge(destination.as_mut(), enough)?,
            Err(error) => self.refused(error)?,
        };
        let goes_on = after == Behaviour::WentOn;
        trial.conclude(&[vec![after]]);
        source.replace(destination);
        Ok(goes_on)
    }

    /// Pauses and saves the source, and goes on with a restored VM; false if that does not go on.
    fn continue_restored(&self, source: &mut Source, trial: &mut Trial) -> Result<bool, Obstacle> {
        if let Err(error) = source.vm.pause() {
            trial.conclude(&[vec![self.refused(error)?]]);
            return Ok(false);
        }
        let Some(enough) = self.look(source, trial, BEFORE)? else {
            return Ok(false);
        };
        let mut restored = Vec::new();
        let rounds = self.restored(1, source, trial, enough, &mut restored)?;
        trial.paused.restored = true;
        trial.conclude(&rounds);
        if let Some(vm) = restored.pop().filter(|_| trial.result.fault.is_none()) {
            source.replace(vm);
            return Ok(true);
        }
        // Nothing was open, or the restored VM is lost. Whether the source goes on is part of the fault's name.
        let goes_on = match source.vm.resume() {
            Ok(()) => self.judge(source.vm.as_mut(), enough)? == Behaviour::WentOn,
            Err(_) => false,
        };
        trial.paused.source_went_on = Some(goes_on);
        trial.conclude(&rounds);
        Ok(goes_on)
    }

    /// Pauses a source before its traffic, and learns which of its eventfds are unread then; false if it does not go on.
    /// A source that has traffic already, because its start was slow, has requests open: then nothing is known.
    fn learn(&self, source: &mut Source, first: &mut Trial) -> Result<bool, Obstacle> {
        source.has_learned = true;
        let paused = source.vm.pause();
        let seen = match paused {
            Ok(()) => peek(source.vm.as_mut(), &source.ready, self.desk.limit)?,
            Err(error) => {
                first.conclude(&[vec![self.refused(error)?]]);
                return Ok(false);
            }
        };
        if let Ok(peek) = seen
            && peek.ring.open(source.ready.event_idx).requests == 0
        {
            let unread = peek.unread.iter();
            source.own = Some(unread.map(|eventfd| eventfd.descriptor).collect());
        }
        if let Err(error) = source.vm.resume() {
            first.conclude(&[vec![self.refused(error)?]]);
            return Ok(false);
        }
        Ok(true)
    }

    /// Pauses the source, restores a snapshot of it in this number of processes, if any, and resumes it; false if it
    /// does not go on.
    fn pause_and_resume(
        &self,
        source: &mut Source,
        trial: &mut Trial,
        restores: Option<usize>,
    ) -> Result<bool, Obstacle> {
        if let Err(error) = source.vm.pause() {
            trial.conclude(&[vec![self.refused(error)?]]);
            return Ok(false);
        }
        let Some(enough) = self.look(source, trial, BEFORE)? else {
            return Ok(false);
        };
        let restored = match restores {
            Some(count) => Some(self.restored(count, source, trial, enough, &mut Vec::new())?),
            None => None,
        };
        let after = match source.vm.resume() {
            Ok(()) => self.judge(source.vm.as_mut(), enough)?,
            Err(error) => self.refused(error)?,
        };
        let goes_on = after == Behaviour::WentOn;
        trial.paused.source_went_on = Some(goes_on);
        match restored {
            None => trial.conclude(&[vec![after]]),
            Some(rounds) => {
                trial.paused.restored = true;
                trial.conclude(&rounds);
                if !goes_on && trial.result.fault.is_none() {
                    trial.paused.restored = false;
                    trial.conclude(&[vec![after]]);
                    trial.note("in the VM that was saved");
                }
            }
        }
        Ok(goes_on)
    }

    /// Looks at the paused source. Returns the step that a guest has to reach after the event; `None` if something was
    /// lost `when` the source still ran.
    fn look(
        &self,
        source: &mut Source,
        trial: &mut Trial,
        when: &str,
    ) -> Result<Option<u64>, Obstacle> {
        // Nothing was read since the delay began: what the guest had said by now is not progress after the event.
        let said = heard(source.vm.as_mut())?;
        if let Some(fault) = said.fault.or(said.losing.map(GuestFault::Lost)) {
            trial.failed_before(Behaviour::Found(fault), when);
            return Ok(None);
        }
        match peek(source.vm.as_mut(), &source.ready, self.desk.limit)? {
            Ok(peek) => trial.saw(peek, source),
            Err(error) => trial.note(&error.to_string()),
        }
        Ok(Some(said.step + self.steps(&source.ready)))
    }

    /// What a command without a result says about the VM, unless this host or the user is the cause.
    pub(super) fn refused(&self, error: VmError) -> Result<Behaviour, Obstacle> {
        match error {
            VmError::Vmm(message) => match self.desk.free()? {
                // The VMM, which writes its snapshots itself, then has every reason to fail.
                free if free < MAX_SNAPSHOT => {
                    let failed = anyhow::Error::msg(message);
                    let text = format!("only {free} bytes are free for snapshots");
                    Err(failed.context(text).into())
                }
                _ => Ok(Behaviour::Failed(message)),
            },
            error @ VmError::TimedOut(_) => Ok(Behaviour::Late(error.to_string())),
            VmError::Stopped => Err(Obstacle::Stopped),
            VmError::Host(error) => Err(error.into()),
        }
    }

    pub(super) fn judge(&self, vm: &mut dyn SweptVm, step: u64) -> Result<Behaviour, Obstacle> {
        let judged = judge(vm, step, self.judge_limit(), self.desk.limit)?;
        judged.ok_or(Obstacle::Stopped)
    }
}
