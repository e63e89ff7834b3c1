//! Confines `vmbell run`: limits what its threads can do if the guest takes one of them over.
//!
//! Set-up runs with the user's rights. Before the guest's first instruction, each thread gives them up as it starts
//! ([`vmbell::thread`]): capabilities, files (Landlock), and all system calls except those of its kind ([`policy`]). A
//! thread that one of these starts inherits this and narrows its calls further. `docs/security.md` says what is
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
    /// Whether the kernel has seccomp filters.
    has_filters: bool,
    inherited: InheritedDescriptors,
}

thread_local! {
    /// Whether this thread is confined, and with it all threads that it starts.
    static CONFINED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the threads of every guest confine themselves when they start. Call this while the process has one thread.
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
        // A backtrace would have to open files for symbols, which is denied.
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
    // Only this call sets the function, because the process has one guest.
    let _ = on_spawn(Box::new(prepare));
    Ok(())
}

/// Restricts a thread that creates and measures guests one after another, and all threads and processes that it starts:
/// they can neither change nor execute files. Unlike a system call filter, this does not slow exits down.
pub(super) fn measuring_thread() -> Result<()> {
    static TOLD: Once = Once::new();
    if let Some(lacking) = privileges::give_up_changes()? {
        TOLD.call_once(|| eprintln!("note: {lacking}"));
    }
    Ok(())
}

impl Confinement {
    /// Gives up what this kind of thread does not need. If `inherits`, the thread that started it has given up its
    /// rights already.
    fn enter(&self, kind: ThreadKind, inherits: bool) -> Result<()> {
        if CONFINED.replace(true) {
            // The main thread comes here again after each sleep of the guest.
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
