//! What programs of this host need: their files, found as a shell does, and KVM.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Why KVM cannot be used, if it cannot.
pub(crate) fn no_kvm() -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let error = opened.err()?;
    Some(format!("it needs KVM, and /dev/kvm does not open: {error}"))
}

/// The path of a program, which is searched on PATH unless its name has a slash.
pub(crate) fn on_path(program: &str) -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![program.into()]
    } else {
        let folders = std::env::split_paths(&folders);
        folders.map(|folder| folder.join(program)).collect()
    };
    let mut files = candidates.iter().filter(|path| path.is_file()).peekable();
    let first = files.peek().copied().cloned();
    match (files.find(|path| may_run(path)), first) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(path)) => Err(format!("{} may not be executed", path.display())),
        (None, None) if program.contains('/') => Err(format!("there is no file {program}")),
        (None, None) => Err(format!("{program} is not on PATH")),
    }
}

fn may_run(path: &PathBuf) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}
