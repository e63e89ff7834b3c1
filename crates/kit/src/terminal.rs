//! A pseudo terminal for a program under test, and what a terminal shows after the program printed something.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The escape sequence that enters a terminal's alternate screen.
pub const ENTER: &str = "\x1b[?1049h";
/// The escape sequence that leaves the alternate screen.
pub const LEAVE: &str = "\x1b[?1049l";

/// Opens both ends of a new 80x24 terminal: the user's end, and the program's end.
pub fn open() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let terminal = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
    resize(&terminal, 80, 24);
    (keyboard.into(), terminal)
}

/// Changes the size of a terminal.
pub fn resize(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// Returns the lines of an 80x24 screen after a ratatui program printed this. Only the escape sequences that place the
/// cursor or clear are obeyed.
pub fn lines(printed: &str) -> Vec<String> {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut row, mut column) = (0, 0);
    let mut rest = printed.chars();
    while let Some(char) = rest.next() {
        if char != '\x1b' {
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = char;
            }
            column += 1;
            continue;
        }
        let mut sequence = String::new();
        for char in rest.by_ref().skip(1) {
            sequence.push(char);
            if char.is_ascii_alphabetic() {
                break;
            }
        }
        let place = sequence.strip_suffix('H').and_then(|place| {
            let (y, x) = place.split_once(';')?;
            Some((y.parse::<usize>().ok()? - 1, x.parse::<usize>().ok()? - 1))
        });
        (row, column) = place.unwrap_or((row, column));
        if sequence == "2J" {
            cells = vec![vec![' '; 80]; 24];
        }
    }
    let lines = cells.iter().map(|cells| cells.iter().collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}
