//! The QEMU and the kernel of the lab.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::{init, signals};

use vmbell_lab::arch::Arch;
use vmbell_lab::board::Board;
use vmbell_lab::boot::Settings;
use vmbell_lab::cache::{Cache, Use};
use vmbell_lab::device::Driver;
use vmbell_lab::qemu::Qemu;
use vmbell_lab::{Kernel, KernelChoice, Lab, Progress, Provision};

/// Which QEMU and kernel.
#[derive(Debug, Args)]
pub(super) struct Parts {
    /// Use this QEMU instead of the one on PATH or the package's
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Use this kernel (x86-64: bzImage or ELF vmlinux, arm64: Image) instead of the package's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Where the modules of --kernel are, or `none` if KVM is built in [default: ../lib/modules/VERSION beside it]
    #[arg(long, value_name = "FOLDER", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Use this program as the vmbell inside, where it has another architecture [default: what cargo built for its
    /// musl target; $VMBELL_AARCH64]
    #[arg(long, value_name = "FILE")]
    guest_vmbell: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// What was found or prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) qemu: Qemu,
    pub(super) kernel: Kernel,
    pub(super) shell: Option<PathBuf>,
    pub(super) tree: Option<PathBuf>,
    pub(super) drivers: Vec<PathBuf>,
    pub(super) lock: Use,
}

impl Parts {
    /// Where the lab's remarks are written.
    pub(super) fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

    /// Finds QEMU and the kernel, or prepares what is missing.
    pub(super) fn prepare(
        &self,
        host: Arch,
        board: &Board,
        settings: &Settings,
    ) -> anyhow::Result<Prepared> {
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
        let mut provision = Provision::new(host, board, &cache, progress);
        let qemu = provision.qemu(self.qemu.as_deref())?;
        let own_kernel = kernel.is_some();
        let kernel = provision.kernel(kernel.as_ref())?;
        // An L1 of this host's architecture runs the host's shell.
        let shell = match board.is_native() {
            true => None,
            false => provision.shell(own_kernel)?,
        };
        let tree = provision.tree(&qemu, settings)?;
        // Headers of a kernel of the user's are asked for only if it is to drive the device.
        let drivers = if settings.devices.iter().any(|plugged| {
            plugged.device.built_driver && !(own_kernel && plugged.driver == Driver::None)
        }) {
            provision.modules(kernel.release())?
        } else {
            Vec::new()
        };
        provision.finish()?;
        Ok(Prepared {
            tree,
            drivers,
            qemu,
            kernel,
            shell,
            lock,
        })
    }

    /// Prepares all that a run needs.
    pub(super) fn open(
        &self,
        host: Arch,
        board: Board,
        settings: &Settings,
    ) -> anyhow::Result<Lab> {
        let init = init::find(&board, self.guest_vmbell.as_deref())?;
        let prepared = self.prepare(host, &board, settings)?;
        Ok(Lab {
            board,
            qemu: prepared.qemu,
            kernel: prepared.kernel,
            vmbell: std::env::current_exe().context("cannot tell where vmbell is")?,
            init,
            shell: prepared.shell,
            tree: prepared.tree,
            drivers: prepared.drivers,
            lock: prepared.lock,
            progress: self.progress(),
        })
    }
}
