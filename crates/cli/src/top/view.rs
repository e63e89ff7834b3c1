//! Draws the live screen: a title, the table of VMs, notes, and a line for keys or input.

use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};

use super::columns::{self, VmColumn};
use super::interval::TopInterval;
use super::screen::{Content, Mode, TopScreen};
use super::text::NO_VM;
use vmbell_report::units::plural;
use vmbell_report::{pad, shortened, width, wrap};

/// How many lines of notes are shown. Help shows all.
const NOTES: usize = 4;
const KEYS: &str = "F1 Help  F4 / Filter  F6 < > Sort  Enter Open  d Delay  F10 q Quit";

const HELP: &str = "\
Up Down PgUp PgDn Home End   move the cursor
Left Right                   move the lines of open VMs
Enter, Space                 open or close a VM: its vCPUs, addresses and irqfds
< >, F6                      sort by the column to the left or right
P  V  E  N                   sort by CORE, VMM/s, EXITS/s or PID
I                            reverse the order
/, F4                        show only VMs with this text in their name or PID
Esc                          show all VMs again
d                            set the delay: 2, or 500ms
+ -                          double or halve the delay
Ctrl-L                       draw the screen again
Ctrl-Z                       suspend
q, F10, Ctrl-C               quit

CORE: CPU time of the vCPUs' threads; 1.00 is one core
EXITS/s: VM exits of all kinds. VMM/s: returns of KVM_RUN to the VMM
RINGS/s: signals of ioeventfds. IRQFD/s, IOCTL/s: interrupts raised by irqfds,
and otherwise. EOI/s: ends of interrupts; PV: their share without an exit
-: cannot be counted, for the reasons below the table";

/// Draws the screen; without a interval, the first interval has not ended.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &TopScreen, interval: Option<&TopInterval>) {
    let area = frame.area();
    let mut lines = DrawnLines { frame, area, y: 0 };
    lines.add(title(screen, interval));
    let Some(interval) = interval else {
        let delay = screen.delay.as_secs_f64();
        lines.add(Line::raw(format!("counting for {delay} s")));
        lines.add_last(footer(screen));
        return;
    };
    if screen.mode == Mode::Help {
        for line in HELP.lines() {
            lines.add(Line::raw(line));
        }
        for note in &interval.notes {
            for line in wrap(note, 0, Some(area.width.into())).lines() {
                lines.add(Line::raw(line));
            }
        }
        lines.add_last(Line::raw("press any key"));
        return;
    }
    body(&mut lines, screen, interval);
    let notes = notes(interval);
    lines.leave(notes.len());
    for note in notes {
        lines.add(Line::raw(shortened(&note, area.width.into())).style(bold()));
    }
    lines.add_last(footer(screen));
}

/// How many lines are left for VMs.
pub(super) fn height(area: Rect, interval: &TopInterval) -> usize {
    let others = 3 + notes(interval).len();
    usize::from(area.height).saturating_sub(others)
}

fn title(screen: &TopScreen, interval: Option<&TopInterval>) -> Line<'static> {
    let mut parts = vec!["vmbell top".to_owned()];
    if let Some(interval) = interval {
        parts.push(plural(interval.vms.len(), "VM"));
    }
    parts.push(format!("every {} s", screen.delay.as_secs_f64()));
    if let Some(interval) = interval {
        parts.push(interval.sources.join(", "));
        parts.push(format!("own cost {:.2} core", interval.own_cores));
        let lost = interval
            .lost
            .map_or("-".to_owned(), |lost| lost.to_string());
        parts.push(format!("lost {lost}"));
    }
    Line::raw(parts.join("  ")).style(bold())
}

/// The first notes, and how many more there are.
fn notes(interval: &TopInterval) -> Vec<String> {
    let mut notes = interval.notes.clone();
    if notes.len() > NOTES {
        let more = notes.len() + 1 - NOTES;
        notes.truncate(NOTES - 1);
        notes.push(format!("{more} more notes: press F1"));
    }
    notes
}

fn body(lines: &mut DrawnLines<'_, '_>, screen: &TopScreen, interval: &TopInterval) {
    let name = columns::name_width(&interval.vms, Some(lines.area.width.into()));
    let mut titles = Vec::new();
    for column in VmColumn::ALL {
        let style = match column == screen.sort {
            true => Style::new().bold(),
            false => Style::new().reversed(),
        };
        let mark = match (column == screen.sort, screen.is_reversed) {
            (true, true) => "-",
            _ => "",
        };
        let text = column.aligned(&format!("{mark}{}", column.title()), name);
        titles.push(Span::styled(text, style));
        titles.push(Span::styled(" ", Style::new().reversed()));
    }
    lines.add(Line::from(titles));
    let rows = screen.rows(interval);
    if rows.is_empty() {
        let why = match interval.vms.is_empty() {
            true => NO_VM,
            false => "no VM passes the filter",
        };
        lines.add(Line::raw(why));
    }
    let at = screen.position(&rows);
    let shown = rows.iter().enumerate().skip(screen.top());
    for (index, row) in shown.take(height(lines.area, interval)) {
        let (text, style) = match &row.content {
            Content::Vm(vm) => {
                let text = columns::line(name, |column| column.cell(vm, interval.seconds));
                (text, Style::new())
            }
            Content::Titles(titles) => (indented(titles, screen.left), Style::new().underlined()),
            Content::Text(text) => (indented(text, screen.left), Style::new()),
        };
        let style = match index == at {
            true => Style::new().reversed(),
            false => style,
        };
        lines.add(Line::raw(filled(&text, lines.area.width.into())).style(style));
    }
}

fn footer(screen: &TopScreen) -> Line<'static> {
    let text = match &screen.mode {
        Mode::Filter => format!("filter: {}_", screen.filter),
        Mode::Delay { text, error } => {
            let error = error.as_ref().map(|error| format!("  {error}"));
            format!("delay: {text}_{}", error.unwrap_or_default())
        }
        _ if !screen.filter.is_empty() => format!("filter: {}  (Esc: all VMs)", screen.filter),
        _ => KEYS.to_owned(),
    };
    Line::raw(text)
}

/// A line of an open VM, without its first cells.
fn indented(text: &str, left: usize) -> String {
    let starts = text.char_indices().map(|(at, _)| text.split_at(at));
    let rest = starts.skip_while(|(before, _)| width(before) < left);
    format!(
        "  {}",
        rest.map(|(_, rest)| rest).next().unwrap_or_default()
    )
}

/// The text in exactly this width.
fn filled(text: &str, width: usize) -> String {
    pad(&shortened(text, width), width)
}

fn bold() -> Style {
    Style::new().bold()
}

/// Lines that are drawn from the top to the line above the last one.
struct DrawnLines<'a, 'f> {
    frame: &'a mut Frame<'f>,
    area: Rect,
    y: u16,
}

impl DrawnLines<'_, '_> {
    fn add(&mut self, line: Line<'_>) {
        if self.y + 1 < self.area.height {
            self.put(self.y, &line);
            self.y += 1;
        }
    }

    /// Leaves this number of lines above the last one.
    fn leave(&mut self, count: usize) {
        let lines = usize::from(self.area.height).saturating_sub(1 + count);
        self.y = self.y.max(u16::try_from(lines).unwrap_or(u16::MAX));
    }

    fn add_last(&mut self, line: Line<'_>) {
        if let Some(last) = self.area.height.checked_sub(1) {
            self.put(last, &line);
        }
    }

    fn put(&mut self, y: u16, line: &Line<'_>) {
        let place = Rect::new(0, y, self.area.width, 1);
        self.frame.render_widget(line, place);
    }
}

#[cfg(test)]
#[path = "view_test.rs"]
mod tests;
