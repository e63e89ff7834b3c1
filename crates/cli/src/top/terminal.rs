//! The terminal of the live screen: the alternate screen, and keys without waiting for a line.
//!
//! Drop restores it, and so does a panic before its message is printed.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::panic;
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratatui_core::layout::Rect;
use ratatui_core::terminal::{Terminal, TerminalOptions, Viewport};
use ratatui_termion::TermionBackend;
use ratatui_termion::termion::event::{Event, Key, parse_event};
use ratatui_termion::termion::terminal_size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::interrupt;
use crate::output::style;

use vmbell::sync::Mutex;

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// How long to wait for the rest of a key's sequence.
const REST_OF_KEY: Duration = Duration::from_millis(25);

/// The size if the terminal does not report one.
const SIZE: Rect = Rect::new(0, 0, 80, 24);

/// The terminal's original attributes, while they are changed.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal while the screen is shown.
#[derive(Debug)]
pub(super) struct Tty {
    pub(super) screen: Terminal<TermionBackend<BufWriter<io::Stdout>>>,
    size: (u16, u16),
}

/// The maximum width of lines on stdout; `None` if it is not a terminal.
pub(super) fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| style::width(false))?
}

impl Tty {
    /// Switches to the alternate screen.
    pub(super) fn enter() -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let backend = TermionBackend::new(BufWriter::new(io::stdout()));
        let size = terminal_size().context("cannot read the terminal's size")?;
        let viewport = match size.0.min(size.1) {
            0 => Viewport::Fixed(SIZE),
            _ => Viewport::Fullscreen,
        };
        let screen = Terminal::with_options(backend, TerminalOptions { viewport })
            .context("cannot use the terminal")?;
        // This value restores the terminal when it is dropped, even if the rest fails.
        let tty = Self { screen, size };
        switch().context("cannot use the terminal")?;
        Ok(tty)
    }

    /// Stops this process, and redraws the screen when it is continued.
    pub(super) fn suspend(&mut self) -> Result<()> {
        restore();
        interrupt::stop();
        switch().context("cannot use the terminal")?;
        self.repaint()
    }

    /// Clears the screen, so that the next table is drawn completely.
    pub(super) fn repaint(&mut self) -> Result<()> {
        // `Terminal::clear` would ask the terminal for the cursor's position, and read the answer among the keys.
        let area = self.screen.get_frame().area();
        let resized = self.screen.resize(area);
        resized.context("cannot clear the terminal")
    }

    /// Whether the terminal's size has changed since the last call.
    pub(super) fn is_resized(&mut self) -> bool {
        let size = terminal_size().unwrap_or(self.size);
        std::mem::replace(&mut self.size, size) != size
    }

    /// The keys pressed within a time; empty if it has passed or a signal came.
    pub(super) fn keys(&self, time: Duration) -> Result<Vec<Key>> {
        let mut bytes = Vec::new();
        let mut time = time;
        while is_readable(time)? {
            let mut buffer = [0; 64];
            match rustix::io::read(stdin(), &mut buffer) {
                Ok(0) => bail!("the terminal is gone"),
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
                Err(rustix::io::Errno::INTR) => break,
                Err(error) => return Err(error).context("cannot read the terminal"),
            }
            if !is_begun(&bytes) {
                break;
            }
            time = REST_OF_KEY;
        }
        Ok(keys(&bytes))
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

fn switch() -> io::Result<()> {
    let before = tcgetattr(stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    *BEFORE.lock() = Some(before);
    tcsetattr(stdin(), OptionalActions::Now, &raw)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(ENTER)?;
    stdout.flush()
}

/// Restores the terminal, unless that was done.
fn restore() {
    let before = BEFORE.lock().take();
    if let Some(before) = before {
        // If the terminal is gone, nothing has to be restored.
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(LEAVE).and_then(|()| stdout.flush());
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn is_readable(time: Duration) -> Result<bool> {
    let time = Timespec::try_from(time).context("the delay is too long")?;
    let stdin = stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&time)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) if fds[0].revents().contains(PollFlags::IN) => Ok(true),
        Ok(_) => bail!("the terminal is gone"),
        Err(error) => Err(error).context("cannot wait for the terminal"),
    }
}

/// Whether the bytes end within a key's sequence.
fn is_begun(bytes: &[u8]) -> bool {
    let Some(start) = bytes.iter().rposition(|byte| *byte == 0x1b) else {
        return std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
    };
    match &bytes[start + 1..] {
        [] | [b'O'] => true,
        [b'[', rest @ ..] => rest
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b';'),
        _ => false,
    }
}

/// The keys in these bytes. Unknown sequences are ignored.
fn keys(bytes: &[u8]) -> Vec<Key> {
    if bytes == [0x1b] {
        return vec![Key::Esc];
    }
    let mut rest = bytes.iter().map(|byte| Ok(*byte));
    let mut keys = Vec::new();
    while let Some(Ok(byte)) = rest.next() {
        if let Ok(Event::Key(key)) = parse_event(byte, &mut rest) {
            keys.push(key);
        }
    }
    keys
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
