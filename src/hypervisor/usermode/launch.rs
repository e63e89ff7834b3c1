//! Starts sandbox processes.
//!
//! One thread starts all of them and lives as long as the monitor does: the kernel sends the
//! parent-death signal when the *thread* that forked ends, not the process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use super::error::UsermodeError;
use super::mapping::{memory_file, seal};

/// What a sandbox starts with, in the order of [`stub::layout::boot_fd`].
#[derive(Debug)]
pub struct BootFiles {
    /// The file that the sandbox must not write.
    pub read_only: File,
    /// The file that both sides write.
    pub writable: File,
    /// The sandbox's end of the socket.
    pub socket: OwnedFd,
}

struct Job {
    files: BootFiles,
    answer: Sender<Result<Child, UsermodeError>>,
}

/// Starts the stub with these files.
pub fn launch(files: BootFiles) -> Result<Child, UsermodeError> {
    static LAUNCHER: OnceLock<Sender<Job>> = OnceLock::new();
    let gone = || UsermodeError::System {
        operation: "reach the launcher thread",
        source: io::ErrorKind::BrokenPipe.into(),
    };
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let run = move || {
            for Job { files, answer } in jobs {
                // Whoever asked is waiting; if it is gone the child's handle is dropped with the answer.
                let _ = answer.send(start(files));
            }
        };
        // Without the thread every launch fails with a broken channel, which `gone` reports.
        let _ = std::thread::Builder::new()
            .name("vmbell-launcher".into())
            .spawn(run);
        sender
    });
    let (answer, result) = channel();
    launcher.send(Job { files, answer }).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

fn stub_file() -> Result<File, UsermodeError> {
    use std::io::Write;
    let mut file = memory_file(c"vmbell-sandbox", 0)?;
    file.write_all(stub::ELF)
        .map_err(|source| UsermodeError::System {
            operation: "write the stub",
            source,
        })?;
    seal(
        &file,
        libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
    )?;
    Ok(file)
}

fn start(files: BootFiles) -> Result<Child, UsermodeError> {
    let executable = stub_file()?;
    let mut command = Command::new("vmbell-sandbox");
    command
        .stdin(Stdio::from(files.read_only))
        .stdout(Stdio::from(files.writable))
        .stderr(Stdio::from(files.socket));
    let fd = executable.as_raw_fd();
    let become_stub = move || -> io::Error {
        let limit = raise_fd_limit();
        if limit.is_err() {
            return io::Error::last_os_error();
        }
        let arguments = [c"vmbell-sandbox".as_ptr(), std::ptr::null()];
        let environment: [*const libc::c_char; 1] = [std::ptr::null()];
        // SAFETY: as for the exec below: no memory is allocated between fork and exec.
        unsafe { libc::setsid() };
        // SAFETY: no pointers. Whatever the monitor left inheritable closes at the exec.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        // SAFETY: the path is empty, the vectors end with null, and `fd` is open in the child too.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                fd,
                c"".as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        io::Error::last_os_error()
    };
    // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(move || Err(become_stub())) };
    command.spawn().map_err(|source| UsermodeError::System {
        operation: "start the sandbox process",
        source,
    })
}

/// As many descriptors as the hard limit allows, and no core dump of guest memory.
fn raise_fd_limit() -> Result<(), ()> {
    let limit = libc::rlimit {
        rlim_cur: fd_limit(),
        rlim_max: fd_limit(),
    };
    // SAFETY: `limit` outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } < 0 {
        return Err(());
    }
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } < 0 {
        return Err(());
    }
    Ok(())
}

/// How many descriptors a sandbox may have: the hard limit, within what the table can number.
pub fn fd_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` outlives the call, which fills it in.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_max.min(1 << 20)
}
