//! A process that removes a tracing instance when the process that uses it has ended, also if it was killed.
//!
//! It is this program with other arguments, and waits for the end of a pipe whose other end is in the process that it guards. It
//! is in a process group of its own, so that a signal of the terminal does not end both. If both are killed, the next start
//! removes what is left.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::instance::Instance;

/// The first argument of the process.
const ARGUMENT: &str = "remove-tracing-instance";

/// The process. When this value is dropped, the instance has been removed.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    pub(super) fn start(instance: &Instance) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg(ARGUMENT)
            .args([instance.tracefs().as_os_str(), instance.name().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Nothing is left to do if it was killed.
        let _ = self.0.wait();
    }
}

/// If this process is a guard, waits for the end of the process that it guards, removes its instance, and returns true.
pub fn run_if_called() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return false;
    }
    if let (Some(tracefs), Some(name)) = (arguments.next(), arguments.next())
        && let Some(instance) = Instance::of_name(Path::new(&tracefs), &name)
    {
        // An error is an end as well.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // The next start tries again.
        let _ = instance.remove();
    }
    true
}
