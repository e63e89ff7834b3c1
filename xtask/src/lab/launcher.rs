//! The `vmbell` that starts the lab's boots.

use std::path::Path;
use std::process::Command;

use crate::artifacts;

/// A `vmbell` of this machine, and the one for arm64 if L1 is an arm64 machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launcher<'a> {
    pub(super) vmbell: &'a Path,
    pub(super) arm64: Option<&'a Path>,
}

impl<'a> Launcher<'a> {
    /// A launcher of machines like this one.
    pub(super) fn native(vmbell: &'a Path) -> Self {
        Self {
            vmbell,
            arm64: None,
        }
    }

    /// `vmbell lab prepare`, in the workspace's folder.
    pub(super) fn prepare(&self) -> Command {
        self.command(&["lab", "prepare"])
    }

    /// `vmbell lab` with options of the machine to follow, in the workspace's folder.
    pub(super) fn lab(&self) -> Command {
        self.command(&["lab"])
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.vmbell);
        command.current_dir(artifacts::root());
        command.args(words);
        if let Some(arm64) = self.arm64 {
            command.args(["--arch", "aarch64", "--guest-vmbell"]);
            command.arg(arm64);
        }
        command
    }
}
