//! The restores of a snapshot: once, in several processes at the same time, and again if a guest hangs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::events::Trial;
use super::traffic::{Obstacle, Source, TrafficSweep};
use super::vm::{MAX_SNAPSHOT, MEMORY, SweptVm, VmError};
use vmbell_sweep::diagnosis::Behaviour;
use vmbell_sweep::edit::{Edit, edit};
use vmbell_sweep::guest::Wait;
use vmbell_sweep::memory::GuestMemory;
use vmbell_sweep::ring::OpenRing;

impl TrafficSweep<'_> {
    /// Saves the source, and restores the snapshot in this number of processes at the same time; if a guest hangs, in
    /// further rounds. The VMs of the last round are left running. Nothing if nothing is open.
    pub(super) fn restored(
        &self,
        count: usize,
        source: &mut Source,
        trial: &mut Trial,
        enough: u64,
        running: &mut Vec<Box<dyn SweptVm>>,
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
            Ok(true) => self.rounds(&folder, count, enough, running),
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
        let after = ready.place.read(&memory)?.open(ready.event_idx);
        // Without the edit, nothing is restored, so nothing counts as open.
        trial.paused.open = match is_made {
            true => OpenRing {
                requests: trial.paused.open.requests,
                ..after
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
        running: &mut Vec<Box<dyn SweptVm>>,
    ) -> Result<Vec<Vec<Behaviour>>, Obstacle> {
        let first = self.restored_at_once(folder, count, enough, running)?;
        let has_failed = first.iter().any(|vm| *vm != Behaviour::WentOn);
        let mut rounds = vec![first];
        if has_failed {
            for _ in 0..self.args.again {
                rounds.push(self.restored_at_once(folder, count, enough, running)?);
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
        running: &mut Vec<Box<dyn SweptVm>>,
    ) -> Result<Vec<Behaviour>, Obstacle> {
        running.clear();
        let cmdline = self.cmdline();
        let restore = || self.vmm.restore(&self.guest(&cmdline), folder);
        let vms: Vec<Result<Box<dyn SweptVm>, VmError>> = (0..count).map(|_| restore()).collect();
        // Each runs until all are judged.
        let mut judged = Vec::new();
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
