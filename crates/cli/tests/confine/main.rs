//! `vmbell run` with its sandbox: what the threads of a running guest have given up, and what happens to a thread that
//! makes a forbidden system call.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

mod guest;
mod program;
mod tracer;

/// The tests boot a guest.
mod kvm {
    use std::fs;

    use super::guest::{Guest, MAIN, VCPU, name};
    use kit::wait::await_that;

    /// The exit status of a process after a filter denied a call.
    const DENIED: i32 = 148;

    /// The kinds of threads: the name of one such thread, and its name in messages.
    const KINDS: [(&str, &str); 3] = [
        (MAIN, "main thread"),
        (VCPU, "vcpu 0"),
        ("vmbell-listener", "device thread"),
    ];

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_forbidden_call_of_any_thread_ends_the_process_and_is_named() {
        let (anonymous, executable) = (0x22, 0x7);
        let calls: [(&str, libc::c_long, [u64; 6]); 10] = [
            ("openat (257)", libc::SYS_openat, [u64::MAX, 0, 0, 0, 0, 0]),
            ("execve (59)", libc::SYS_execve, [0, 0, 0, 0, 0, 0]),
            ("socket (41)", libc::SYS_socket, [1, 1, 0, 0, 0, 0]),
            ("ptrace (101)", libc::SYS_ptrace, [0, 0, 0, 0, 0, 0]),
            ("kill (62)", libc::SYS_kill, [1, 0, 0, 0, 0, 0]),
            ("tgkill (234)", libc::SYS_tgkill, [1, 1, 34, 0, 0, 0]),
            ("bpf (321)", libc::SYS_bpf, [0, 0, 0, 0, 0, 0]),
            (
                "ioctl (16, request 0x5413)",
                libc::SYS_ioctl,
                [1, 0x5413, 0, 0, 0, 0],
            ),
            (
                "mmap (9)",
                libc::SYS_mmap,
                [0, 4096, executable, anonymous, u64::MAX, 0],
            ),
            ("clone (56)", libc::SYS_clone, [17, 0, 0, 0, 0, 0]),
        ];
        for (thread, kind) in KINDS {
            for (call, number, arguments) in calls {
                let guest = Guest::start(&["--device", "virtio-rng"]);
                guest.make(thread, number, arguments);
                let (status, stderr) = guest.end();
                let message =
                    format!("error: {kind}: system call {call} is not allowed by its sandbox");
                assert!(
                    stderr.contains(&message),
                    "{kind}, {call}: {status}: {stderr}"
                );
                assert_eq!(status.code(), Some(DENIED), "{kind}, {call}: {stderr}");
            }
        }
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn without_a_sandbox_the_same_call_goes_on_after_a_warning() {
        let guest = Guest::start(&["--device", "virtio-rng", "--sandbox", "off"]);
        guest.make("vmbell-listener", libc::SYS_socket, [1, 1, 0, 0, 0, 0]);
        await_that("the socket", || {
            let open = guest.descriptors();
            open.iter().any(|(_, target)| target.starts_with("socket:"))
        });
        guest.terminate();
        let (status, stderr) = guest.end();
        assert_eq!(status.code(), Some(143), "{stderr}");
        assert!(stderr.contains("warning: --sandbox off"), "{stderr}");
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn every_thread_of_a_running_guest_has_a_filter_and_no_rights() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::write(&disk, [0; 4096]).unwrap();
        let disk = format!("virtio-blk,file={}", disk.display());
        let guest = Guest::start(&[
            "--vcpus",
            "2",
            "--timeout",
            "10m",
            "--device",
            "virtio-rng,transport=mmio",
            "--device",
            "virtio-console",
            "--device",
            &disk,
            "--device",
            "pci-testdev",
        ]);
        let tasks = guest.tasks();
        let names: Vec<_> = tasks.iter().map(|task| name(task)).collect();
        for expected in [
            "console",
            "vmbell",
            "vmbell-deadline",
            "vmbell-listener",
            "vmbell-rtc",
            "vcpu-0",
            "vcpu-1",
            "virtio-console",
        ] {
            assert!(
                names.iter().any(|name| name == expected),
                "{expected}: {names:?}"
            );
        }
        for task in tasks {
            let status = fs::read_to_string(task.join("status")).unwrap();
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim_start_matches(':').trim().to_owned()
            };
            let name = field("Name");
            assert_eq!(field("Seccomp"), "2", "{name}");
            assert_eq!(field("NoNewPrivs"), "1", "{name}");
            let mut sets = vec!["CapInh", "CapPrm", "CapEff", "CapAmb"];
            if rustix::process::geteuid().is_root() {
                sets.push("CapBnd");
            }
            for set in sets {
                assert_eq!(field(set), "0000000000000000", "{set} of {name}");
            }
        }
        guest.terminate();
        let (status, stderr) = guest.end();
        assert_eq!(status.code(), Some(143), "{stderr}");
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_guest_that_has_slept_is_as_confined_as_before() {
        let guest = Guest::start_woken(&["--vcpus", "2"]);
        for task in guest.tasks() {
            let status = fs::read_to_string(task.join("status")).unwrap();
            assert!(status.contains("Seccomp:\t2\n"), "{status}");
        }
        guest.make(VCPU, libc::SYS_socket, [1, 1, 0, 0, 0, 0]);
        let (status, stderr) = guest.end();
        assert!(stderr.contains("vcpu 0: system call socket"), "{stderr}");
        assert_eq!(status.code(), Some(DENIED));
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn pc_testdev_flushes_a_page() {
        let guest = Guest::start_flushed();
        guest.terminate();
        let (status, stderr) = guest.end();
        assert_eq!(status.code(), Some(143), "{stderr}");
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn inherited_descriptors_and_the_input_of_a_guest_without_a_console_are_closed() {
        let is_pipe = |guest: &Guest| {
            let open = guest.descriptors();
            let is_pipe = |(_, target): &(u32, String)| target.starts_with("pipe:");
            (open.iter().any(is_pipe), open)
        };
        let confined = Guest::start(&[]);
        // The main thread is confined last, and the guest begins after that.
        let (has_pipe, open) = is_pipe(&confined);
        assert!(!has_pipe, "{open:?}");
        assert_eq!(open[0], (0, "/dev/null".to_owned()));
        assert!(is_pipe(&Guest::start(&["--sandbox", "off"])).0);
    }
}
