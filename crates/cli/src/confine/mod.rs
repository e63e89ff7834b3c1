//! Confines `vmbell run`: what its threads can do once the guest runs, should the guest take one of them over.
//!
//! Set-up is done with the user's rights. Before the guest's first instruction each thread gives them up as it starts
//! ([`vmbell::thread`]): capabilities, files (Landlock), and all system calls but those of its kind ([`policy`]). A
//! thread that one of these starts inherits that, and narrows its calls further. `docs/security.md` says what is
//! promised.

mod descriptors;
mod ioctl;
mod policy;
mod privileges;
mod program;
mod violation;

use std::cell::Cell;
use std::panic;
use std::sync::{Arc, Once};

use anyhow::{Context, Result};
use rustix::thread::set_no_new_privs;
use seccompiler::{BpfProgram, apply_filter};

use vmbell::thread::{OnStart, ThreadKind, on_spawn};

use self::descriptors::InheritedDescriptors;
pub(super) use self::descriptors::close_stdin;
pub(super) use self::policy::DeviceNeeds;

/// What every thread needs to confine itself.
struct Confinement {
    main: BpfProgram,
    vcpu: BpfProgram,
    device: BpfProgram,
    /// Whether the kernel has filters of system calls.
    has_filters: bool,
    inherited: InheritedDescriptors,
}

thread_local! {
    /// Whether this thread is confined, and with it all that it starts.
    static CONFINED: Cell<bool> = const { Cell::new(false) };
}

/// From here on the threads of every guest confine themselves when they start. To be called on the process's only
/// thread.
pub(super) fn begin(devices: &DeviceNeeds) -> Result<()> {
    let program = |kind| program::compile(policy::of(kind, devices)?);
    let confinement = Confinement {
        main: program(ThreadKind::Main)?,
        vcpu: program(ThreadKind::Vcpu(0))?,
        device: program(ThreadKind::Device)?,
        has_filters: violation::is_supported(),
        inherited: InheritedDescriptors::find().context("cannot list the open descriptors")?,
    };
    set_no_new_privs(true).context("cannot set no_new_privs")?;
    if !confinement.has_filters {
        eprintln!(
            "warning: this kernel has no seccomp filters, so the guest's threads can make every system call"
        );
    }
    violation::catch().context("cannot catch SIGSYS")?;
    privileges::use_one_arena();
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        // A backtrace would look for symbols in files, which are out of reach.
        eprintln!("thread '{name}' {panic}\nnote: `--sandbox off` allows a backtrace");
    }));
    let confinement = Arc::new(confinement);
    let prepare = move |kind| {
        let (confinement, inherits) = (Arc::clone(&confinement), CONFINED.get());
        Box::new(move || {
            if let Err(error) = confinement.enter(kind, inherits) {
                eprintln!("error: cannot confine the {kind}: {error:#}");
                violation::end();
            }
        }) as OnStart
    };
    // The process has one guest, so nothing else was set.
    let _ = on_spawn(Box::new(prepare));
    Ok(())
}

/// Restricts a thread that makes guests one after another and measures them, and all threads and processes that it
/// starts: they can change and execute no files. That costs no exit, which a filter of system calls does.
pub(super) fn measuring_thread() -> Result<()> {
    static TOLD: Once = Once::new();
    if let Some(lacking) = privileges::give_up_changes()? {
        TOLD.call_once(|| eprintln!("note: {lacking}"));
    }
    Ok(())
}

impl Confinement {
    /// Gives up what this kind of thread does not need. It `inherits` what the thread that started it has given up.
    fn enter(&self, kind: ThreadKind, inherits: bool) -> Result<()> {
        if CONFINED.replace(true) {
            // The main thread, after the guest has slept.
            return Ok(());
        }
        violation::name_thread(kind);
        if kind == ThreadKind::Main {
            self.inherited.close();
        }
        if !inherits {
            let lacking = privileges::give_up_files()?;
            if let (ThreadKind::Main, Some(lacking)) = (kind, lacking) {
                eprintln!("note: {lacking}");
            }
            privileges::give_up_capabilities().context("cannot drop the capabilities")?;
        }
        if !self.has_filters {
            return Ok(());
        }
        apply_filter(match kind {
            ThreadKind::Main => &self.main,
            ThreadKind::Vcpu(_) => &self.vcpu,
            ThreadKind::Device => &self.device,
        })
        .context("cannot install the filter of system calls")
    }
}

#[cfg(test)]
#[path = "confine_test.rs"]
mod tests;
