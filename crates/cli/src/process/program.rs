//! What programs of this host need: their files, found as by a shell, and KVM.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// Why KVM cannot be used; `None` if it can.
pub(crate) fn no_kvm() -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let error = opened.err()?;
    Some(format!(
        "it needs KVM, but /dev/kvm cannot be opened: {error}"
    ))
}

/// The path of this program.
pub(crate) fn own() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find vmbell's own program: {error}"))
}

/// The path of a program, searched for on PATH unless its name has a slash.
pub(crate) fn on_path(program: &str) -> Result<PathBuf, String> {
    which::which(program).map_err(|_| match Path::new(program) {
        path if path.components().count() > 1 && path.is_file() => {
            format!("{program} may not be executed")
        }
        _ if program.contains('/') => format!("there is no file {program}"),
        _ => format!("{program} is not on PATH"),
    })
}
