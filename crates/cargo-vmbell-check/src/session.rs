//! One run: checks everything that could make it pointless, then starts cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use crate::args::Invocation;
use crate::compiler::Plan;
use crate::config::Config;
use crate::error::Error;
use crate::folder::{self, Folder};
use crate::hooks::Hooks;
use crate::passthrough;
use crate::toolchain::{self, Toolchain};
use crate::weaken::Records;
use crate::workspace::Workspace;

/// Starts cargo with the code under test instrumented, and waits for it.
///
/// # Errors
///
/// Fails without starting cargo if the platform, the compiler or the workspace cannot be checked.
pub(crate) fn run(invocation: &Invocation) -> Result<ExitCode, Error> {
    let config = Config::new(invocation);
    let wrapper = config.wrapper()?;
    let toolchain = Toolchain::find(&config)?;
    let target = invocation.target.as_deref().unwrap_or(&toolchain.host);
    toolchain::check_platform(&toolchain.host)?;
    toolchain::check_platform(target)?;
    let workspace = Workspace::read(invocation)?;
    workspace.check_dependency(invocation)?;
    let flags = toolchain.flags(invocation.hooks, target)?;

    let base = base(invocation, &workspace);
    let folder = Folder::create(&base, &toolchain, target, &flags)?;
    let passthrough = passthrough::build(&folder, &toolchain, target)?;
    let plan = Plan {
        flags: flags.join(" "),
        identity: folder.identity.clone(),
        passthrough,
        wrapper,
    };

    let cargo = toolchain::cargo();
    let program = std::env::current_exe().map_err(Error::file("find", "cargo-vmbell-check"))?;
    let mut command = Command::new(&cargo);
    command
        .arg(invocation.command)
        .arg("--target")
        .arg(target)
        .args(&invocation.cargo_args);
    plan.apply(&mut command, program.as_os_str());
    command
        .env("CARGO_TARGET_DIR", &folder.path)
        // Since cargo 1.91 intermediate files can be in another folder, and would be shared with other builds.
        .env("CARGO_BUILD_BUILD_DIR", &folder.path)
        .env("VMBELL_CHECK", "1")
        .env("VMBELL_CHECK_HOOKS", invocation.hooks.name());
    if !invocation.quiet {
        announce(invocation.hooks, &toolchain, &folder);
    }
    if !invocation.weaken.weaken {
        let status = command.status().map_err(Error::start(&cargo))?;
        return Ok(exit_code(status));
    }
    let records = Records::begin(&invocation.weaken, &folder.path, &mut command)?;
    let status = command.status().map_err(Error::start(&cargo))?;
    let summarized = records.finish();
    match status.success() {
        true => summarized,
        // A test that fails may leave no record.
        false => Ok(exit_code(status)),
    }
}

/// Removes the target folders of all runs.
pub(crate) fn clean(invocation: &Invocation) -> Result<ExitCode, Error> {
    let base = base(invocation, &Workspace::read(invocation)?);
    match folder::remove_all(&base)? {
        Some(path) => eprintln!("vmbell-check: removed {}", path.display()),
        None => eprintln!("vmbell-check: {} has no build to remove", base.display()),
    }
    Ok(ExitCode::SUCCESS)
}

fn base(invocation: &Invocation, workspace: &Workspace) -> PathBuf {
    let chosen = invocation
        .target_dir
        .as_deref()
        .and_then(|path| std::path::absolute(path).ok());
    chosen.unwrap_or_else(|| workspace.target_dir())
}

fn announce(hooks: Hooks, toolchain: &Toolchain, folder: &Folder) {
    let path = relative(&folder.path);
    eprintln!(
        "vmbell-check: hooking {hooks} with {}, in {}",
        toolchain.version(),
        path.display()
    );
    if hooks == Hooks::Atomics {
        eprintln!(
            "vmbell-check: plain and volatile loads and stores are not hooked: orders in which they matter are not \
             explored, and the checker fails if one reaches shared memory"
        );
    }
    match folder.others() {
        0 => (),
        others => eprintln!(
            "vmbell-check: builds of other toolchains or flags: {others} (`cargo vmbell-check clean` removes all builds)"
        ),
    }
}

/// Returns the path as the user would write it.
fn relative(path: &Path) -> &Path {
    let current = std::env::current_dir().ok();
    current
        .and_then(|current| path.strip_prefix(current).ok())
        .unwrap_or(path)
}

/// Returns cargo's exit code: 1 for any failure, and 128 plus the signal if a signal ended cargo.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    match status.signal().and_then(|signal| u8::try_from(signal).ok()) {
        Some(signal) => ExitCode::from(128 + signal),
        None if status.success() => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}
