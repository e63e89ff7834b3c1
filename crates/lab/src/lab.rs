//! The parts of the lab that a run needs, ready for use.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use super::board::{IntelCpu, LabBoard};
use super::bochs::Bochs;
use super::boot::{LabBootPlan, Settings};
use super::cache::Use;
use super::prepare::LabKernel;
use super::progress::LabProgress;
use super::qemu::Qemu;
use super::saved::Store;
use crate::error::{LabError, failed};

/// The program that emulates L1.
#[derive(Clone, Debug)]
pub enum Emulator {
    /// QEMU.
    Qemu(Qemu),
    /// Bochs, with this CPU.
    Bochs(Bochs, IntelCpu),
}

impl Emulator {
    /// The program's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Qemu(_) => "QEMU",
            Self::Bochs(..) => "Bochs",
        }
    }

    /// Returns QEMU, for a task that Bochs cannot do. The error names the task, `what`.
    pub fn qemu(&self, what: &str) -> Result<&Qemu, LabError> {
        match self {
            Self::Qemu(qemu) => Ok(qemu),
            Self::Bochs(..) => Err(failed!(
                "{what} needs QEMU, and --cpu intel runs in Bochs: use --cpu amd"
            )),
        }
    }
}

impl fmt::Display for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qemu(qemu) => qemu.fmt(f),
            Self::Bochs(bochs, cpu) => write!(f, "{bochs}, {}", cpu.name),
        }
    }
}

/// The parts of the lab that a run needs.
#[derive(Debug)]
pub struct Lab {
    /// The machine.
    pub board: LabBoard,
    /// The emulator.
    pub emulator: Emulator,
    /// The kernel.
    pub kernel: LabKernel,
    /// The host's `vmbell` program, which starts the emulator.
    pub vmbell: PathBuf,
    /// The `vmbell` program of L1's architecture, process 1 in L1. May be the same file as `vmbell`.
    pub init: PathBuf,
    /// A shell for an L1 that cannot run the host's shell.
    pub shell: Option<PathBuf>,
    /// The device tree for the settings of the runs, if QEMU's own does not fit them.
    pub tree: Option<PathBuf>,
    /// The module files of device drivers that the lab built, in load order.
    pub drivers: Vec<PathBuf>,
    /// The file of the module that takes over KVM's ioeventfds, if it is to be loaded.
    pub ioeventfd: Option<PathBuf>,
    /// Kernel parameters for KVM's modules, from [`kvm_parameters`](crate::kvm_parameters).
    pub kvm_parameters: Vec<String>,
    /// The saved states of machines; `None` if every machine is to boot.
    pub states: Option<Store>,
    /// Keeps `clean` from removing the cache.
    pub lock: Use,
    /// Prints messages and progress.
    pub progress: LabProgress,
}

impl Lab {
    /// Returns the settings with the parameters of KVM's modules.
    pub(crate) fn with_kvm_parameters(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        settings.parameters.extend_from_slice(&self.kvm_parameters);
        settings
    }

    /// Plans a boot of L1 in QEMU with these settings, which takes its files from this window.
    pub(crate) fn boot<'a>(
        &'a self,
        qemu: &'a Qemu,
        settings: &'a Settings,
        window: &'a File,
    ) -> LabBootPlan<'a> {
        LabBootPlan {
            board: &self.board,
            qemu,
            vmbell: &self.vmbell,
            kernel: &self.kernel.image,
            tree: self.tree.as_deref(),
            initramfs: None,
            window,
            settings,
        }
    }
}
