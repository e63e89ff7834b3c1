//! The state of the live screen, and the effect of keys.
//!
//! The cursor is on a line: a VM's, or one below it if the VM is open. If the order changes, the cursor follows its VM.

use std::collections::HashSet;
use std::time::Duration;

use ratatui_termion::termion::event::Key;

use super::columns::{self, VmColumn};
use super::interval::TopInterval;
use super::parts::parts;
use crate::args::values;
use vmbell_report::{Block, terminal, visible, width};
use vmbell_top::model::Vm;

/// Delays that `+` and `-` reach.
const DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// How far Left and Right move the lines of open VMs, and the limit.
const SHIFT: usize = 8;
const FURTHEST: usize = 320;

/// Identifies a VM: the process, the VM's descriptor in it, and its index among VMs whose descriptor is unknown.
pub(super) type VmKey = (u32, Option<u32>, usize);

/// What the screen shows, apart from counts.
#[derive(Debug)]
pub(super) struct TopScreen {
    pub(super) delay: Duration,
    pub(super) mode: Mode,
    pub(super) sort: VmColumn,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    open: HashSet<VmKey>,
    cursor: Cursor,
    /// The first line that is shown.
    top: usize,
    /// How many characters of the open VMs' lines are scrolled off to the left.
    pub(super) left: usize,
    /// How many lines are shown.
    height: usize,
    /// The number of help's pages.
    pages: usize,
}

/// What keys do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// Keys turn the pages of the help.
    Help {
        page: usize,
    },
    /// Keys enter a name.
    Filter,
    /// Keys enter a time.
    Delay {
        text: String,
        error: Option<String>,
    },
}

/// The cursor's position.
#[derive(Debug, Default)]
struct Cursor {
    /// The VM; `None` while the cursor is on the first line because it was never moved.
    vm: Option<VmKey>,
    /// The line within the VM.
    line: usize,
    /// The line's index in the whole list. It places the cursor if the VM ends.
    index: usize,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct ScreenRow<'a> {
    vm: VmKey,
    line: usize,
    pub(super) content: Content<'a>,
}

/// The content of a line.
#[derive(Clone, Debug)]
pub(super) enum Content<'a> {
    Vm(&'a Vm),
    Titles(String),
    Text(String),
}

/// What a key asks the main loop to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Suspend,
    Repaint,
}

impl TopScreen {
    /// A screen of all VMs, by CPU use, highest first.
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            mode: Mode::Browse,
            sort: VmColumn::FIRST,
            is_reversed: false,
            filter: String::new(),
            open: HashSet::new(),
            cursor: Cursor::default(),
            top: 0,
            left: 0,
            height: 1,
            pages: 1,
        }
    }

    /// All lines of the VMs that match the filter.
    pub(super) fn rows<'a>(&self, interval: &'a TopInterval) -> Vec<ScreenRow<'a>> {
        let mut vms = keys(&interval.vms);
        vms.retain(|(_, vm)| self.passes(vm));
        vms.sort_by(|(_, one), (_, other)| match self.is_reversed {
            true => self.sort.compare(other, one),
            false => self.sort.compare(one, other),
        });
        let mut rows = Vec::new();
        for (key, vm) in vms {
            let mut contents = vec![Content::Vm(vm)];
            if self.open.contains(&key) {
                contents.extend(details(vm, interval));
            }
            let lines = contents.into_iter().enumerate();
            rows.extend(lines.map(|(line, content)| ScreenRow {
                vm: key,
                line,
                content,
            }));
        }
        rows
    }

    fn passes(&self, vm: &Vm) -> bool {
        let filter = self.filter.to_lowercase();
        let name = columns::name(vm).to_lowercase();
        name.contains(&filter) || vm.pid.to_string().contains(&filter)
    }

    /// The cursor's index in these lines.
    pub(super) fn position(&self, rows: &[ScreenRow<'_>]) -> usize {
        let of_vm =
            |row: &ScreenRow<'_>| Some(row.vm) == self.cursor.vm && row.line <= self.cursor.line;
        let found = rows.iter().rposition(of_vm);
        let last = rows.len().saturating_sub(1);
        found.unwrap_or(self.cursor.index.min(last))
    }

    /// Scrolls so that the cursor is in one of `height` lines. `pages` is the number of help's pages.
    pub(super) fn fit(&mut self, interval: &TopInterval, height: usize, pages: usize) {
        self.pages = pages;
        let rows = self.rows(interval);
        let at = self.position(&rows);
        self.cursor.index = at;
        self.height = height.max(1);
        let lowest = (at + 1).saturating_sub(self.height);
        self.top = self.top.clamp(lowest, at);
        // Do not scroll past the last line.
        self.top = self.top.min(rows.len().saturating_sub(self.height));
    }

    /// The first line that is shown.
    pub(super) const fn top(&self) -> usize {
        self.top
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key, interval: &TopInterval) -> Action {
        match key {
            Key::Ctrl('c') => return Action::Quit,
            Key::Ctrl('l') => return Action::Repaint,
            Key::Ctrl('z') => return Action::Suspend,
            _ => {}
        }
        match &mut self.mode {
            Mode::Browse => return self.browse(key, interval),
            Mode::Help { page } if key != Key::Esc && *page + 1 < self.pages => *page += 1,
            Mode::Help { .. } => self.mode = Mode::Browse,
            Mode::Filter => match key {
                Key::Char('\n') => self.mode = Mode::Browse,
                Key::Esc => self.stop_filtering(),
                Key::Backspace => drop(self.filter.pop()),
                Key::Char(char) if !char.is_control() => self.filter.push(char),
                _ => {}
            },
            Mode::Delay { text, error } => match key {
                Key::Char('\n') => match values::positive_duration(text) {
                    Ok(delay) => {
                        self.delay = delay;
                        self.mode = Mode::Browse;
                    }
                    Err(reason) => *error = Some(reason),
                },
                Key::Esc => self.mode = Mode::Browse,
                Key::Backspace => drop(text.pop()),
                Key::Char(char) if !char.is_control() => text.push(char),
                _ => {}
            },
        }
        Action::Nothing
    }

    fn browse(&mut self, key: Key, interval: &TopInterval) -> Action {
        let page = self.height.saturating_sub(1).max(1);
        let at = self.cursor.index;
        match key {
            Key::Char('q') | Key::F(10) => return Action::Quit,
            Key::Up | Key::Char('k') => self.move_to(at.saturating_sub(1), interval),
            Key::Down | Key::Char('j') => self.move_to(at + 1, interval),
            Key::PageUp => self.move_to(at.saturating_sub(page), interval),
            Key::PageDown => self.move_to(at + page, interval),
            Key::Home => self.move_to(0, interval),
            Key::End => self.move_to(usize::MAX, interval),
            Key::Left => self.left = self.left.saturating_sub(SHIFT),
            Key::Right => self.left = (self.left + SHIFT).min(FURTHEST),
            Key::Char('\n' | ' ') => self.open_or_close(interval),
            Key::Char('>' | '.') | Key::F(6) => self.sort_by_neighbour(1),
            Key::Char('<' | ',') => self.sort_by_neighbour(VmColumn::ALL.len() - 1),
            Key::Char('P') => self.sort = VmColumn::Core,
            Key::Char('E') => self.sort = VmColumn::Exits,
            Key::Char('V') => self.sort = VmColumn::ToVmm,
            Key::Char('N') => self.sort = VmColumn::Pid,
            Key::Char('I') => self.is_reversed = !self.is_reversed,
            Key::Char('/') | Key::F(4) => self.mode = Mode::Filter,
            Key::Esc => self.stop_filtering(),
            Key::Char('d') => {
                let (text, error) = (String::new(), None);
                self.mode = Mode::Delay { text, error };
            }
            Key::Char('+') => self.delay = (self.delay * 2).min(DELAYS[1]).max(self.delay),
            Key::Char('-') => self.delay = (self.delay / 2).max(DELAYS[0]).min(self.delay),
            Key::Char('?' | 'h') | Key::F(1) => self.mode = Mode::Help { page: 0 },
            _ => {}
        }
        Action::Nothing
    }

    /// Moves the cursor to a line, or to the last one.
    fn move_to(&mut self, index: usize, interval: &TopInterval) {
        let rows = self.rows(interval);
        let index = index.min(rows.len().saturating_sub(1));
        self.cursor = match rows.get(index) {
            Some(row) => Cursor {
                vm: Some(row.vm),
                line: row.line,
                index,
            },
            None => Cursor::default(),
        };
    }

    fn open_or_close(&mut self, interval: &TopInterval) {
        let rows = self.rows(interval);
        let Some(row) = rows.get(self.position(&rows)) else {
            return;
        };
        let vm = row.vm;
        if !self.open.remove(&vm) {
            self.open.insert(vm);
        }
        // The cursor is on the VM's own line, which is shown even if the VM is closed.
        let first = rows.iter().position(|row| row.vm == vm);
        self.move_to(first.unwrap_or_default(), interval);
    }

    fn sort_by_neighbour(&mut self, distance: usize) {
        let all = VmColumn::ALL;
        let at = all.iter().position(|column| *column == self.sort);
        self.sort = all[(at.unwrap_or_default() + distance) % all.len()];
    }

    fn stop_filtering(&mut self) {
        self.filter.clear();
        self.mode = Mode::Browse;
    }
}

/// The VMs with their keys.
pub(super) fn keys(vms: &[Vm]) -> Vec<(VmKey, &Vm)> {
    let mut keys: Vec<(VmKey, &Vm)> = Vec::new();
    for vm in vms {
        let is_same = |(key, _): &&(VmKey, &Vm)| (key.0, key.1) == (vm.pid, vm.fd);
        let nth = keys.iter().filter(is_same).count();
        keys.push(((vm.pid, vm.fd, nth), vm));
    }
    keys
}

/// The lines below an open VM.
fn details(vm: &Vm, interval: &TopInterval) -> Vec<Content<'static>> {
    let mut contents = Vec::new();
    let name = columns::name(vm);
    if width(&name) > columns::NAME {
        contents.push(Content::Text(format!("name: {}", visible(&name))));
    }
    let vcpus = vm.vcpus.iter();
    let vcpus: Vec<String> = vcpus
        .map(|(id, thread)| format!("{id} ({thread})"))
        .collect();
    if !vcpus.is_empty() {
        let text = format!("vCPUs, with their threads: {}", vcpus.join(", "));
        contents.push(Content::Text(text));
    }
    for mut part in parts(std::slice::from_ref(vm), interval, usize::MAX) {
        // The first column is the PID, which the VM's line already shows.
        part.columns.remove(0);
        let text = terminal(&[Block::Table(part)], vmbell_report::Screen::default());
        contents.extend(text.lines().enumerate().map(|(line, text)| match line {
            0 => Content::Titles(text.to_owned()),
            _ => Content::Text(text.to_owned()),
        }));
    }
    if contents.is_empty() {
        contents.push(Content::Text("nothing was counted".to_owned()));
    }
    contents
}

#[cfg(test)]
#[path = "screen_test.rs"]
mod tests;
