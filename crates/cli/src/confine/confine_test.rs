#![allow(unsafe_code, reason = "fork")]

use std::fs::File;
use std::io::{Read, pipe};
use std::os::fd::AsRawFd;
use std::ptr::null;
use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use vmbell::bus::{Backlog, BusDevice};
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{Disk, Notify, VirtioConfig, VirtioDevice};
use vmbell_virtqueue::{Buffer, Features, SplitDriver, SplitLayout};

const ALL: DeviceNeeds = DeviceNeeds {
    disk: true,
    tap: true,
    worker: true,
    user_worker: true,
    assigned: true,
    config_memory: true,
    pc_testdev: true,
};
const KINDS: [ThreadKind; 3] = [ThreadKind::Main, ThreadKind::Vcpu(3), ThreadKind::Device];

/// Installs the filter of this kind in a new process, which then calls `act`. Returns how the process ended and what it
/// wrote to standard error. The status is 0 if `act` returns.
fn confined(kind: ThreadKind, act: fn()) -> (i32, String) {
    let program = program::compile(policy::of(kind, &ALL).unwrap()).unwrap();
    let (mut reader, writer) = pipe().unwrap();
    // SAFETY: the child makes system calls, allocates nothing and takes no lock, and does not return from here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointers; both are open.
        unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
        violation::name_thread(kind);
        if violation::catch().is_ok() && apply_filter(&program).is_ok() {
            act();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(1) };
    }
    assert!(child > 0);
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: `status` outlives the call, which fills it.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    (status, said)
}

fn call(number: libc::c_long, first: libc::c_ulong, second: libc::c_ulong) -> libc::c_long {
    // SAFETY: the tests pass no pointers but null.
    unsafe { libc::syscall(number, first, second, null::<u8>(), 0) }
}

#[test]
fn a_denied_call_is_named_with_its_thread_and_ends_the_process() {
    for kind in KINDS {
        let (status, said) = confined(kind, || {
            call(libc::SYS_socket, 1, 1);
        });
        assert_eq!(
            libc::WEXITSTATUS(status),
            i32::from(violation::STATUS),
            "{said}"
        );
        let number = libc::SYS_socket;
        let begin =
            format!("error: {kind}: system call socket ({number}) is not allowed by its sandbox");
        assert!(said.starts_with(&begin), "{said}");
        assert!(said.ends_with('\n'), "{said}");
    }
}

#[test]
fn an_ioctl_is_told_by_its_request() {
    let (status, said) = confined(ThreadKind::Vcpu(3), || {
        call(libc::SYS_ioctl, 0, 0x5413);
    });
    assert_eq!(
        libc::WEXITSTATUS(status),
        i32::from(violation::STATUS),
        "{said}"
    );
    let number = libc::SYS_ioctl;
    assert!(
        said.contains(&format!(
            "vcpu 3: system call ioctl ({number}, request 0x5413)"
        )),
        "{said}"
    );
}

#[test]
fn a_thread_that_blocks_the_signal_is_killed() {
    let (status, _) = confined(ThreadKind::Device, || {
        // SAFETY: sigset_t is made of integers.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `all` outlives the call, which fills it.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: `all` outlives the call, which reads it.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()) };
        call(libc::SYS_socket, 1, 1);
    });
    assert_eq!(libc::WTERMSIG(status), libc::SIGSYS);
}

#[test]
fn the_handler_cannot_be_replaced() {
    let (status, said) = confined(ThreadKind::Main, || {
        // SAFETY: the handler is one of the C library's constants.
        unsafe { libc::signal(libc::SIGSYS, libc::SIG_IGN) };
    });
    assert_eq!(libc::WEXITSTATUS(status), i32::from(violation::STATUS));
    assert!(said.contains("system call rt_sigaction"), "{said}");
}

#[test]
fn the_entry_into_a_guest_is_a_vcpus_and_clone3_does_not_exist() {
    fn enter() {
        // The call fails, because the descriptor is not a vCPU.
        call(libc::SYS_ioctl, libc::c_ulong::MAX, ioctl::KVM_RUN.into());
    }
    assert_eq!(confined(ThreadKind::Vcpu(3), enter), (0, String::new()));
    assert!(
        confined(ThreadKind::Device, enter)
            .1
            .contains("request 0xae80")
    );
    let (status, _) = confined(ThreadKind::Vcpu(3), || {
        if call(libc::SYS_clone3, 0, 0) != -1
            || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
        {
            violation::end();
        }
    });
    assert_eq!(status, 0);
}

#[test]
fn only_threads_can_be_started() {
    let (status, said) = confined(ThreadKind::Vcpu(3), || {
        call(libc::SYS_clone, libc::SIGCHLD.cast_unsigned().into(), 0);
    });
    assert_eq!(libc::WEXITSTATUS(status), i32::from(violation::STATUS));
    assert!(said.contains("system call clone "), "{said}");
}

#[test]
fn no_kind_of_thread_reaches_files_processes_or_sockets_by_name() {
    let never = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_kill,
        libc::SYS_ptrace,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_unshare,
        libc::SYS_mount,
        libc::SYS_rt_sigaction,
        libc::SYS_memfd_create,
    ];
    for kind in KINDS {
        let rules = policy::of(kind, &ALL).unwrap().rules;
        for call in never {
            assert!(!rules.contains_key(&call), "{kind}: {call}");
        }
        let restricted = [
            libc::SYS_ioctl,
            libc::SYS_mmap,
            libc::SYS_prctl,
            libc::SYS_tgkill,
        ];
        for call in restricted {
            assert!(!rules[&call].is_empty(), "{kind}: {call}");
        }
    }
}

#[test]
fn a_device_thread_has_fewer_calls_than_a_vcpu_and_that_no_more_than_the_main_thread() {
    let [main, vcpu, device] =
        KINDS.map(|kind| policy::of(kind, &DeviceNeeds::default()).unwrap().rules);
    assert!(device.keys().all(|call| vcpu.contains_key(call)));
    assert!(device.len() < vcpu.len());
    assert!(vcpu.keys().all(|call| main.contains_key(call)));
    assert!(!device.contains_key(&libc::SYS_pwrite64));
}

/// A driver's registers up to DRIVER_OK, with a queue at the start of memory.
fn start(transport: &VirtioMmio, layout: &SplitLayout) {
    let write = |at, value: u32| transport.write(at, &value.to_le_bytes());
    let address = |at: u64| u32::try_from(at).unwrap();
    for (at, value) in [
        (register::STATUS, 3),
        (register::DRIVER_FEATURES_SEL, 1),
        (register::DRIVER_FEATURES, 1),
        (register::STATUS, 11),
        (register::QUEUE_SIZE, layout.size.into()),
        (register::QUEUE_DESC[0], address(layout.descriptors)),
        (register::QUEUE_DRIVER[0], address(layout.avail)),
        (register::QUEUE_DEVICE[0], address(layout.used)),
        (register::QUEUE_READY, 1),
        (register::STATUS, 15),
    ] {
        write(at, value);
    }
}

#[test]
fn a_disk_makes_no_call_that_is_not_allowed() {
    const DATA: u64 = 0x4000;
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1_0000)]).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(8 * 512).unwrap();
    let flushed = file.try_clone().unwrap();
    let config = VirtioConfig {
        notify: Notify::Never,
        ..VirtioConfig::default()
    };
    let device = VirtioDevice::new(Disk::new(file, false).unwrap(), 1, config);
    let (interrupt, backlog) = (Interrupt::none(), Backlog::default());
    let transport = VirtioMmio::new(device, &memory, interrupt, backlog).unwrap();
    let layout = SplitLayout::contiguous(0, 16);
    let (header, status) = (Buffer::new(0x2000, 16), Buffer::new(0x3000, 1));
    let (one, two) = (Buffer::new(DATA, 1024), [Buffer::new(DATA, 512); 2]);
    vmbell_virtqueue::brand::scoped(|brand| {
        let theirs = &memory;
        let mut driver = SplitDriver::new(&theirs, &layout, Features::default(), brand).unwrap();
        start(&transport, &layout);
        // Reads, writes (which flush), and a flush.
        for (kind, data) in [
            (0_u8, &[one][..]),
            (0, &two),
            (1, &[one]),
            (1, &two),
            (4, &[]),
        ] {
            memory
                .write_obj(u64::from(kind), GuestAddress(header.addr))
                .unwrap();
            memory
                .write_obj(0xff_u8, GuestAddress(status.addr))
                .unwrap();
            let [readable, writable] = if kind == 0 {
                [vec![header], [data, &[status]].concat()]
            } else {
                [[&[header], data].concat(), vec![status]]
            };
            driver.add(&readable, &writable, ()).unwrap();
            let queue = Arc::clone(&transport.queues()[0]);
            let disk = DeviceNeeds {
                disk: true,
                ..DeviceNeeds::default()
            };
            let program = program::compile(policy::of(ThreadKind::Device, &disk).unwrap()).unwrap();
            let flushed = flushed.try_clone().unwrap();
            let device = std::thread::spawn(move || {
                apply_filter(&program).unwrap();
                let _ = queue.serve();
                // The disk's flushing thread, which was started before, does the same.
                flushed.sync_data()
            });
            device.join().unwrap().unwrap();
            while driver.get_used().unwrap().is_none() {
                std::thread::yield_now();
            }
            let answer: u8 = memory.read_obj(GuestAddress(status.addr)).unwrap();
            assert_eq!(answer, 0, "{kind} {data:?}");
        }
    });
}

#[test]
fn descriptors_that_the_process_was_started_with_are_found() {
    let file = File::open("/dev/null").unwrap();
    let InheritedDescriptors { 0: open } = InheritedDescriptors::find().unwrap();
    assert!(open.contains(&file.as_raw_fd()));
    assert!(open.iter().all(|fd| *fd > libc::STDERR_FILENO));
}

#[test]
fn a_thread_that_measures_reads_files_and_changes_none_if_the_kernel_has_landlock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "before").unwrap();
    let measures = std::thread::spawn(move || {
        let lacking = privileges::give_up_changes().unwrap();
        let read = std::fs::read_to_string(&path).unwrap();
        let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        let written = std::fs::write(&path, "after").map_err(denied);
        let executed = std::process::Command::new("/bin/true")
            .status()
            .map_err(denied);
        (
            lacking,
            read,
            written,
            executed.map(|status| status.success()),
        )
    });
    let (lacking, read, written, executed) = measures.join().unwrap();
    assert_eq!(read, "before");
    if lacking == Some("this kernel has no Landlock to restrict files with") {
        assert_eq!((written, executed), (Ok(()), Ok(true)));
    } else {
        assert_eq!((written, executed), (Err(true), Err(true)));
    }
}

#[test]
fn a_panic_of_a_confined_thread_is_told_without_a_backtrace() {
    const INSIDE: &str = "VMBELL_TEST_CONFINED_PANIC";
    let name = "confine::tests::a_panic_of_a_confined_thread_is_told_without_a_backtrace";
    if std::env::var_os(INSIDE).is_some() {
        begin(&DeviceNeeds::default()).unwrap();
        let panics = || panic!("on purpose");
        let thread = vmbell::thread::spawn(ThreadKind::Device, "doomed", panics).unwrap();
        assert!(thread.join().is_err());
        return;
    }
    let inside = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .env("RUST_BACKTRACE", "full")
        .output()
        .unwrap();
    let said = String::from_utf8(inside.stderr).unwrap();
    assert!(inside.status.success(), "{said}");
    assert!(said.contains("thread 'doomed' panicked at"), "{said}");
    assert!(said.contains("on purpose"), "{said}");
}
