//! A VMM that a TOML file describes: how it starts, and which commands pause, resume, save and restore it.
//!
//! Commands are split as by a shell, but no shell runs. Each must end within the time limit, with status 0.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{
    COMMAND, MEMORY_MIB, NO_MIGRATION, SweepGuest, SweptVm, SweptVmm, VmError, find, spawn, text,
};
use crate::output::text::{cleaned, last_words};
use crate::process::{self, ProgramEnd, ProgramTask, RunningProgram};
use vmbell_bench::CommandLimit;
use vmbell_sweep::report::{Device, Event};

/// The most bytes of a description.
const MOST: u64 = 1 << 16;

/// A description.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Described {
    /// The name.
    name: String,
    /// Starts the VMM, which prints the guest's serial port.
    start: String,
    /// Pauses its guest.
    pause: String,
    /// Lets a paused guest go on.
    resume: String,
    /// Saves a paused guest in a folder.
    snapshot: Option<String>,
    /// Starts a VMM that restores a snapshot.
    restore: Option<String>,
    /// Lets a restored guest go on, if it does not by itself.
    restored: Option<String>,
    /// The snapshot's file with guest memory.
    memory: Option<PathBuf>,
}

impl Described {
    /// Reads a description.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let shown = || format!("cannot read {}", file.display());
        let len = fs::metadata(file).with_context(shown)?.len();
        if len > MOST {
            bail!("{} has more than {MOST} bytes", file.display());
        }
        let read = fs::read_to_string(file).with_context(shown)?;
        Self::parse(&read).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let parsed = toml_edit::de::from_str(text);
        let parsed: Self =
            parsed.map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if parsed.name.is_empty() || parsed.name.len() > 32 || !parsed.name.chars().all(is_plain) {
            bail!("name: only letters, digits, '.', '_' and '-', at most 32 in all");
        }
        let commands = [
            ("start", Some(&parsed.start)),
            ("pause", Some(&parsed.pause)),
            ("resume", Some(&parsed.resume)),
            ("snapshot", parsed.snapshot.as_ref()),
            ("restore", parsed.restore.as_ref()),
            ("restored", parsed.restored.as_ref()),
        ];
        for (what, command) in commands {
            let Some(command) = command else { continue };
            let words = shell_words::split(command).with_context(|| what.to_owned())?;
            if words.is_empty() {
                bail!("{what}: the command is empty");
            }
        }
        if !["{image}", "{bzimage}"]
            .iter()
            .any(|place| parsed.start.contains(place))
        {
            bail!(
                "start: there is no {{image}} or {{bzimage}}, so the VMM would not run the image"
            );
        }
        if parsed.snapshot.is_some() != parsed.restore.is_some() {
            bail!("snapshot and restore need each other");
        }
        Ok(parsed)
    }

    pub(super) fn given_name(&self) -> &str {
        &self.name
    }

    fn launch(
        &self,
        guest: &SweepGuest<'_>,
        command: &str,
        snapshot: &Path,
    ) -> Result<DescribedVm> {
        let places = Places {
            image: guest.desk.image(),
            bzimage: guest.desk.bzimage(),
            disk: guest.desk.disk(),
            cmdline: guest.cmdline.to_owned(),
            socket: guest.desk.fresh("socket"),
        };
        Ok(DescribedVm {
            process: spawn(&places.words(command, snapshot)?)?,
            description: self.clone(),
            limit: guest.desk.limit.clone(),
            places,
        })
    }
}

impl SweptVmm for Described {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> Result<PathBuf, String> {
        let words = shell_words::split(&self.start).map_err(|error| error.to_string())?;
        find(words.first(), "")
    }

    fn lacks(&self, event: Event, _: Device) -> Option<String> {
        match event {
            Event::Migration => Some(NO_MIGRATION.to_owned()),
            Event::Restore | Event::Clones | Event::Chain if self.snapshot.is_none() => {
                Some("its description has no snapshot".to_owned())
            }
            _ => None,
        }
    }

    fn limits(&self, _: Device) -> bool {
        false
    }

    fn start(&self, guest: &SweepGuest<'_>) -> Result<Box<dyn SweptVm>, VmError> {
        Ok(Box::new(self.launch(guest, &self.start, Path::new(""))?))
    }

    fn restore(
        &self,
        guest: &SweepGuest<'_>,
        snapshot: &Path,
    ) -> Result<Box<dyn SweptVm>, VmError> {
        let command = self
            .restore
            .as_ref()
            .context("there is no restore command")?;
        let vm = self.launch(guest, command, snapshot)?;
        if let Some(command) = &self.restored {
            vm.run("restored", command, snapshot)?;
        }
        Ok(Box::new(vm))
    }

    fn memory_file(&self, snapshot: &Path) -> Option<PathBuf> {
        Some(snapshot.join(self.memory.as_ref()?))
    }
}

/// The values of placeholders that are the same for all commands to a VM.
struct Places {
    image: PathBuf,
    bzimage: PathBuf,
    disk: PathBuf,
    cmdline: String,
    socket: PathBuf,
}

impl Places {
    fn words(&self, command: &str, snapshot: &Path) -> Result<Vec<OsString>> {
        let values = [
            ("{image}", text(&self.image)?),
            ("{bzimage}", text(&self.bzimage)?),
            ("{disk}", text(&self.disk)?),
            ("{socket}", text(&self.socket)?),
            ("{snapshot}", text(snapshot)?),
            ("{memory}", &MEMORY_MIB.to_string()),
            ("{cmdline}", &self.cmdline),
        ];
        let words = shell_words::split(command)?;
        let fill = |word: String| {
            let fill = |word: String, (name, value): &(&str, &str)| word.replace(name, value);
            OsString::from(values.iter().fold(word, fill))
        };
        Ok(words.into_iter().map(fill).collect())
    }
}

/// A described VMM that runs.
struct DescribedVm {
    process: RunningProgram,
    description: Described,
    limit: CommandLimit,
    places: Places,
}

/// How long a command is repeated while it fails, because a VMM that has just started may not accept it yet.
const REPEATED: Duration = Duration::from_secs(1);

impl DescribedVm {
    fn run(&self, what: &str, command: &str, snapshot: &Path) -> Result<(), VmError> {
        let words = self.places.words(command, snapshot)?;
        let begun = std::time::Instant::now();
        loop {
            let task = ProgramTask::new(&words, COMMAND, &self.limit);
            let ended = process::run(&task).with_context(|| format!("{what}: {command}"))?;
            let status = match ended.end {
                ProgramEnd::Exited(status) if status.success() => return Ok(()),
                ProgramEnd::Exited(status) => status.to_string(),
                ProgramEnd::TooMuch => "too much output".to_owned(),
                ProgramEnd::Stopped => return Err(VmError::Stopped),
                _ => return Err(VmError::TimedOut(what.to_owned())),
            };
            if what != "restored" || begun.elapsed() > REPEATED {
                let said = last_words(&ended.errors).or_else(|| last_words(&ended.output));
                return Err(VmError::Vmm(format!(
                    "{what}: {}: {status}: {}",
                    cleaned(command),
                    said.unwrap_or_default()
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl SweptVm for DescribedVm {
    fn process(&mut self) -> &mut RunningProgram {
        &mut self.process
    }

    fn pause(&mut self) -> Result<(), VmError> {
        self.run("pause", &self.description.pause, Path::new(""))
    }

    fn resume(&mut self) -> Result<(), VmError> {
        self.run("resume", &self.description.resume, Path::new(""))
    }

    fn snapshot(&mut self, folder: &Path) -> Result<(), VmError> {
        let command = self.description.snapshot.as_ref();
        self.run(
            "snapshot",
            command.context("there is no snapshot command")?,
            folder,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "name='a'\nstart='a {image}'\npause='p {socket}'\nresume='r'\n";

    #[test]
    fn a_description_without_a_snapshot_has_only_the_pause() {
        let vmm = Described::parse(PLAIN).unwrap();
        assert_eq!(vmm.lacks(Event::Pause, Device::Rng), None);
        assert!(
            [Event::Restore, Event::Clones]
                .iter()
                .all(|event| vmm.lacks(*event, Device::Rng).is_some())
        );
    }

    #[test]
    fn mistakes_name_the_line_or_the_command() {
        for (text, expected) in [
            (PLAIN.replace("{image}", ""), "start: there is no {image}"),
            (
                PLAIN.replace("p {socket}", ""),
                "pause: the command is empty",
            ),
            (PLAIN.replace("'r'", "\"r '\""), "resume"),
            (PLAIN.replace("'a'", "'a b'"), "name:"),
            (format!("{PLAIN}snapshot='s'\n"), "need each other"),
            (format!("{PLAIN}snapshots='s'\n"), "unknown field"),
        ] {
            let error = format!("{:#}", Described::parse(&text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
