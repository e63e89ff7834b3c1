//! The console of a kernel: standard input goes to the guest's serial port, or to its virtio console if it has one.
//! Meanwhile a terminal is in raw mode, so that each key reaches the guest at once, including Ctrl-C. Ctrl-A x ends the
//! run.

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

use crate::interrupt;
use vmbell::thread::{self, ThreadKind};
use vmbell_devices::Serial;

/// Ctrl-A, the prefix of commands, and the commands.
const ESCAPE: u8 = 0x01;
const QUIT: u8 = b'x';

/// Gives the guest what the user types.
pub(super) type GuestInput = Box<dyn FnMut(&[u8]) + Send>;

/// The input of a serial port.
pub(super) fn of_port(port: &Arc<Serial>) -> GuestInput {
    let port = Arc::clone(port);
    Box::new(move |bytes| port.receive(bytes, || false))
}

/// Standard input while it is the guest's. Drop restores the terminal's settings.
pub(super) struct StdinConsole {
    before: Option<Arc<Termios>>,
    quit: Arc<AtomicBool>,
}

impl StdinConsole {
    /// Starts a thread that passes standard input to `give`, up to its end. The thread lives as long as the process,
    /// because nothing wakes it from its read.
    pub(super) fn attach(give: GuestInput) -> Result<Self> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() {
            let before = tcgetattr(&stdin).context("cannot read the terminal's settings")?;
            let raw = raw(&before);
            // Registered before raw mode is set: a signal right after that must still restore the terminal.
            interrupt::keep_terminal(raw.clone(), before.clone())
                .context("cannot catch signals")?;
            tcsetattr(&stdin, OptionalActions::Now, &raw)
                .context("cannot put the terminal into raw mode")?;
            eprintln!("the terminal is the guest's console: Ctrl-A x ends the run");
            Some(Arc::new(before))
        } else {
            None
        };
        let quit = Arc::new(AtomicBool::new(false));
        let console = Self {
            before,
            quit: Arc::clone(&quit),
        };
        let escapes = stdin.is_terminal().then(Escapes::default);
        let copy = move || copy(stdin.lock(), give, escapes, &quit);
        thread::spawn(ThreadKind::Device, "console", copy)
            .context("cannot start the console's thread")?;
        Ok(console)
    }

    /// Returns a function that restores the terminal and can be called on any thread; `None` if standard input is not a
    /// terminal.
    pub(super) fn restore(&self) -> Option<impl Fn() + Send + 'static> {
        let before = self.before.clone()?;
        Some(move || restore(&before))
    }

    /// Whether the user asked to end the run.
    pub(super) fn has_quit(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.quit)
    }
}

impl Drop for StdinConsole {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            restore(before);
        }
    }
}

fn restore(before: &Termios) {
    // A failure cannot be reported: the terminal is gone, or the process is about to end.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

/// Raw mode, except for output: lines that this command writes still begin in the first column.
fn raw(before: &Termios) -> Termios {
    let mut raw = before.clone();
    raw.make_raw();
    raw.output_modes |= OutputModes::OPOST;
    raw
}

/// Copies until the end of the input, or until the user asks to end the run. Without `escapes`, every byte goes to the
/// guest.
fn copy(
    mut input: impl Read + AsFd,
    mut give: impl FnMut(&[u8]),
    mut escapes: Option<Escapes>,
    quit: &AtomicBool,
) {
    let mut buffer = [0; 256];
    loop {
        let read = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Another process that shares the terminal may have made it non-blocking. If poll fails, so does the
                // read.
                let _ = poll(&mut [PollFd::new(&input, PollFlags::IN)], None);
                continue;
            }
            Ok(0) | Err(_) => return,
            Ok(read) => buffer.get(..read).unwrap_or_default(),
        };
        let (bytes, has_quit) = match &mut escapes {
            Some(escapes) => escapes.filter(read),
            None => (read.to_vec(), false),
        };
        give(&bytes);
        if has_quit {
            quit.store(true, Ordering::Release);
            return;
        }
    }
}

/// Finds commands in what the user types.
#[derive(Debug, Default)]
struct Escapes {
    /// Ctrl-A was the last key.
    begun: bool,
}

impl Escapes {
    /// The bytes for the guest, and whether the command to quit followed them. Ctrl-A twice sends one Ctrl-A to the
    /// guest.
    fn filter(&mut self, keys: &[u8]) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        for key in keys {
            match (std::mem::take(&mut self.begun), *key) {
                (false, ESCAPE) => self.begun = true,
                (true, QUIT) => return (bytes, true),
                (true, ESCAPE) | (false, _) => bytes.push(*key),
                (true, _) => bytes.extend([ESCAPE, *key]),
            }
        }
        (bytes, false)
    }
}

#[cfg(test)]
#[path = "console_test.rs"]
mod tests;
