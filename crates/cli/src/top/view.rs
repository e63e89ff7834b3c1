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
use vmbell_report::{TableLines, pad, shortened, table_lines, width, wrap};
use vmbell_top::model::Vm;

/// The maximum number of lines of notes below the table. Help shows all notes.
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

/// Draws the screen, and scrolls it to the cursor. If there is no interval, the first interval has not ended yet.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut TopScreen, interval: Option<&TopInterval>) {
    let area = frame.area();
    let mut lines = DrawnLines { frame, area, y: 0 };
    lines.add(title(screen, interval));
    let Some(interval) = interval else {
        let delay = screen.delay.as_secs_f64();
        lines.add(Line::raw(format!("counting for {delay} s")));
        lines.add_last(footer(screen));
        return;
    };
    let table = table(screen, interval, area);
    let notes = notes(interval, &table);
    // The height that the titles and the notes leave for the rows.
    let height = usize::from(area.height).saturating_sub(3 + notes.len());
    let pages = help(area, interval);
    screen.fit(interval, height, pages.len());
    if let Mode::Help { page } = screen.mode {
        let page = page.min(pages.len() - 1);
        for line in &pages[page] {
            lines.add(Line::raw(line.as_str()));
        }
        lines.add_last(Line::raw(match pages.len() - page {
            1 => "press any key".to_owned(),
            _ => format!(
                "page {} of {}: any key shows the next, Esc the VMs",
                page + 1,
                pages.len()
            ),
        }));
        return;
    }
    body(&mut lines, screen, interval, &table, height);
    lines.leave(notes.len());
    for note in notes {
        lines.add(Line::raw(shortened(&note, area.width.into())).style(bold()));
    }
    lines.add_last(footer(screen));
}

/// The lines of all VMs that pass the filter, in their order.
fn table(screen: &TopScreen, interval: &TopInterval, area: Rect) -> TableLines {
    let rows = screen.rows(interval);
    let vms: Vec<&Vm> = rows
        .iter()
        .filter_map(|row| match row.content {
            Content::Vm(vm) => Some(vm),
            Content::Titles(_) | Content::Text(_) => None,
        })
        .collect();
    let table = columns::table(&vms, interval.seconds, screen.sort);
    table_lines(&table, area.width.into())
}

/// The pages of help: the keys, the columns, and all notes.
fn help(area: Rect, interval: &TopInterval) -> Vec<Vec<String>> {
    let notes = interval.notes.iter();
    let notes = notes.map(|note| wrap(note, 0, Some(area.width.into())));
    let notes: Vec<String> = notes.collect();
    let lines = HELP
        .lines()
        .chain(notes.iter().flat_map(|note| note.lines()));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    // The title and the last line take two lines.
    let height = usize::from(area.height).saturating_sub(2).max(1);
    lines.chunks(height).map(<[String]>::to_vec).collect()
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

/// The columns that do not fit, the first notes, and the number of other notes.
fn notes(interval: &TopInterval, table: &TableLines) -> Vec<String> {
    let is_shown = |column: usize| table.titles.iter().any(|(place, _)| *place == column);
    let left_out = VmColumn::ALL.into_iter().enumerate();
    let left_out: Vec<&str> = left_out
        .filter(|(place, _)| !is_shown(*place))
        .map(|(_, column)| column.title())
        .collect();
    let mut notes = Vec::new();
    if !left_out.is_empty() {
        notes.push(format!("too narrow for {}", left_out.join(", ")));
    }
    notes.extend(interval.notes.iter().cloned());
    if notes.len() > NOTES {
        let more = notes.len() + 1 - NOTES;
        notes.truncate(NOTES - 1);
        notes.push(format!("{more} more notes: press F1"));
    }
    notes
}

fn body(
    lines: &mut DrawnLines<'_, '_>,
    screen: &TopScreen,
    interval: &TopInterval,
    table: &TableLines,
    height: usize,
) {
    let titles = table.titles.iter().map(|(place, title)| {
        let is_sorted = VmColumn::ALL[*place] == screen.sort;
        match (is_sorted, screen.is_reversed) {
            (false, _) => Span::styled(title.clone(), Style::new().reversed()),
            (true, false) => Span::styled(title.clone(), bold()),
            (true, true) => Span::styled(marked(title), bold()),
        }
    });
    lines.add(Line::from(titles.collect::<Vec<_>>()));
    let rows = screen.rows(interval);
    if rows.is_empty() {
        let why = match interval.vms.is_empty() {
            true => NO_VM,
            false => "no VM passes the filter",
        };
        lines.add(Line::raw(why));
    }
    let at = screen.position(&rows);
    let mut vms = table.rows.iter();
    let texts: Vec<(String, Style)> = rows
        .iter()
        .map(|row| match &row.content {
            Content::Vm(_) => (vms.next().cloned().unwrap_or_default(), Style::new()),
            Content::Titles(titles) => (indented(titles, screen.left), Style::new().underlined()),
            Content::Text(text) => (indented(text, screen.left), Style::new()),
        })
        .collect();
    let shown = texts.into_iter().enumerate().skip(screen.top());
    for (index, (text, style)) in shown.take(height) {
        let style = match index == at {
            true => Style::new().reversed(),
            false => style,
        };
        lines.add(Line::raw(filled(&text, lines.area.width.into())).style(style));
    }
}

/// A title with the mark of the reversed order instead of the blank before it, so that no column moves.
fn marked(title: &str) -> String {
    let text = title.trim_start();
    match (title.len() - text.len()).checked_sub(1) {
        Some(blanks) => format!("{:blanks$}-{text}", ""),
        None => title.to_owned(),
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

/// A line of an open VM, without its first characters.
fn indented(text: &str, left: usize) -> String {
    let starts = text.char_indices().map(|(at, _)| text.split_at(at));
    let rest = starts.skip_while(|(before, _)| width(before) < left);
    format!(
        "  {}",
        rest.map(|(_, rest)| rest).next().unwrap_or_default()
    )
}

/// The text, cut or padded to this width.
fn filled(text: &str, width: usize) -> String {
    pad(&shortened(text, width), width)
}

fn bold() -> Style {
    Style::new().bold()
}

/// Draws lines from the top to the line above the last one.
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

    /// Skips down so that this number of lines is left above the last one.
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
