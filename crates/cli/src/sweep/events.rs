//! One instant: waits for a step of the guest's traffic and for the instant's delay, does what the event says, and
//! judges. A snapshot is restored only if something is open.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::observe::{Peek, heard, judge, peek};
use super::traffic::{Obstacle, Source, TrafficSweep};
use super::vm::{MAX_SNAPSHOT, MEMORY, SweptVm, VmError};
use vmbell_sweep::diagnosis::{Behaviour, Paused};
use vmbell_sweep::edit::{Edit, edit};
use vmbell_sweep::guest::{GuestFault, Ready, Wait};
use vmbell_sweep::instant::Instant;
use vmbell_sweep::memory::GuestMemory;
use vmbell_sweep::report::{Event, InstantResult};
use vmbell_sweep::ring::OpenRing;
use vmbell_sweep::verdict::{Verdict, verdict};

/// The restores of the clones event.
const CLONES: usize = 2;

/// An instant that is being tried.
struct Trial {
    paused: Paused,
    result: InstantResult,
}

impl Trial {
    fn new(instant: Instant, wait: Wait, ready: &Ready) -> Self {
        let open = OpenRing::default();
        Self {
            paused: Paused {
                open,
                taken: false,
                place: ready.place,
                event_idx: ready.event_idx,
                unread: None,
                source_went_on: None,
                wait,
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

    /// Takes a fault from before the event, which says nothing about the event.
    fn failed_before(&mut self, behaviour: Behaviour) {
        self.conclude(&[vec![behaviour]]);
        self.result.verdict = Verdict::Inconclusive;
        self.note("before the event");
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
        let mut trial = Trial::new(instant, self.traffic.wait, &source.ready);
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
            let mut first = Trial::new(trial.result.instant, self.traffic.wait, &source.ready);
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
            trial.failed_before(before);
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
        let restores = match event {
            Event::Control | Event::Pause => None,
            Event::Restore => Some(1),
            Event::Clones => Some(CLONES),
        };
        self.pause_and_resume(source, trial, restores)
    }

    /// Pauses a source before its traffic, and learns which of its eventfds are unread then; false if it does not go on.
    /// A source that has traffic already, because its start was slow, has requests open: then nothing is known.
    fn learn(&self, source: &mut Source, first: &mut Trial) -> Result<bool, Obstacle> {
        source.has_learned = true;
        let paused = source.vm.pause();
        let seen = match paused {
            Ok(()) => peek(source.vm.as_mut(), &source.ready)?,
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
        // Nothing was read since the delay began: what the guest had said by now is not progress after the event.
        let said = heard(source.vm.as_mut())?;
        if let Some(fault) = said.fault.or(said.losing.map(GuestFault::Lost)) {
            trial.failed_before(Behaviour::Found(fault));
            return Ok(false);
        }
        let enough = said.step + self.steps(&source.ready);
        match peek(source.vm.as_mut(), &source.ready)? {
            Ok(peek) => trial.saw(peek, source),
            Err(error) => trial.note(&error.to_string()),
        }
        let restored = match restores {
            Some(count) => Some(self.restored(count, source, trial, enough)?),
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

    /// What a command without a result says about the VM, unless this host or the user is the cause.
    fn refused(&self, error: VmError) -> Result<Behaviour, Obstacle> {
        match error {
            VmError::Vmm(message) => match self.desk.free()? {
                // The VMM, which writes its snapshots itself, then has every reason to fail.
                free if free < MAX_SNAPSHOT => Err(Obstacle::Failed(format!(
                    "only {free} bytes are free for snapshots: {message}"
                ))),
                _ => Ok(Behaviour::Failed(message)),
            },
            error @ VmError::TimedOut(_) => Ok(Behaviour::Late(error.to_string())),
            VmError::Stopped => Err(Obstacle::Stopped),
            VmError::Host(error) => Err(error.into()),
        }
    }

    fn judge(&self, vm: &mut dyn SweptVm, step: u64) -> Result<Behaviour, Obstacle> {
        let judged = judge(vm, step, self.judge_limit(), self.desk.limit)?;
        judged.ok_or(Obstacle::Stopped)
    }

    /// Saves the source, and restores the snapshot in this number of processes at the same time; if a guest hangs, in
    /// further rounds. Nothing if nothing is open.
    fn restored(
        &self,
        count: usize,
        source: &mut Source,
        trial: &mut Trial,
        enough: u64,
    ) -> Result<Vec<Vec<Behaviour>>, Obstacle> {
        let is_open = trial
            .paused
            .open
            .is_open(self.traffic.wait == Wait::Interrupt);
        if !is_open && self.args.edit.is_none() {
            return Ok(Vec::new());
        }
        let folder = self.desk.fresh("snapshot");
        let rounds = match self.saved(&folder, source, trial)? {
            Ok(true) => self.rounds(&folder, count, enough),
            Ok(false) => Ok(Vec::new()),
            Err(behaviour) => Ok(vec![vec![behaviour]]),
        };
        // The folder of the sweep is removed at the end; until then, only the snapshot's size matters.
        let _ = fs::remove_dir_all(&folder);
        rounds
    }

    /// Saves the source and breaks the snapshot if that is asked for; false if this one cannot be broken.
    fn saved(
        &self,
        folder: &Path,
        source: &mut Source,
        trial: &mut Trial,
    ) -> Result<Result<bool, Behaviour>, Obstacle> {
        fs::create_dir(folder).context("cannot make a folder")?;
        if let Err(error) = source.vm.snapshot(folder) {
            return self.refused(error).map(Err);
        }
        let size = size(folder)?;
        if size > MAX_SNAPSHOT {
            let text = format!("the snapshot has {size} bytes, more than {MAX_SNAPSHOT}");
            return Ok(Err(Behaviour::Failed(text)));
        }
        match self.args.edit {
            Some(fault) => Ok(Ok(self.broken(folder, fault.into(), source, trial)?)),
            None => Ok(Ok(true)),
        }
    }

    /// Breaks a snapshot; false if this one cannot be broken.
    fn broken(
        &self,
        folder: &Path,
        fault: Edit,
        source: &Source,
        trial: &mut Trial,
    ) -> Result<bool> {
        let file = self.vmm.memory_file(folder);
        let file = file.context("--edit: the file with guest memory is unknown")?;
        let memory = GuestMemory::of_file(&file, MEMORY)?;
        let ready = &source.ready;
        let is_made = edit(&memory, &ready.place, ready.event_idx, fault)?;
        let ring = ready.place.read(&memory)?;
        // Without the edit, nothing is restored, so nothing counts as open.
        trial.paused.open = match is_made {
            true => OpenRing {
                suppressed: ring.open(ready.event_idx).suppressed,
                ..trial.paused.open
            },
            false => OpenRing::default(),
        };
        trial.result.open = trial.paused.open;
        Ok(is_made)
    }

    fn rounds(
        &self,
        folder: &Path,
        count: usize,
        enough: u64,
    ) -> Result<Vec<Vec<Behaviour>>, Obstacle> {
        let first = self.restored_at_once(folder, count, enough)?;
        let has_failed = first.iter().any(|vm| *vm != Behaviour::WentOn);
        let mut rounds = vec![first];
        if has_failed {
            for _ in 0..self.args.again {
                rounds.push(self.restored_at_once(folder, count, enough)?);
            }
        }
        Ok(rounds)
    }

    /// Restores a snapshot in this number of processes, in each of which the guest has to reach step `enough`.
    fn restored_at_once(
        &self,
        folder: &Path,
        count: usize,
        enough: u64,
    ) -> Result<Vec<Behaviour>, Obstacle> {
        let cmdline = self.cmdline();
        let restore = || self.vmm.restore(&self.guest(&cmdline), folder);
        let vms: Vec<Result<Box<dyn SweptVm>, VmError>> = (0..count).map(|_| restore()).collect();
        // Each runs until all are judged.
        let (mut running, mut judged) = (Vec::new(), Vec::new());
        for vm in vms {
            judged.push(match vm {
                Ok(mut vm) => {
                    let judged = self.judge(vm.as_mut(), enough)?;
                    running.push(vm);
                    judged
                }
                Err(error) => self.refused(error)?,
            });
        }
        Ok(judged)
    }
}

/// The bytes of a folder's files, with those of folders in it.
fn size(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder).context("cannot list a snapshot")? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += match metadata.is_dir() {
            true => self::size(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(size)
}
