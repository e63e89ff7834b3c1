//! The QEMU and the kernel of the lab.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::signals;

use vmbell_lab::board::Board;
use vmbell_lab::cache::Cache;
use vmbell_lab::{KernelChoice, Lab, LabError, Progress, Provision};

/// Which QEMU and kernel.
#[derive(Debug, Args)]
pub(super) struct Parts {
    /// Use this QEMU instead of the one on PATH or the package's
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Use this kernel (bzImage or ELF vmlinux) instead of the package's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Where the modules of --kernel are, or `none` if KVM is built in [default: ../lib/modules/VERSION beside it]
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Parts {
    /// Where the lab's remarks are written.
    pub(super) fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

    /// Finds QEMU and the kernel, or prepares what is missing.
    pub(super) fn open(&self) -> anyhow::Result<Lab> {
        let board = board()?;
        let cache = Cache::user()?;
        let progress = self.progress();
        let kernel = self.kernel.clone().map(|image| {
            let modules = self
                .modules
                .clone()
                .map(|folder| (folder.as_os_str() != "none").then_some(folder));
            KernelChoice { image, modules }
        });
        signals::clean_up().context("cannot handle signals")?;
        let lock = cache.lock_use()?;
        let mut provision = Provision::new(&board, &cache, progress);
        let qemu = provision.qemu(self.qemu.as_deref())?;
        let kernel = provision.kernel(kernel.as_ref())?;
        provision.finish()?;
        let vmbell = std::env::current_exe().context("cannot tell where vmbell is")?;
        Ok(Lab {
            board,
            qemu,
            kernel,
            vmbell,
            lock,
            progress,
        })
    }
}

/// The machine that the lab emulates for this process's architecture.
pub(super) fn board() -> Result<Board, LabError> {
    Board::native().ok_or(LabError::NoBoard {
        arch: std::env::consts::ARCH,
    })
}
