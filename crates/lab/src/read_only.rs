//! Makes folders read-only for a test, even if the test runs as root.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Runs `test` while `folder` is not writable.
pub(crate) fn read_only(folder: &Path, test: impl FnOnce() + Send) {
    set(folder, 0o555);
    thread::scope(|scope| {
        let test = || {
            // Each thread has its own capabilities. With this one, root may write where other users may not.
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::DAC_OVERRIDE;
            set_capabilities(None, sets).unwrap();
            test();
        };
        // The folder must be writable again before a panic continues, so that it can be removed.
        let ended = scope.spawn(test).join();
        set(folder, 0o755);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

fn set(path: &Path, mode: u32) {
    let is_folder = path.is_dir();
    let mode = if is_folder { mode } else { mode & 0o666 };
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    if is_folder {
        for item in fs::read_dir(path).unwrap() {
            set(&item.unwrap().path(), mode);
        }
    }
}
