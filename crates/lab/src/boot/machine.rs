//! Runs one boot: starts QEMU and the channels' threads, waits for the end, and collects the results. [`RunningVmm`] is
//! the part that does not depend on QEMU.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, pidfd_send_signal};

use super::arguments::{QemuFiles, Start};
use super::channel::{BootEvent, Channel, ProgramStream, feed, listen, pump};
use super::monitor::Monitor;
use super::supervise::{Course, ENDING, LEAVING, LOOKING, Patience, answering};
use super::{ConsoleTail, LabBootResult, Settings, TimeLimits, TimeMode, arguments, process};
use crate::board::LabBoard;
use crate::error::{LabError, cannot};
use crate::job::{InitMessage, port};
use crate::qemu::Qemu;

/// All that one boot needs.
#[derive(Clone, Copy, Debug)]
pub struct LabBootPlan<'a> {
    /// The machine.
    pub board: &'a LabBoard,
    /// The emulator.
    pub qemu: &'a Qemu,
    /// The `vmbell` program, which starts QEMU.
    pub vmbell: &'a Path,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The device tree, if QEMU's own is not used.
    pub tree: Option<&'a Path>,
    /// The initramfs, if the machine boots. QEMU inherits descriptors, because these files need not have names.
    pub initramfs: Option<&'a File>,
    /// The files for L1 of this run; empty if the machine is to be saved.
    pub window: &'a File,
    /// The caller's choices.
    pub settings: &'a Settings,
}

/// Where L1's streams go.
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
    /// The source of the program's standard input.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Whether L1 is told that the reader of a stream has gone, which happens at a non-deterministic time.
    pub tells_unread: bool,
    /// Is called with each message.
    pub messages: fn(&InitMessage),
}

/// The files of a saved machine.
#[derive(Clone, Copy, Debug)]
pub struct SavedFiles<'a> {
    /// L1's memory.
    pub memory: &'a File,
    /// The state of the CPUs and devices.
    pub state: &'a File,
}

impl LabBootPlan<'_> {
    /// Boots L1 or restores it, waits until QEMU has ended or has to be killed, and cleans up.
    pub fn run(
        &self,
        saved: Option<SavedFiles<'_>>,
        sinks: Sinks,
    ) -> Result<LabBootResult, LabError> {
        let mut channels = self.channels()?;
        let begun = Instant::now();
        let (child, restores) = match saved {
            None => (self.start(Start::Boot, &mut channels)?, None),
            Some(saved) => {
                let (child, restores) = self.restore(saved, &mut channels)?;
                (child, Some(restores))
            }
        };
        let patience = Patience {
            ending: ENDING * self.settings.depth,
            leaving: LEAVING * self.settings.depth,
            to_the_end: true,
            answering: answering(self.settings.mode),
            looking: LOOKING,
        };
        let machine = RunningVmm::new(child, channels, begun, self.settings.show_console);
        let mut booted = machine.follow(sinks, self.settings.limits, patience)?;
        if let Some(Ok(Err(error))) = restores.map(JoinHandle::join) {
            booted.refused = Some(format!("{error}: {}", booted.vmm_errors));
        }
        Ok(booted)
    }

    /// Restores a saved L1. The returned thread ends when QEMU has restored L1 or has ended.
    fn restore(
        &self,
        saved: SavedFiles<'_>,
        channels: &mut [Channel],
    ) -> Result<(Child, JoinHandle<Result<(), LabError>>), LabError> {
        let mut monitor = Monitor::new()?;
        let start = Start::Restore {
            memory: inherited(saved.memory)?,
            monitor: monitor.fd(),
        };
        let state = rewound(saved.state)?;
        let child = self.start(start, channels)?;
        monitor.handed_over();
        let qemu = process::handle(&child);
        let qemu = qemu.map_err(cannot("open", "a handle of QEMU"))?;
        let restores = thread::spawn(move || {
            let restored = monitor.restore(state);
            if restored.is_err() {
                // QEMU would wait for another command. This fails if QEMU has ended.
                let _ = pidfd_send_signal(&qemu, Signal::KILL);
            }
            restored
        });
        Ok((child, restores))
    }

    /// Boots L1 until it stops itself, and saves it. The memory file has the memory's size, and is empty.
    pub fn save(&self, to: SavedFiles<'_>) -> Result<(), LabError> {
        // A guest notices whether its ports are open on the host.
        let mut channels = self.channels()?;
        let mut monitor = Monitor::new()?;
        let start = Start::Save {
            memory: inherited(to.memory)?,
            monitor: monitor.fd(),
        };
        let mut child = self.start(start, &mut channels)?;
        monitor.handed_over();
        let qemu = process::handle(&child);
        let qemu = qemu.map_err(cannot("open", "a handle of QEMU"))?;
        // After a panic L1 would not stop itself. This fails if QEMU has ended.
        let panicked = move || {
            let _ = pidfd_send_signal(&qemu, Signal::KILL);
        };
        let output = VmmOutput::of(&mut child, false, panicked);
        let saved = monitor
            .wait_for_stop(self.settings.limits.boot)
            .and_then(|()| monitor.save(to.state));
        if saved.is_err() {
            // This fails if QEMU has ended.
            let _ = child.kill();
        }
        let (console, errors) = output.whole();
        child.wait().map_err(cannot("wait for", "the VMM"))?;
        saved.map_err(|error| {
            let said = match errors.as_str() {
                "" => console.tail(),
                said => said.to_owned(),
            };
            error.reworded(|why| format!("{why}: {said}"))
        })
    }

    /// Opens L1's ports. In deterministic mode, the guest does not notice when its output is read.
    fn channels(&self) -> Result<Vec<Channel>, LabError> {
        let open = |name| match (self.settings.mode, name) {
            (TimeMode::Deterministic { .. }, port::STDOUT | port::STDERR) => {
                Channel::unnoticed(name)
            }
            _ => Channel::new(name),
        };
        let channels = port::ALL.into_iter().map(open).collect::<io::Result<_>>();
        channels.map_err(cannot("make", "a channel"))
    }

    /// Returns the QEMU arguments whose effect the guest can notice, without its files.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let inherited = QemuFiles {
            start: Start::Boot,
            initramfs: Some(0),
            window: 0,
            ports: &[],
        };
        // The guest does not notice where its files are.
        let (kernel, tree) = (Path::new("kernel"), self.tree.map(|_| Path::new("tree")));
        arguments::arguments(self.board, self.settings, kernel, tree, &inherited)
    }

    fn start(&self, start: Start, channels: &mut [Channel]) -> Result<Child, LabError> {
        let inherited = QemuFiles {
            start,
            initramfs: self.initramfs.map(inherited).transpose()?,
            window: inherited(self.window)?,
            ports: channels,
        };
        let words = arguments::arguments(
            self.board,
            self.settings,
            self.kernel,
            self.tree,
            &inherited,
        );
        let child = process::start(self.vmbell, self.qemu, &words)?;
        channels.iter_mut().for_each(Channel::handed_over);
        Ok(child)
    }
}

/// Makes QEMU inherit a file, read from its start even if an earlier machine has read it.
fn rewound(mut file: &File) -> Result<RawFd, LabError> {
    file.rewind().map_err(cannot("read", "a saved state"))?;
    inherited(file)
}

/// Makes an emulator inherit a file; returns the descriptor.
pub(super) fn inherited(file: impl AsFd) -> Result<RawFd, LabError> {
    fcntl_setfd(&file, FdFlags::empty())
        .map_err(io::Error::from)
        .map_err(cannot("pass", "a file to the emulator"))?;
    Ok(file.as_fd().as_raw_fd())
}

/// The output of a VMM: its kernel's console, and its own errors. Threads read both to the end.
#[derive(Debug)]
struct VmmOutput {
    console: Arc<Mutex<ConsoleTail>>,
    errors: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl VmmOutput {
    /// Starts the threads. If the kernel panics, `panicked` is called.
    fn of(child: &mut Child, show: bool, panicked: impl Fn() + Send + 'static) -> Self {
        let mut output = Self {
            console: Arc::default(),
            errors: Arc::default(),
            readers: Vec::new(),
        };
        if let Some(pipe) = child.stdout.take() {
            let console = Arc::clone(&output.console);
            output.readers.push(drain(pipe, move |bytes| {
                if lock(&console).push(bytes) {
                    panicked();
                }
                if show {
                    let _ = io::stderr().write_all(bytes);
                }
            }));
        }
        if let Some(pipe) = child.stderr.take() {
            let errors = Arc::clone(&output.errors);
            output.readers.push(drain(pipe, move |bytes| {
                lock(&errors).extend_from_slice(bytes);
            }));
        }
        output
    }

    /// Returns the complete output after the VMM has ended: the console, and the errors.
    fn whole(self) -> (ConsoleTail, String) {
        for reader in self.readers {
            let _ = reader.join();
        }
        let errors = String::from_utf8_lossy(&lock(&self.errors))
            .trim()
            .to_owned();
        (lock(&self.console).clone(), errors)
    }
}

/// Opens the channels of one Linux.
pub(crate) fn channels() -> Result<Vec<Channel>, LabError> {
    let open = |name| Channel::new(name).map_err(cannot("make", "a socket pair"));
    port::ALL.into_iter().map(open).collect()
}

/// A started VMM, QEMU or `vmbell run`, and the channels of the Linux in it.
#[derive(Debug)]
pub(crate) struct RunningVmm {
    child: Child,
    output: VmmOutput,
    /// The channels, in the order of [`port::ALL`]. Their other ends belong to the Linux.
    channels: Vec<Channel>,
    begun: Instant,
    sender: Sender<BootEvent>,
    events: Receiver<BootEvent>,
}

impl RunningVmm {
    /// Wraps a VMM that was just started, and begins to read its console.
    pub fn new(
        mut child: Child,
        channels: Vec<Channel>,
        begun: Instant,
        show_console: bool,
    ) -> Self {
        let (sender, events) = channel();
        let to_panic = sender.clone();
        let panicked = move || drop(to_panic.send(BootEvent::Panicked));
        Self {
            output: VmmOutput::of(&mut child, show_console, panicked),
            child,
            channels,
            begun,
            sender,
            events,
        }
    }

    /// The VMM's process.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// Returns a sender of events, for example to stop the program.
    pub fn sender(&self) -> Sender<BootEvent> {
        self.sender.clone()
    }

    /// Waits until the VMM has ended or has to be killed, and cleans up.
    pub fn follow(
        mut self,
        sinks: Sinks,
        limits: TimeLimits,
        patience: Patience,
    ) -> Result<LabBootResult, LabError> {
        let (sender, events) = (self.sender, self.events);
        let mut readers = Vec::new();
        let Ok([control, stdin, stdout, stderr, files]) =
            <[Channel; port::ALL.len()]>::try_from(self.channels)
        else {
            unreachable!("one channel for each name");
        };
        let copy = |channel: &Channel| channel.socket().map_err(cannot("copy", "a socket"));
        let ended = Arc::new(AtomicBool::new(false));
        let mut asking = copy(&control)?;
        readers.push(listen(copy(&control)?, sender.clone(), sinks.messages));
        for (channel, sink, stream) in [
            (stdout, sinks.stdout, ProgramStream::Stdout),
            (stderr, sinks.stderr, ProgramStream::Stderr),
            (files, sinks.files, ProgramStream::Files),
        ] {
            let from = channel.into_reader(Arc::clone(&ended));
            let sender = sender.clone();
            readers.push(pump(from, sink, stream, sender, sinks.tells_unread));
        }
        if let Some(input) = sinks.stdin {
            feed(input, copy(&stdin)?);
        }
        let pid = self.child.id();
        readers.push(thread::spawn(move || {
            let cpu = process::wait_for_end(pid);
            ended.store(true, Ordering::Release);
            let _ = sender.send(BootEvent::Ended(cpu));
        }));

        let mut course = Course::follow(&events, &mut asking, limits, patience, || {
            process::waited(pid)
        });
        if course.complete() && !patience.to_the_end {
            return Ok(LabBootResult {
                console: lock(&self.output.console).clone(),
                ..LabBootResult::after(course, self.begun)
            });
        }
        let killed = course.cpu.is_none();
        let cpu = course.cpu.or_else(|| process::cpu_time(pid));
        if killed {
            // This fails if the VMM has just ended.
            let _ = self.child.kill();
        }
        // This end is closed last, because on a close QEMU drops input that it has not read yet.
        drop((control, stdin));
        // The threads end when their channels end. The child is reaped only after that.
        for reader in readers {
            let _ = reader.join();
        }
        let (console, vmm_errors) = self.output.whole();
        let status = self.child.wait();
        let status = status.map_err(cannot("wait for", "the VMM"))?;
        course.drain(&events, self.begun.elapsed());
        Ok(LabBootResult {
            status: (!killed).then_some(status),
            console,
            vmm_errors,
            cpu: cpu.unwrap_or_default(),
            ..LabBootResult::after(course, self.begun)
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

/// Locks a mutex even if a thread panicked while holding the lock: the text is still valid.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
