//! `vmbell run` with a reader of the guest's output that is slow, stalls or closes it, and with a terminal.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

/// The tests boot a guest.
mod kvm {
    use std::fs;
    use std::io::{PipeReader, Read};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::fcntl_setpipe_size;
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use tempfile::TempDir;

    use kit::image::{elf, kernel};
    use kit::terminal;
    use kit::wait::{await_that, growing};

    /// The bytes of one turn of the guest: fewer than a busy port still accepts.
    const TURN: usize = 1024;
    /// More turns than fit into the pipe.
    const MANY: u32 = 32;

    /// Waits while the port is busy, as drivers do: `mov edx, 0x3fd`, then `in al, dx; test al, 0x20; jz` to the `in`.
    const WAITS: &[u8] = &[0xba, 0xfd, 3, 0, 0, 0xec, 0xa8, 0x20, 0x74, 0xfb];

    /// A guest that runs `first` and prints [`TURN`] bytes of its own code, `turns` times, then exits.
    fn prints(turns: u32, first: &[u8]) -> Vec<u8> {
        // mov edi, turns
        let mut code = [&[0xbf][..], &turns.to_le_bytes()].concat();
        let begin = code.len();
        code.extend(first);
        // mov edx, 0x3f8; mov esi, 0x100000; mov ecx, TURN; rep outsb; dec edi
        code.extend([0xba, 0xf8, 3, 0, 0, 0xbe, 0, 0, 0x10, 0, 0xb9]);
        code.extend(u32::try_from(TURN).unwrap().to_le_bytes());
        code.extend([0xf3, 0x6e, 0x4f]);
        // jnz to `begin`
        let back = i8::try_from(code.len() + 2 - begin).unwrap();
        code.extend([0x75, (-back).cast_unsigned()]);
        // out 0xf4, al; hlt
        code.extend([0xe6, 0xf4, 0xf4]);
        code
    }

    /// A process that runs a guest; it is killed when the value is dropped.
    struct Run {
        child: Child,
        output: Option<PipeReader>,
        folder: TempDir,
    }

    impl Run {
        /// Starts `vmbell run`; its output is not read yet.
        fn start(code: &[u8], options: &[&str], flags: OFlags) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            fs::write(path("image"), elf(code, &[])).unwrap();
            let (output, stdout) = std::io::pipe().unwrap();
            fcntl_setpipe_size(&stdout, 4096).unwrap();
            fcntl_setfl(&stdout, flags).unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_vmbell"))
                .arg("run")
                .arg(path("image"))
                .args(options)
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(fs::File::create(path("stderr")).unwrap())
                .spawn();
            Self {
                child: child.unwrap(),
                output: Some(output),
                folder,
            }
        }

        /// Like [`start`](Self::start), with a guest that prints without end, and has begun to print.
        fn start_endless() -> Self {
            let mut run = Self::start(&prints(u32::MAX, WAITS), &[], OFlags::empty());
            run.output.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            run
        }

        /// Waits for the end of the process, and returns its status and what it wrote to standard error.
        fn end(&mut self) -> (i32, String) {
            let mut status = None;
            await_that("the process to end", || {
                status = self.child.try_wait().unwrap();
                status.is_some()
            });
            let stderr = fs::read_to_string(self.folder.path().join("stderr")).unwrap();
            let status = status.unwrap();
            let code = status.code();
            // A signal gives no exit status; its number shows what went wrong.
            (code.unwrap_or_else(|| panic!("{status}: {stderr}")), stderr)
        }
    }

    impl Drop for Run {
        fn drop(&mut self) {
            // The program may have ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_time_limit_ends_a_run_that_nobody_reads_and_says_how_much_is_lost() {
        for first in [WAITS, &[]] {
            let code = prints(u32::MAX, first);
            let is_told = |time: Duration| {
                let limit = format!("{}s", time.as_secs());
                let mut run = Run::start(&code, &["--timeout", &limit], OFlags::empty());
                let (status, stderr) = run.end();
                assert_eq!(status, 124, "{stderr}");
                assert!(stderr.contains("did not end within"), "{stderr}");
                stderr.contains("bytes of the guest's output not written")
            };
            // By the end of one of these times, even a slow guest has printed more than fits into the pipe.
            assert!(growing(Duration::from_secs(1)).any(is_told));
        }
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_signal_ends_a_run_that_nobody_reads() {
        let mut run = Run::start_endless();
        let process = Pid::from_raw(run.child.id().cast_signed()).unwrap();
        kill_process(process, Signal::TERM).unwrap();
        let (status, stderr) = run.end();
        assert_eq!(status, 143, "{stderr}");
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_slow_reader_gets_every_byte_of_a_guest_that_ends() {
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            let mut run = Run::start(&prints(MANY, WAITS), &[], flags);
            let mut output = run.output.take().unwrap();
            let mut piece = [0; 4000];
            let mut all = 0;
            while let length @ 1.. = output.read(&mut piece).unwrap() {
                all += length;
                std::thread::yield_now();
            }
            let (status, stderr) = run.end();
            assert_eq!((status & 1, all), (1, MANY as usize * TURN), "{stderr}");
            assert_eq!(stderr, "");
        }
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_reader_that_goes_ends_the_run_as_sigpipe_does() {
        let mut run = Run::start_endless();
        drop(run.output.take());
        let (status, stderr) = run.end();
        assert_eq!((status, stderr.as_str()), (141, ""));
    }

    #[test]
    #[ignore = "needs /dev/kvm: cargo xtask lab"]
    fn a_terminal_is_raw_again_after_a_stop_and_as_before_after_a_fault() {
        for (signal, status) in [
            (Signal::SEGV, 139),
            (Signal::ABORT, 134),
            (Signal::BUS, 135),
        ] {
            let (_keyboard, terminal) = terminal::open();
            let is_raw = || {
                let modes = tcgetattr(&terminal).unwrap().local_modes;
                !modes.contains(LocalModes::ICANON)
            };
            let before = tcgetattr(&terminal).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("kernel");
            // A kernel that halts: hlt; jmp to the hlt.
            fs::write(&path, kernel(&[0xf4, 0xeb, 0xfd], &[])).unwrap();
            let child = Command::new(env!("CARGO_BIN_EXE_vmbell"))
                .arg("run")
                .arg(&path)
                .stdin(terminal.try_clone().unwrap())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut child = child.unwrap();
            let process = Pid::from_raw(child.id().cast_signed()).unwrap();
            await_that("raw mode", is_raw);
            // Change the terminal's mode while the program is stopped, as a shell does.
            kill_process(process, Signal::STOP).unwrap();
            tcsetattr(&terminal, OptionalActions::Now, &before).unwrap();
            kill_process(process, Signal::CONT).unwrap();
            await_that("raw mode again", is_raw);
            kill_process(process, signal).unwrap();
            let mut ended = None;
            await_that("the end", || {
                ended = child.try_wait().unwrap();
                ended.is_some()
            });
            assert_eq!(ended.unwrap().code(), Some(status));
            assert!(!is_raw(), "{signal:?}");
        }
    }
}
