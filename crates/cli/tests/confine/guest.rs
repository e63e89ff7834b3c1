//! A guest in `vmbell run` that runs until it is told to end.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{program, tracer};
use kit::image::elf;
use kit::wait::await_that;

/// The name of the main thread.
pub const MAIN: &str = "vmbell";
/// The name of the first vCPU's thread.
pub const VCPU: &str = "vcpu-0";

/// A process that runs a guest; it is killed when the value is dropped.
pub struct Guest {
    child: Child,
    folder: TempDir,
}

impl Guest {
    /// Starts `vmbell run` with these options, and returns when the guest runs.
    pub fn start(options: &[&str]) -> Self {
        Self::start_image(&elf(&program::halts(b'r'), &[]), options, "r")
    }

    /// Like [`start`](Self::start), with a guest that slept and was woken by its clock.
    pub fn start_woken(options: &[&str]) -> Self {
        let (asleep, awake) = program::sleeps_and_wakes(b'w');
        Self::start_image(&elf(&asleep, &[awake]), options, "w")
    }

    /// Like [`start`](Self::start), with a guest that makes pc-testdev flush a page.
    pub fn start_flushed() -> Self {
        let options = ["--device", "pc-testdev"];
        Self::start_image(&elf(&program::flushes(b'f'), &[]), &options, "f")
    }

    fn start_image(image: &[u8], options: &[&str], says: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("image"), image).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmbell"));
        command
            .arg("run")
            .arg(path("image"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(fs::File::create(path("stdout")).unwrap())
            .stderr(fs::File::create(path("stderr")).unwrap());
        // A descriptor that the process inherits.
        let (inherited, _writer) = std::io::pipe().unwrap();
        tracer::inherit(&mut command, inherited.as_raw_fd());
        let mut guest = Self {
            child: command.spawn().unwrap(),
            folder,
        };
        await_that("the guest to say that it runs", || {
            let ended = guest.child.try_wait().unwrap();
            assert_eq!(ended, None, "{}", guest.stderr());
            fs::read_to_string(guest.folder.path().join("stdout")).unwrap() == says
        });
        guest
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    fn folder(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.child.id().to_string())
            .join(name)
    }

    /// The folders of the process's threads in /proc.
    pub fn tasks(&self) -> Vec<PathBuf> {
        let tasks = fs::read_dir(self.folder("task")).unwrap();
        tasks.map(|task| task.unwrap().path()).collect()
    }

    /// Makes the first thread with this name make a system call.
    pub fn make(&self, thread: &str, number: libc::c_long, arguments: [u64; 6]) {
        await_that("the thread to be in a system call", || {
            let tasks = self.tasks();
            let Some(task) = tasks.iter().find(|task| name(task) == thread) else {
                return false;
            };
            let id = task.file_name().unwrap().to_str().unwrap();
            tracer::make(id.parse().unwrap(), number, arguments)
        });
    }

    /// What the process's descriptors refer to, by number.
    pub fn descriptors(&self) -> Vec<(u32, String)> {
        let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
        let open = fs::read_dir(self.folder("fd")).unwrap();
        let paths = open.map(|entry| entry.unwrap().path());
        let mut open: Vec<_> = paths
            .filter_map(|path| {
                let target = fs::read_link(&path).ok()?;
                Some((number(&path)?, target.to_str()?.to_owned()))
            })
            .collect();
        open.sort();
        open
    }

    /// Asks the process to end.
    pub fn terminate(&self) {
        let process = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(process, Signal::TERM).unwrap();
    }

    /// Waits for the end of the process, and returns its status and what it wrote to standard error.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        await_that("the process to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap(), self.stderr())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name of a thread.
pub fn name(task: &Path) -> String {
    let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
    name.trim_end().to_owned()
}
