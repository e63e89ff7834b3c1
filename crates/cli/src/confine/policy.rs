//! Which system calls each kind of thread may make, depending on the guest's devices.
//!
//! All threads share their memory, so a guest that takes over one may use the others: it can do what all of them
//! together may do. No rule allows a thread to open a file, make a socket, start a process, name another process or
//! make memory executable.

use std::collections::BTreeMap;

use anyhow::Result;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use vmbell::thread::ThreadKind;

use super::ioctl;

/// The guest's devices that need further calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceNeeds {
    /// A disk.
    pub(crate) disk: bool,
    /// A network card on a tap.
    pub(crate) tap: bool,
    /// Queues that a kernel thread serves (vhost).
    pub(crate) worker: bool,
    /// Queues that another process serves (vhost-user).
    pub(crate) user_worker: bool,
    /// An assigned device of the host.
    pub(crate) assigned: bool,
    /// PCI configuration space as memory, which is unmapped when a function handles its own registers.
    pub(crate) config_memory: bool,
    /// pc-testdev, which flushes pages.
    pub(crate) pc_testdev: bool,
}

/// The rules of a kind of thread.
pub(super) struct ThreadPolicy {
    pub(super) rules: Rules,
    /// Whether the thread enters a guest, or starts threads that do.
    pub(super) runs_vcpu: bool,
}

/// The alternatives of each allowed call; an empty list allows all arguments.
pub(super) type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// A condition on an argument: its index, width, comparison and value.
type ArgumentCondition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// What every thread calls: time, memory, locks, its own exit, and open descriptors.
const ALWAYS: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    // Signals an eventfd without blocking if its count is full.
    libc::SYS_io_getevents,
    libc::SYS_io_submit,
    libc::SYS_madvise,
    // Orders the accesses of a bus's readers when a thread changes the bus.
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    // Waits for room in a non-blocking descriptor, and reads a pending bit of an assigned device.
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Timers of event loops, set by their threads, and of vCPUs.
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// What a vCPU's thread also calls: it makes eventfds, and waits for them, while the guest sets its devices up.
const VCPU: &[c_long] = &[
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
];

/// A disk's file, and its size.
const DISK: &[c_long] = &[
    libc::SYS_fdatasync,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
];

/// Registers of an assigned device, and the file that they are mapped from.
const REGISTERS: &[c_long] = &[libc::SYS_fstat, libc::SYS_pread64, libc::SYS_pwrite64];

/// Requests to another process, on a connected socket.
const SOCKET: &[c_long] = &[libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_shutdown];

/// The flags with which the C library starts a thread, without CLONE_DETACHED, which does nothing.
const THREAD: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// The rules for a kind of thread in a guest with these devices. The main thread may do what vCPU threads may do,
/// because it starts them again when the guest wakes from sleep.
pub(super) fn of(kind: ThreadKind, devices: &DeviceNeeds) -> Result<ThreadPolicy, BackendError> {
    let mut rules = Rules::new();
    let mut allow = |calls: &[c_long]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    allow(ALWAYS);
    if devices.disk {
        allow(DISK);
    }
    if devices.tap {
        // A thread that sends packets sleeps with a time limit while an interrupt is delayed.
        allow(&[libc::SYS_epoll_pwait2]);
    }
    if devices.assigned {
        allow(REGISTERS);
    }
    let starts_threads = kind != ThreadKind::Device;
    // The host may ask for an assigned device back; then a thread of the device removes it from the guest.
    if starts_threads || devices.assigned {
        allow(VCPU);
    }
    if devices.user_worker {
        allow(if starts_threads {
            SOCKET
        } else {
            // The device's thread ends the connection when it gives up waiting for the back end.
            &[libc::SYS_shutdown]
        });
    }
    restrict(&mut rules, libc::SYS_ioctl, requests(kind, devices))?;
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    restrict(&mut rules, libc::SYS_mmap, [not(2, executable)])?;
    if starts_threads && devices.pc_testdev {
        // pc-testdev makes pages of RAM executable for a moment.
        rules.insert(libc::SYS_mprotect, Vec::new());
    } else {
        restrict(&mut rules, libc::SYS_mprotect, [not(2, executable)])?;
    }
    restrict(&mut rules, libc::SYS_prctl, [is(0, libc::PR_SET_NAME)])?;
    // A debug build checks a descriptor before it closes it.
    restrict(&mut rules, libc::SYS_fcntl, [is(1, libc::F_GETFD)])?;
    let this = std::process::id();
    let signals = [libc::SIGRTMIN(), libc::SIGABRT];
    let to_itself = signals.map(|signal| {
        let [signal] = is(2, signal);
        [(0, Dword, Eq, this.into()), signal]
    });
    restrict(&mut rules, libc::SYS_tgkill, to_itself)?;
    if starts_threads {
        // musl sets the flag again after F_DUPFD_CLOEXEC.
        let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_DUPFD_CLOEXEC];
        restrict(
            &mut rules,
            libc::SYS_fcntl,
            commands.map(|command| is(1, command)),
        )?;
        let detached = u64::from(libc::CLONE_DETACHED.cast_unsigned());
        let flags = u64::from(THREAD.cast_unsigned());
        restrict(
            &mut rules,
            libc::SYS_clone,
            [[(0, Qword, MaskedEq(!detached), flags)]],
        )?;
        // A new thread installs its own filter, which can only remove calls, and makes the calls that seccompiler makes
        // before that.
        let set_filter = libc::SECCOMP_SET_MODE_FILTER;
        let no_flags = (1, Qword, Eq, 0);
        restrict(
            &mut rules,
            libc::SYS_seccomp,
            [[(0, Dword, Eq, set_filter.into()), no_flags]],
        )?;
        let prctl = [libc::PR_SET_NAME, libc::PR_SET_NO_NEW_PRIVS];
        restrict(
            &mut rules,
            libc::SYS_prctl,
            prctl.map(|option| is(0, option)),
        )?;
    }
    Ok(ThreadPolicy {
        rules,
        runs_vcpu: starts_threads,
    })
}

/// The allowed ioctl requests.
fn requests(kind: ThreadKind, devices: &DeviceNeeds) -> Vec<[ArgumentCondition; 1]> {
    // The thread that ends a hanging run also restores the terminal.
    let mut lists = vec![ioctl::INTERRUPTS, ioctl::TERMINAL];
    if devices.assigned {
        lists.extend([ioctl::EXITS, ioctl::ASSIGNED, ioctl::MEMORY]);
    }
    if kind != ThreadKind::Device {
        lists.extend([&[ioctl::KVM_RUN], ioctl::EXITS]);
        if devices.tap {
            lists.push(ioctl::TAP);
        }
        if devices.worker {
            lists.push(ioctl::WORKER);
        }
        if devices.config_memory {
            lists.push(ioctl::MEMORY);
        }
    }
    if kind == ThreadKind::Main {
        lists.push(ioctl::WAKE);
    }
    let each = lists.into_iter().flatten();
    each.map(|request| [(1, Dword, Eq, u64::from(*request))])
        .collect()
}

/// The argument is this number.
fn is(argument: u8, value: libc::c_int) -> [ArgumentCondition; 1] {
    [(argument, Dword, Eq, u64::from(value.cast_unsigned()))]
}

/// The argument has none of these bits.
fn not(argument: u8, bits: u64) -> [ArgumentCondition; 1] {
    [(argument, Qword, MaskedEq(bits), 0)]
}

/// Allows a call if all conditions of one of the alternatives hold.
fn restrict<const N: usize>(
    rules: &mut Rules,
    call: c_long,
    alternatives: impl IntoIterator<Item = [ArgumentCondition; N]>,
) -> Result<(), BackendError> {
    let condition = |(argument, width, comparison, value)| {
        SeccompCondition::new(argument, width, comparison, value)
    };
    let chain = |conditions: [ArgumentCondition; N]| {
        SeccompRule::new(
            conditions
                .into_iter()
                .map(condition)
                .collect::<Result<_, _>>()?,
        )
    };
    let chains = alternatives
        .into_iter()
        .map(chain)
        .collect::<Result<_, _>>()?;
    rules.insert(call, chains);
    Ok(())
}
