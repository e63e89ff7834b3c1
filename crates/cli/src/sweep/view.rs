//! What a sweep shows: a table with a row for each event, the first instant of each fault with its diagnosis, and a line
//! for each VMM.

use std::collections::BTreeSet;

use super::args::AGAIN;
use vmbell_report::units::plural;
use vmbell_report::{Block, Cell, Column, Paint, Table};
use vmbell_sweep::guest::Help;
use vmbell_sweep::report::{
    Counts, Event, EventResults, InstantResult, Shown, SweepReport, SweptVmm, Traffic,
};
use vmbell_sweep::verdict::Verdict;

/// The report as blocks; with `is_one`, each instant is explained.
pub(super) fn blocks(report: &SweepReport, is_one: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    for vmm in report.vmms.iter().filter(|vmm| !vmm.events.is_empty()) {
        blocks.push(Block::Table(table(vmm)));
        let mut shown = BTreeSet::new();
        for event in &vmm.events {
            for result in &event.instants {
                let is_first = result.fault.is_some_and(|fault| {
                    shown.insert((event.event, event.traffic, fault, result.verdict))
                });
                if is_one || is_first {
                    blocks.extend(diagnosis(report, vmm, event, result));
                }
            }
        }
    }
    blocks.extend(report.vmms.iter().map(headline));
    if let Some(edit) = &report.edit {
        blocks.push(Block::Note(format!(
            "each snapshot was broken by --edit {}",
            edit.name()
        )));
    }
    if report.vmms.is_empty() {
        blocks.push(Block::text("no VMM that can be swept was found"));
    } else if !report.repeats {
        blocks.push(Block::Note(
            "a repeated run finds other instants open; only the deterministic lab repeats them"
                .to_owned(),
        ));
    }
    blocks
}

fn traffic(traffic: &Traffic) -> String {
    let event_idx = if traffic.event_idx { ", EVENT_IDX" } else { "" };
    let packed = if traffic.packed { ", packed" } else { "" };
    let limited = if traffic.limited { ", limited" } else { "" };
    let (device, wait) = (traffic.device.name(), traffic.wait.name());
    format!(
        "{device}, {wait}{packed}{event_idx}, {} in flight{limited}",
        traffic.in_flight
    )
}

fn table(vmm: &SweptVmm) -> Table {
    let rows = vmm.events.iter();
    let mut table = Table::new(vmm.name.clone(), rows.map(|event| traffic(&event.traffic)));
    let counts: Vec<(&EventResults, Counts)> = vmm
        .events
        .iter()
        .map(|event| (event, event.counts()))
        .collect();
    let cells = |cell: fn(&EventResults, &Counts) -> Cell| {
        let cells: Vec<_> = counts
            .iter()
            .map(|(event, counts)| Some(cell(event, counts)))
            .collect();
        cells
    };
    table.add(
        Column::words("event"),
        cells(|event, _| Cell::from(event.event.name().to_owned())),
    );
    table.add(
        Column::numbers("lost"),
        cells(|event, counts| match (&event.has_none, counts.lost) {
            (Some(_), _) => Cell::from("has none".to_owned()),
            (None, 0) => Cell::from("0".to_owned()),
            (None, lost) => Cell::new(lost.to_string(), Paint::Red),
        }),
    );
    table.add(
        Column::numbers("open"),
        cells(|event, counts| match event.event {
            Event::Control => Cell::default(),
            _ if event.has_none.is_some() => Cell::default(),
            _ if counts.open() == 0 => Cell::new("0", Paint::Yellow),
            _ => Cell::from(counts.open().to_string()),
        }),
    );
    table.add(
        Column::numbers("instants"),
        cells(|_, counts| Cell::from(counts.instants.to_string())),
    );
    table.add(
        Column::numbers("unexplained"),
        cells(|_, counts| match counts.unexplained {
            0 => Cell::from("0".to_owned()),
            count => Cell::new(count.to_string(), Paint::Yellow),
        }),
    );
    table.add(
        Column::numbers("emulator"),
        cells(|_, counts| Cell::from(counts.emulator.to_string())),
    );
    table.add(
        Column::numbers("starvation"),
        cells(|_, counts| Cell::from(counts.starvation.to_string())),
    );
    table.add(
        Column::words("faults"),
        cells(|event, counts| {
            let faults = counts.faults.iter();
            let faults: Vec<String> = faults
                .map(|(fault, count)| format!("{} ({count})", fault.name()))
                .collect();
            Cell::from(match &event.has_none {
                Some(reason) => reason.clone(),
                None => faults.join(", "),
            })
        }),
    );
    table
}

/// One instant in words, with the command that repeats it.
fn diagnosis(
    report: &SweepReport,
    vmm: &SweptVmm,
    event: &EventResults,
    result: &InstantResult,
) -> [Block; 2] {
    let number = result.instant.number;
    let seen = verdict(result.verdict);
    let is_excused = result.verdict == Verdict::Inconclusive && vmm.control_has(event, result);
    let fault = match result.fault {
        Some(fault) if is_excused => {
            format!("unexplained: {}, as in the control group", fault.name())
        }
        Some(fault) => format!("{seen}: {}", fault.name()),
        None => seen.to_owned(),
    };
    let head = format!(
        "{}, {}, instant {number}: {fault}",
        vmm.name,
        event.event.name()
    );
    let mut facts = vec![("traffic", traffic(&event.traffic))];
    let delay = result.instant.delay_ns;
    facts.push((
        "pause",
        match event.event {
            Event::Control => "none".to_owned(),
            _ => format!("{delay} ns after an answer"),
        },
    ));
    if let Some(ring) = &result.ring {
        let requests = plural(u64::from(result.open.requests), "request");
        let answers = plural(u64::from(result.open.answers), "answer");
        let suppressed = match result.open.suppressed {
            true => ", the next notification suppressed",
            false => "",
        };
        facts.push((
            "open",
            format!("{requests} without an answer, {answers} not taken{suppressed}"),
        ));
        facts.push(("ring", words(ring.words())));
    }
    if !result.unread.is_empty() {
        let unread = result.unread.iter();
        let unread = unread.map(|eventfd| {
            format!(
                "descriptor {} (count {})",
                eventfd.descriptor, eventfd.count
            )
        });
        facts.push(("unread eventfds", unread.collect::<Vec<_>>().join(", ")));
    }
    if let Some(loss) = &result.loss {
        let ring = loss.ring;
        facts.push((
            "guest's ring",
            words([
                ring.available,
                ring.used,
                ring.seen,
                ring.avail_event,
                ring.used_event,
            ]),
        ));
        let kicked = match loss.kicked {
            true => "the driver had notified the device",
            false => "the driver had not notified the device",
        };
        let help = match loss.help {
            Help::Look => "the answer was there when it looked",
            Help::Interrupt => "the answer was there, and unmasking brought its interrupt",
            Help::Kick => "a further notification revived it",
            Help::Nothing => "nothing revived it",
        };
        facts.push(("guest", format!("{kicked}; {help}")));
    }
    facts.extend(result.message.clone().map(|message| ("message", message)));
    facts.push(("repeat", command(report, vmm, event, number)));
    let facts = facts
        .into_iter()
        .map(|(label, text)| (label.to_owned(), text));
    [
        Block::Text(Cell::new(head, Paint::Bold)),
        Block::Facts(facts.collect()),
    ]
}

/// A ring's words.
fn words([available, used, seen, avail_event, used_event]: [u16; 5]) -> String {
    format!(
        "available {available}, used {used}, taken {seen}, avail_event {avail_event}, used_event {used_event}"
    )
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lost => "lost",
        Verdict::Kept => "kept",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Emulator => "not the VMM",
        Verdict::Starvation => "not the VMM",
    }
}

/// The command that repeats an instant.
fn command(report: &SweepReport, vmm: &SweptVmm, event: &EventResults, number: u32) -> String {
    let Traffic {
        device,
        wait,
        event_idx,
        packed,
        in_flight,
        ..
    } = event.traffic;
    let lab = if report.repeats {
        "vmbell lab --deterministic -- "
    } else {
        ""
    };
    let events = match event.event {
        Event::Control => "pause",
        event => event.name(),
    };
    let event_idx = if event_idx { "on" } else { "off" };
    let mut command = format!(
        "{lab}vmbell sweep {} --events {events} --device {} --wait {} --event-idx {event_idx} --in-flight {in_flight}",
        vmm.name,
        device.name(),
        wait.name(),
    );
    if packed {
        command.push_str(" --ring packed");
    }
    if report.window == vmbell_sweep::report::Window::None {
        command.push_str(" --window none");
    }
    for given in &report.given {
        command.push_str(&format!(" --vmm {}", shell_words::quote(given)));
    }
    if report.again != AGAIN {
        command.push_str(&format!(" --again {}", report.again));
    }
    if let Some(edit) = &report.edit {
        command.push_str(&format!(" --edit {}", edit.name()));
    }
    command.push_str(&format!(" --instant {number} --seed {}", report.seed));
    command
}

/// One line for a VMM.
fn headline(vmm: &SweptVmm) -> Block {
    let name = match &vmm.version {
        Some(version) => format!("{} ({version}, {})", vmm.name, vmm.accelerator),
        None => format!("{} ({})", vmm.name, vmm.accelerator),
    };
    if let Some(reason) = &vmm.skipped {
        return Block::text(format!("{}: skipped: {reason}", vmm.name));
    }
    let (mut lost, mut open, mut instants) = (0, 0, 0);
    let (mut control, mut failed, mut unexplained) = (0, 0, 0);
    for event in &vmm.events {
        let counts = event.counts();
        match event.event {
            Event::Control => {
                control += counts.instants;
                failed += counts.lost + counts.unexplained + counts.emulator + counts.starvation;
            }
            _ => {
                lost += counts.lost;
                open += counts.open();
                unexplained += counts.unexplained;
                instants += counts.instants;
            }
        }
    }
    let mut text = format!(
        "{name}: lost {lost} of {open} open ({}); control {failed} of {control}",
        plural(u64::try_from(instants).unwrap_or(u64::MAX), "instant")
    );
    if unexplained != 0 {
        text.push_str(&format!("; {unexplained} unexplained"));
    }
    if let Some(reason) = &vmm.failed {
        text.push_str(&format!("; the sweep ended early: {reason}"));
    }
    let paint = match vmm.shown() {
        Shown::Lost => Paint::Red,
        Shown::NothingLost => Paint::Green,
        Shown::Inconclusive | Shown::Skipped => Paint::Yellow,
    };
    Block::Text(Cell::new(text, paint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmbell_sweep::diagnosis::Fault;
    use vmbell_sweep::guest::Wait;
    use vmbell_sweep::instant::Instant;
    use vmbell_sweep::report::Device;
    use vmbell_sweep::ring::OpenRing;

    #[test]
    fn a_headlines_colour_is_that_of_the_exit_status() {
        let event = |event, verdict, fault| EventResults {
            traffic: Traffic {
                device: Device::Rng,
                wait: Wait::Timer,
                event_idx: true,
                packed: false,
                in_flight: 1,
                limited: false,
            },
            event,
            has_none: None,
            instants: vec![InstantResult {
                instant: Instant::new(0, 1, 1000),
                open: OpenRing::default(),
                ring: None,
                unread: Vec::new(),
                verdict,
                fault,
                loss: None,
                message: None,
            }],
        };
        let control = |fault| event(Event::Control, Verdict::Inconclusive, fault);
        let kept = || event(Event::Pause, Verdict::Kept, None);
        let closed = event(Event::Restore, Verdict::Inconclusive, None);
        for (events, paint) in [
            (vec![control(None), kept()], Paint::Green),
            (vec![control(Some(Fault::VmmFailed)), kept()], Paint::Red),
            (vec![control(None), kept(), closed], Paint::Yellow),
        ] {
            let vmm = SweptVmm {
                name: "a".to_owned(),
                version: None,
                accelerator: "kvm".to_owned(),
                skipped: None,
                failed: None,
                events,
            };
            let Block::Text(cell) = headline(&vmm) else {
                panic!("{vmm:?}");
            };
            assert_eq!(cell.paint, paint, "{vmm:?}");
        }
    }
}
