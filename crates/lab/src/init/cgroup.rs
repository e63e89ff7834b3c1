//! A cgroup for the program, whose memory the kernel counts (Linux Documentation/admin-guide/cgroup-v2.rst), as a service manager
//! gives one to each service. It stays until the end of the machine. Process 1 makes it before it starts the program.

use std::path::Path;
use std::process::{Child, Command};
use std::{fs, io};

use rustix::mount::{MountFlags, mount};

const ROOT: &str = "/sys/fs/cgroup";
const PROGRAM: &str = "/sys/fs/cgroup/program";

/// Starts the program in a cgroup of its own.
///
/// # Errors
///
/// If the kernel has no such cgroups, or the program cannot be started.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    prepare().map_err(|error| {
        io::Error::other(format!("this kernel counts no memory of cgroups: {error}"))
    })?;
    // A child starts in the cgroup of its parent.
    enter(PROGRAM)?;
    let child = command.spawn();
    enter(ROOT)?;
    child
}

fn prepare() -> io::Result<()> {
    mount("cgroup2", ROOT, "cgroup2", MountFlags::empty(), None)?;
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
    fs::create_dir(PROGRAM)
}

/// Moves this process into a cgroup.
fn enter(folder: &str) -> io::Result<()> {
    fs::write(Path::new(folder).join("cgroup.procs"), "0")
}
