//! An emulator as a child process that does not outlive its parent.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, set_parent_process_death_signal,
    waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::error::{LabError, cannot};
use crate::qemu::Qemu;

/// Starts QEMU, see [`start_program`].
pub(super) fn start(vmbell: &Path, qemu: &Qemu, arguments: &[OsString]) -> Result<Child, LabError> {
    let words = [qemu.words(), arguments.to_vec()].concat();
    start_program(vmbell, &words, &qemu.environment(), Stdio::null())
}

/// Starts an emulator through `vmbell lab exec`, see [`exec_applet`].
pub(super) fn start_program(
    vmbell: &Path,
    words: &[OsString],
    environment: &[(&'static str, PathBuf)],
    stdin: Stdio,
) -> Result<Child, LabError> {
    let mut command = Command::new(vmbell);
    command
        .args(["lab", "exec", "--"])
        .args(words)
        .envs(environment.iter().map(|(name, value)| (name, value)));
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(cannot("start", vmbell))
}

/// Replaces this process with the emulator (`exec`); returns only if that fails. The kernel kills the emulator when the
/// parent dies: otherwise a machine that hangs would run forever.
///
/// All threads of the emulator share one CPU of the host. In a QEMU with one CPU per thread, guests with several vCPUs
/// sometimes shut down or stop (docs/emulator-bugs.md). Concurrent boots use different CPUs if there are enough.
pub fn exec_applet(words: &[OsString]) -> std::io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return std::io::Error::other("no program to become");
    };
    if let Err(error) =
        set_parent_process_death_signal(Some(Signal::KILL)).and_then(|()| take_cpu())
    {
        return error.into();
    }
    Command::new(program).args(arguments).exec()
}

/// Pins this thread, and thus the program that it executes and all threads of that program, to a CPU that no other boot
/// has claimed, preferably the current one. If all CPUs are claimed, pins this thread to the current CPU.
fn take_cpu() -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let here = sched_getcpu();
    let others = (0..CpuSet::MAX_CPU).filter(|cpu| *cpu != here && allowed.is_set(*cpu));
    let free = std::iter::once(here).chain(others).find(|cpu| claim(*cpu));
    let mut cpus = CpuSet::new();
    cpus.set(free.unwrap_or(here));
    sched_setaffinity(None, &cpus)
}

/// Claims a CPU until this process, or the program that it executes, ends: only one socket can be bound to an address.
fn claim(cpu: usize) -> bool {
    let bind = || {
        let address = SocketAddr::from_abstract_name(format!("vmbell-lab-cpu-{cpu}"))?;
        let socket = UnixDatagram::bind_addr(&address)?;
        // The program that this process executes inherits the socket.
        fcntl_setfd(&socket, FdFlags::empty())?;
        std::io::Result::Ok(socket.into_raw_fd())
    };
    bind().is_ok()
}

/// Opens a handle of a child process that has not been waited for.
pub(super) fn handle(child: &Child) -> std::io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits for the end of a process without reaping it, and returns the CPU time that it used.
pub(super) fn wait_for_end(pid: u32) -> Duration {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(
            waitid(WaitId::Pid(pid), options),
            Err(rustix::io::Errno::INTR)
        ) {}
    }
    cpu_time(pid).unwrap_or_default()
}

/// Returns the user and system time of all threads, including finished threads.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let process = procfs::process::Process::new(pid.try_into().ok()?).ok()?;
    let stat = process.stat().ok()?;
    let rate = procfs::ticks_per_second();
    Some(Duration::from_millis(
        (stat.utime + stat.stime) * 1000 / rate.max(1),
    ))
}

/// Returns how long all runnable threads of a process waited for a CPU at the same time. They share one CPU, so each
/// thread also waits for the others. That time is not counted.
pub(super) fn waited(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    });
    Duration::from_nanos(waited_by_all(&threads.collect::<Vec<_>>()))
}

/// Calculates this wait from how long each thread ran and waited, in nanoseconds.
fn waited_by_all(threads: &[(u64, u64)]) -> u64 {
    let ran: u64 = threads.iter().map(|(ran, _)| ran).sum();
    let busy = threads.iter().map(|(ran, waited)| ran + waited).max();
    busy.unwrap_or_default().saturating_sub(ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_for_each_other_do_not_count_as_waiting() {
        for (threads, waited) in [
            (&[][..], 0),
            (&[(10, 90)], 90),
            (&[(50, 50), (50, 50)], 0),
            (&[(5, 95), (5, 95)], 90),
            (&[(10, 0), (30, 70)], 60),
        ] {
            assert_eq!(waited_by_all(threads), waited, "{threads:?}");
        }
    }

    #[test]
    fn a_process_beside_another_on_one_cpu_waits() {
        let mut cpus = CpuSet::new();
        cpus.set(sched_getcpu());
        let mut both = [(); 2].map(|()| {
            let mut command = Command::new("sh");
            let child = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
            sched_setaffinity(Some(Pid::from_child(&child)), &cpus).unwrap();
            child
        });
        let began = std::time::Instant::now();
        let waits = |child: &Child| waited(child.id()) > Duration::ZERO;
        while !both.iter().any(waits) && began.elapsed() < Duration::from_secs(120) {
            std::thread::yield_now();
        }
        let found = both.iter().any(waits);
        for child in &mut both {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(found);
        assert_eq!(waited(both[0].id()), Duration::ZERO, "it has ended");
    }

    #[test]
    fn a_cpu_is_claimed_once() {
        // No machine has this CPU, so no boot claims it.
        const CPU: usize = usize::MAX;
        assert!(claim(CPU));
        assert!(!claim(CPU));
    }

    #[test]
    fn cpu_time_of_a_process_that_has_ended_is_still_told() {
        let mut child = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
            .spawn()
            .unwrap();
        let used = wait_for_end(child.id());
        assert!(child.wait().unwrap().success());
        assert!(used > Duration::ZERO);
    }
}
