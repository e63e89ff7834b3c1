//! Where L1 begins: at its boot, or at a state that was saved after an earlier boot.
//!
//! A machine stops itself when it has prepared everything that does not depend on the run. The first run with a machine
//! saves it there and checks that the saved state runs a guest; later runs start from that state. The saved state
//! serves every program, build of `vmbell` and seed, because all that a run gives L1 comes through the window. Another
//! Linux inside L1 already waits for its files when the machine stops, so its VMM, `vmbell` itself, is part of the
//! state.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use super::arch::Arch;
use super::boot::{
    LabBootPlan, LabBootResult, SavedFiles, Settings, Sinks, TimeLimits, TimeMode, does_not,
};
use super::cache::{DiskSize, hash_bytes};
use super::job::ProgramEnding;
use super::lab::{Emulator, Lab};
use super::nest::{self, Initramfs, RunWindow};
use super::saved::{Saved, StateDraft, StateKey, Store};
use super::{first, payload};
use crate::error::{LabError, LabFailure, cannot};
use loader::window::TIME_SKIPPED;
use twox_hash::XxHash3_128;

/// Upper bound for the disk space that a saved state needs per nested Linux, on a machine of the usual size.
const ROOM: u64 = 512 << 20;
/// How often a machine is saved until QEMU has skipped no time. On a busy machine, it skips time in one of four saves.
const ATTEMPTS: u32 = 8;
/// How long a restored machine may take to run a guest. Only a machine that hangs takes this long.
const CHECK: Duration = Duration::from_secs(60);
/// QEMU's files whose contents a guest can notice.
const FIRMWARE: [&str; 5] = [
    "bios-256k.bin",
    "pvh.bin",
    "linuxboot_dma.bin",
    "kvmvapic.bin",
    "multiboot_dma.bin",
];
/// The folders in which an installed QEMU has these files.
const FIRMWARE_FOLDERS: [&str; 2] = ["/usr/share/qemu", "/usr/share/seabios"];

/// How a machine began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Began {
    /// From a saved state.
    Saved,
    /// With a boot, and the reason for it; `None` if the user asked for a boot.
    Booted(Option<String>),
}

impl From<Beginning> for Began {
    fn from(beginning: Beginning) -> Self {
        match beginning {
            Beginning::Saved(_) => Self::Saved,
            Beginning::Boot(reason) => Self::Booted(reason),
        }
    }
}

/// How a machine is to begin.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// With a boot, as [`Began::Booted`].
    Boot(Option<String>),
    /// From this saved state.
    Saved(Saved),
}

impl Beginning {
    /// The saved files, if the machine begins from them.
    pub fn files(&self) -> Option<SavedFiles<'_>> {
        match self {
            Self::Boot(_) => None,
            Self::Saved(saved) => Some(SavedFiles {
                memory: saved.ram(),
                state: saved.state(),
            }),
        }
    }

    /// Returns a boot, after a machine that began here failed. The saved state may be at fault, so it is removed.
    pub fn after_a_fault(self) -> Result<Self, LabError> {
        let Self::Saved(saved) = self else {
            return Ok(self);
        };
        saved.discard()?;
        let reason = "its saved state may have been at fault, and was removed";
        Ok(Self::Boot(Some(reason.to_owned())))
    }
}

impl Lab {
    /// Finds or makes the state from which this machine begins. A machine that cannot be saved boots.
    pub(crate) fn begin(
        &self,
        settings: &Settings,
        window: &RunWindow,
        initramfs: &Initramfs<'_>,
    ) -> Beginning {
        let Some(store) = &self.states else {
            return Beginning::Boot(None);
        };
        let Emulator::Qemu(qemu) = &self.emulator else {
            return Beginning::Boot(Some("Bochs saves no machines".to_owned()));
        };
        let boot = &self.boot(qemu, settings, &window.file);
        if let Some(reason) = self.cannot_be_saved(boot.settings) {
            return Beginning::Boot(reason);
        }
        match self.find_or_make(store, boot, initramfs) {
            Ok(saved) => Beginning::Saved(saved),
            // The folder stays read-only, and the last line of the run names this reason.
            Err(error) if error.is_read_only() => {
                let reason = "the folder for saved states is not writable";
                Beginning::Boot(Some(reason.to_owned()))
            }
            Err(error) => {
                let causes =
                    iter::successors(Some(&error as &dyn Error), |error| (*error).source());
                let causes: Vec<String> = causes.map(ToString::to_string).collect();
                self.progress.say(format_args!(
                    "cannot save this machine, booting it: {}",
                    causes.join(": ")
                ));
                Beginning::Boot(Some("it could not be saved".to_owned()))
            }
        }
    }

    fn find_or_make(
        &self,
        store: &Store,
        boot: &LabBootPlan<'_>,
        initramfs: &Initramfs<'_>,
    ) -> Result<Saved, LabError> {
        let key = self.key(store, boot, initramfs)?;
        match store.open(&key) {
            Ok(Some(saved)) => return Ok(saved),
            Ok(None) => {}
            Err(error) if error.kind() == LabFailure::Damaged => {
                self.progress
                    .say(format_args!("{error}; saving the machine again"));
            }
            Err(error) => return Err(error),
        }
        let waiting = || {
            self.progress
                .say("waiting for another `vmbell lab` that saves this machine");
        };
        let room = DiskSize(ROOM * u64::from(boot.settings.depth));
        store.make(&key, room, waiting, |draft| {
            let _shown = self.progress.spin("saving the machine, once");
            for _ in 0..ATTEMPTS {
                if self.make(boot, initramfs, draft)? {
                    return Ok(());
                }
            }
            let said = format!("{TIME_SKIPPED}, {ATTEMPTS} times");
            Err(not_restored(said))
        })
    }

    /// Boots the machine, saves it, and checks that it runs a guest after it is restored. Returns `false` if QEMU
    /// skipped time at the stop (docs/emulator-bugs.md): another boot would then give other figures.
    fn make(
        &self,
        boot: &LabBootPlan<'_>,
        initramfs: &Initramfs<'_>,
        draft: &StateDraft,
    ) -> Result<bool, LabError> {
        let make = |path: PathBuf| {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(true);
            options.open(&path).map_err(cannot("make", path))
        };
        let (memory, state) = (make(draft.ram())?, make(draft.state())?);
        memory
            .set_len(boot.settings.memory)
            .map_err(cannot("make", draft.ram()))?;
        let files = SavedFiles {
            memory: &memory,
            state: &state,
        };
        let window = nest::empty_window()?;
        LabBootPlan {
            initramfs: Some(initramfs.file()?),
            window: &window,
            ..*boot
        }
        .save(files)?;
        let header = nest::header(boot.settings.mode)?;
        let window = nest::check(self, boot.settings, header)?;
        let limit = boot.settings.limits.boot.min(CHECK);
        let settings = &Settings {
            limits: TimeLimits {
                boot: limit,
                program: limit,
            },
            ..boot.settings.clone()
        };
        let booted = LabBootPlan {
            window: &window.file,
            settings,
            ..*boot
        }
        .run(Some(files), Sinks::nowhere())?;
        if booted.console.loader_failed().as_deref() == Some(TIME_SKIPPED) {
            return Ok(false);
        }
        passed(booted).map(|()| true)
    }

    /// What the state of this machine depends on.
    fn key(
        &self,
        store: &Store,
        boot: &LabBootPlan<'_>,
        initramfs: &Initramfs<'_>,
    ) -> Result<StateKey, LabError> {
        let settings = boot.settings;
        let mode = match settings.mode {
            TimeMode::Functional { cpus: 1 } => "1 CPU".to_owned(),
            TimeMode::Functional { cpus } => format!("{cpus} CPUs"),
            TimeMode::Deterministic { .. } => "deterministic".to_owned(),
        };
        let depth = match settings.depth {
            1 => String::new(),
            depth => format!("depth {depth}, "),
        };
        let title = format!(
            "{}, {mode}, {depth}{} MiB",
            self.kernel.title,
            settings.memory >> 20
        );
        let program = boot.qemu.program();
        let mut key = StateKey::new(title)
            .part("qemu", boot.qemu.version())
            .part("qemu's program", store.digest(program)?);
        for path in boot.qemu.data_files(&FIRMWARE_FOLDERS, &FIRMWARE) {
            key = key.part("firmware", store.digest(&path)?);
        }
        key = key
            .part("kernel", store.digest(boot.kernel)?)
            .part("modules", store.digest(&self.kernel.base)?)
            .part("loader", hash_bytes(&first::read(&self.init)?));
        if let Some(shell) = &self.shell {
            key = key.part("busybox", store.digest(shell)?);
        }
        if let Some(tree) = boot.tree {
            key = key.part("device tree", store.digest(tree)?);
        }
        if let Some(inside) = &initramfs.inside {
            // This program starts the Linux inside L1, and runs in the saved machine.
            key = key.part("init", store.digest(&self.init)?);
            for module in payload::channel_modules(self, 1, settings.depth)? {
                key = key.part(&module.name, hash_bytes(&module.bytes));
            }
            let files = XxHash3_128::oneshot(&inside.initramfs);
            key = key
                .part("inside", format!("{:?}", inside.nested))
                .part("its files", format!("{files:032x}"));
        }
        if let TimeMode::Functional { .. } = settings.mode {
            // The kernel in the saved machine has measured how fast its clocks are.
            key = key.part("host's CPU", host_cpu());
        }
        Ok(key.part("arguments", format!("{:?}", boot.words())))
    }

    /// Returns why this machine has to boot: `Some(None)` if the user asked for something that only a boot has.
    #[expect(
        clippy::option_option,
        reason = "whether it boots, and whether there is more to say"
    )]
    fn cannot_be_saved(&self, settings: &Settings) -> Option<Option<String>> {
        if settings.show_console {
            return Some(None);
        }
        if !settings.qemu.is_empty() {
            return Some(Some("--qemu-arg may change what is saved".to_owned()));
        }
        // With two CPUs, each sets the other's timers again. If instructions are counted, no time passes at the stop.
        let alone = matches!(settings.mode, TimeMode::Functional { cpus: 1 });
        if alone && self.board.arch == Arch::AARCH64 && self.kernel.major() >= 7 {
            let reason = "QEMU does not save the timers that Linux uses on arm64";
            return Some(Some(reason.to_owned()));
        }
        let mut devices = settings.devices.iter().map(|plugged| plugged.device);
        let device = devices.find(|device| !device.has_state)?;
        Some(Some(format!("QEMU cannot save {}", device.name)))
    }
}

/// Checks whether a restored machine has run its guest.
fn passed(booted: LabBootResult) -> Result<(), LabError> {
    let said = match booted.report {
        Some(report) => match report.ending {
            ProgramEnding::Exited(0) => return Ok(()),
            ProgramEnding::Failed(reason) => reason,
            other => format!("{other:?}"),
        },
        None if booted.status.is_none() => format!("it hangs, and {}", booted.said()),
        None => booted.said(),
    };
    Err(not_restored(said))
}

fn not_restored(said: String) -> LabError {
    does_not("restore a machine that runs a guest", said)
}

/// The model of this host's CPU, on which the rate of the emulated clocks depends.
fn host_cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}

impl Sinks {
    /// Returns sinks that discard the streams.
    fn nowhere() -> Self {
        Self {
            stdout: Box::new(io::sink()),
            stderr: Box::new(io::sink()),
            files: Box::new(io::sink()),
            stdin: None,
            tells_unread: false,
            messages: |_| {},
        }
    }
}
