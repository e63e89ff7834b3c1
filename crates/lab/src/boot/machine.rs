//! Runs one boot: starts QEMU and the channels' threads, waits for the end, and collects the results. A [`Machine`] is the part
//! that does not depend on QEMU.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use super::channel::{Channel, Stream, feed, listen, pump};
use super::supervise::{ANSWERING, Course, Event, LEAVING, LONGEST, Patience};
use super::{BootError, Console, Limits, Mode, Settings, arguments, process};
use crate::board::Board;
use crate::job::{Message, Report, port};
use crate::qemu::Qemu;

/// All that one boot needs.
#[derive(Debug)]
pub struct Boot<'a> {
    /// The machine.
    pub board: &'a Board,
    /// The emulator.
    pub qemu: &'a Qemu,
    /// The `vmbell` program, which starts QEMU.
    pub vmbell: &'a Path,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The device tree, if it is not QEMU's own.
    pub tree: Option<&'a Path>,
    /// The initramfs, L1's file tree. QEMU inherits the descriptor, because the file need not have a name.
    pub initramfs: &'a File,
    /// The caller's choices.
    pub settings: &'a Settings,
}

/// The sinks of L1's streams.
#[expect(
    missing_debug_implementations,
    reason = "writers need not be printable"
)]
pub struct Sinks {
    /// Sink of the program's standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Sink of the program's standard error.
    pub stderr: Box<dyn Write + Send>,
    /// Sink of the tar archive of `/out`.
    pub files: Box<dyn Write + Send>,
    /// What the program reads as its standard input.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Sees each message.
    pub messages: fn(&Message),
}

/// The result of one boot.
#[derive(Debug)]
pub struct Booted {
    /// When the program started, from the start of the VMM; `None` if it did not.
    pub started: Option<Duration>,
    /// Bytes that came: standard output, standard error, files.
    pub received: [u64; 3],
    /// Whether it was asked if it runs, and did not answer.
    pub silent: bool,
    /// The report, if it came and all bytes that it counts were read.
    pub report: Option<Report>,
    /// How the VMM ended; `None` when it had to be killed.
    pub status: Option<ExitStatus>,
    /// The kernel's console.
    pub console: Console,
    /// What the VMM printed to its standard error.
    pub vmm_errors: String,
    /// CPU time of the VMM.
    pub cpu: Duration,
    /// Time from the start of the VMM to its end.
    pub wall: Duration,
}

impl Boot<'_> {
    /// Boots L1, waits until QEMU has ended or has to be killed, and cleans up.
    pub fn run(&self, sinks: Sinks) -> Result<Booted, BootError> {
        let mut channels = channels()?;
        let ports: Vec<_> = channels
            .iter()
            .map(|channel| (channel.name, channel.fd()))
            .collect();
        let words = arguments::arguments(
            self.board,
            self.settings,
            self.kernel,
            self.tree,
            self.initramfs.as_raw_fd(),
            &ports,
        );
        fcntl_setfd(self.initramfs, FdFlags::empty())
            .map_err(|error| BootError::channel("pass a file to QEMU")(error.into()))?;
        let begun = Instant::now();
        let child = process::start(self.vmbell, self.qemu, &words)?;
        channels.iter_mut().for_each(Channel::handed_over);
        let machine = Machine {
            child,
            channels,
            begun,
            limits: self.settings.limits,
            patience: Patience {
                leaving: LEAVING * self.settings.depth,
                answering: match self.settings.mode {
                    Mode::Functional { .. } => ANSWERING,
                    // A question would be an interrupt at a moment that L1 does not determine.
                    Mode::Deterministic { .. } => LONGEST,
                },
            },
            show_console: self.settings.show_console,
        };
        machine.follow(sinks, channel())
    }
}

/// The channels of one Linux.
pub(crate) fn channels() -> Result<Vec<Channel>, BootError> {
    let open = |name| Channel::new(name).map_err(BootError::channel("make a socket pair"));
    port::ALL.into_iter().map(open).collect()
}

/// A VMM that was started, QEMU or `vmbell run`, and the channels of the Linux in it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub child: Child,
    /// The channels, in the order of [`port::ALL`]; the Linux has their other ends.
    pub channels: Vec<Channel>,
    pub begun: Instant,
    pub limits: Limits,
    pub patience: Patience,
    pub show_console: bool,
}

impl Machine {
    /// Waits until the VMM has ended or has to be killed, and cleans up. Who has the sender can stop the program.
    pub fn follow(
        mut self,
        sinks: Sinks,
        (sender, events): (Sender<Event>, Receiver<Event>),
    ) -> Result<Booted, BootError> {
        let console = Arc::new(Mutex::new(Console::default()));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let mut readers: Vec<JoinHandle<()>> = Vec::new();
        if let Some(pipe) = self.child.stdout.take() {
            let (console, show) = (Arc::clone(&console), self.show_console);
            let sender = sender.clone();
            readers.push(drain(pipe, move |bytes| {
                if lock(&console).push(bytes) {
                    let _ = sender.send(Event::Panicked);
                }
                if show {
                    let _ = io::stderr().write_all(bytes);
                }
            }));
        }
        if let Some(pipe) = self.child.stderr.take() {
            let errors = Arc::clone(&errors);
            readers.push(drain(pipe, move |bytes| {
                lock(&errors).extend_from_slice(bytes);
            }));
        }
        let mut ends = self.channels.into_iter().map(|channel| channel.ours);
        let (Some(mut control), Some(stdin), Some(stdout), Some(stderr), Some(files)) = (
            ends.next(),
            ends.next(),
            ends.next(),
            ends.next(),
            ends.next(),
        ) else {
            unreachable!("one channel for each name");
        };
        let copy = |socket: &UnixStream| {
            socket
                .try_clone()
                .map_err(BootError::channel("copy a socket"))
        };
        readers.push(listen(copy(&control)?, sender.clone(), sinks.messages));
        readers.push(pump(stdout, sinks.stdout, Stream::Stdout, sender.clone()));
        readers.push(pump(stderr, sinks.stderr, Stream::Stderr, sender.clone()));
        readers.push(pump(files, sinks.files, Stream::Files, sender.clone()));
        if let Some(input) = sinks.stdin {
            feed(input, copy(&stdin)?);
        }
        let pid = self.child.id();
        readers.push(thread::spawn(move || {
            let _ = sender.send(Event::Ended(process::wait_for_end(pid)));
        }));

        let mut course = Course::follow(&events, &mut control, self.limits, self.patience, || {
            process::waited(pid)
        });
        let killed = course.cpu.is_none();
        let cpu = course.cpu.or_else(|| process::cpu_time(pid));
        if killed {
            // This fails if the VMM has ended just now.
            let _ = self.child.kill();
        }
        // Closing it earlier would make QEMU drop the input that it has not read yet.
        drop(stdin);
        // The threads end when they see the end of their channels; the child is reaped only after that.
        for reader in readers {
            let _ = reader.join();
        }
        let status = self.child.wait();
        let status = status.map_err(BootError::channel("wait for the VMM"))?;
        course.drain(&events);
        let console = lock(&console).clone();
        let vmm_errors = String::from_utf8_lossy(&lock(&errors)).trim().to_owned();
        Ok(Booted {
            started: course.started,
            silent: course.silent,
            received: course.received,
            report: course.complete().then_some(course.report).flatten(),
            status: (!killed).then_some(status),
            console,
            vmm_errors,
            cpu: cpu.unwrap_or_default(),
            wall: self.begun.elapsed(),
        })
    }
}

fn drain(
    mut pipe: impl Read + Send + 'static,
    mut take: impl FnMut(&[u8]) + Send + 'static,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = vec![0; 16 << 10];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            take(&piece[..length]);
        }
    })
}

/// Locks a mutex even if a thread panicked while it held the lock: the text is still valid.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
