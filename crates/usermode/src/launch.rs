//! Starts sandbox processes: fork, then `execveat` of the stub from a sealed memory file.
//!
//! One thread (`vmbell-launcher`) starts all sandboxes and lives as long as the monitor, because the kernel sends the
//! parent-death signal when the *thread* that forked ends, not when the process ends. The thread does not wait until
//! the new process executes the stub: a process that is stopped before then must not delay other sandboxes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::fs::SealFlags;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Resource, getrlimit};
use stub::layout::{boot_fd, exit_code};

use super::mapping::{memory_file, seal};
use vmbell::sync::Mutex;
use vmbell_hypervisor::Error;

/// The files that a sandbox starts with, in the order of [`stub::layout::boot_fd`].
#[derive(Debug)]
pub struct BootFiles {
    /// The file that the sandbox can map only read-only.
    pub read_only: File,
    /// The file that both sides map writable.
    pub writable: File,
    /// The file of guest RAM.
    pub ram: File,
    /// The sandbox's end of the socket.
    pub socket: OwnedFd,
    /// The files of device memory.
    pub devices: Vec<Arc<File>>,
}

struct Job {
    files: BootFiles,
    answer: Sender<Result<Pid, Error>>,
}

/// Starts the stub with these files and returns its process id; the caller must reap the process. If the process cannot
/// execute the stub, it sends the error number through its socket, in four bytes.
pub fn launch(files: BootFiles) -> Result<Pid, Error> {
    static LAUNCHER: Launcher = Launcher::new();
    let (answer, result) = channel();
    let gone = || Error::System {
        operation: "reach the launcher thread",
        source: io::ErrorKind::BrokenPipe.into(),
    };
    let jobs = LAUNCHER.jobs(spawn)?;
    jobs.send(Job { files, answer }).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

/// Starts the launcher thread.
fn spawn(jobs: Receiver<Job>) -> io::Result<()> {
    let run = move || {
        for Job { files, answer } in jobs {
            // The caller of `launch` waits for the answer.
            let _ = answer.send(start(files));
        }
    };
    std::thread::Builder::new()
        .name("vmbell-launcher".into())
        .spawn(run)
        .map(drop)
}

/// The launcher thread: the sender of its jobs, once it has started.
struct Launcher(Mutex<Option<Sender<Job>>>);

impl Launcher {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the sender of the thread's jobs. The first caller starts the thread by `spawn`; after a failure, the
    /// next caller tries again.
    fn jobs(
        &self,
        spawn: impl FnOnce(Receiver<Job>) -> io::Result<()>,
    ) -> Result<Sender<Job>, Error> {
        let mut launcher = self.0.lock();
        if let Some(sender) = &*launcher {
            return Ok(sender.clone());
        }
        let (sender, jobs) = channel();
        spawn(jobs).map_err(Error::system("start the launcher thread"))?;
        *launcher = Some(sender.clone());
        Ok(sender)
    }
}

fn stub_file() -> Result<File, Error> {
    use std::io::Write;
    let mut file = memory_file(c"vmbell-sandbox", 0)?;
    file.write_all(stub::ELF)
        .map_err(Error::system("write the stub"))?;
    seal(
        &file,
        SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
    )?;
    Ok(file)
}

fn start(files: BootFiles) -> Result<Pid, Error> {
    let executable = above_boot_fds(stub_file()?)?;
    let socket = above_boot_fds(&files.socket)?;
    let mut copies = Vec::new();
    let devices = (boot_fd::DEVICES..).zip(files.devices.iter().map(AsFd::as_fd));
    for (place, file) in [
        (boot_fd::READ_ONLY, files.read_only.as_fd()),
        (boot_fd::WRITABLE, files.writable.as_fd()),
        (boot_fd::RAM, files.ram.as_fd()),
        (boot_fd::SOCKET, files.socket.as_fd()),
    ]
    .into_iter()
    .chain(devices)
    {
        copies.push((above_boot_fds(file)?, place));
    }
    let copies = copies.iter();
    let places: Vec<(RawFd, i32)> = copies
        .map(|(file, place)| (file.as_raw_fd(), *place))
        .collect();
    let limit = fd_limit();
    // SAFETY: between fork and exec the child makes system calls only; it allocates nothing, takes
    // no lock and does not return from here.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last("start the sandbox process")),
        0 => become_stub(executable.as_raw_fd(), &places, socket.as_raw_fd(), limit),
        child => Pid::from_raw(child).ok_or_else(|| Error::last("start the sandbox process")),
    }
}

/// Duplicates `fd` to a number above the boot descriptors, even if the monitor has no standard streams.
fn above_boot_fds(fd: impl AsFd) -> Result<OwnedFd, Error> {
    fcntl_dupfd_cloexec(fd, boot_fd::END).map_err(Error::system("duplicate a descriptor"))
}

/// Runs in the new process: moves the files to their numbers and executes the stub.
fn become_stub(executable: RawFd, files: &[(RawFd, i32)], socket: RawFd, limit: u64) -> ! {
    // SAFETY: no pointers; the descriptors are open.
    let placed = files
        .iter()
        .all(|(file, place)| unsafe { libc::dup2(*file, *place) } >= 0);
    if placed && set_limits(limit) {
        let end = files
            .iter()
            .map(|(_, place)| place.cast_unsigned() + 1)
            .max();
        execute(executable, end.unwrap_or_default());
    }
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let bytes = error.to_ne_bytes();
    // SAFETY: `bytes` outlives the call, and the socket is open. A failure of the write cannot be reported anywhere.
    unsafe { libc::write(socket, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: ends the process, which shares no memory with the monitor.
    unsafe { libc::_exit(exit_code::START) }
}

/// Executes the stub, which keeps the first descriptors. Returns only if that fails.
fn execute(executable: RawFd, kept: libc::c_uint) {
    let arguments = [c"vmbell-sandbox".as_ptr(), std::ptr::null()];
    let environment: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: no pointers.
    unsafe { libc::setsid() };
    // SAFETY: no pointers. Every descriptor that the monitor left inheritable is closed at the exec.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            kept,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    // SAFETY: the path is empty, the vectors end with null, and `executable` is open here.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            executable,
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
}

/// Sets the limit on descriptors, and forbids core dumps, which would hold guest memory.
fn set_limits(fd_limit: u64) -> bool {
    set_limit(libc::RLIMIT_NOFILE, fd_limit) && set_limit(libc::RLIMIT_CORE, 0)
}

fn set_limit(resource: libc::__rlimit_resource_t, most: u64) -> bool {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: `limit` outlives the call.
    unsafe { libc::setrlimit(resource, &raw const limit) >= 0 }
}

/// Returns the maximum number of descriptors of a sandbox: the hard limit of RLIMIT_NOFILE, but at most 2^20.
pub fn fd_limit() -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum;
    hard.unwrap_or(u64::MAX).min(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_that_could_not_be_started_is_started_by_the_next_launch() {
        let launcher = Launcher::new();
        let refused = |_| Err(io::Error::from_raw_os_error(libc::EAGAIN));
        let error = launcher.jobs(refused).unwrap_err();
        assert_eq!(error.to_string(), "cannot start the launcher thread");
        let mut kept = None;
        let sender = launcher.jobs(|jobs| {
            kept = Some(jobs);
            Ok(())
        });
        sender.unwrap();
        launcher.jobs(|_| panic!("it has started")).unwrap();
    }
}
