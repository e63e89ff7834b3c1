//! The devices as a table, with the commands below it.

use std::fmt::Write;

use vmbell_report::{Block, Cell, Column, Screen, Table, terminal};
use vmbell_vfio::host::Obstacle;

use super::candidates::{DeviceCandidate, DeviceCandidates};
use crate::advice::remedy;

pub(super) fn text(candidates: &DeviceCandidates) -> String {
    let mut blocks = Vec::new();
    if !candidates.shown.is_empty() {
        blocks.push(Block::Table(table(&candidates.shown)));
    }
    let left_out: Vec<_> = candidates
        .left_out
        .iter()
        .map(|(kind, count)| format!("{kind} ({count})"))
        .collect();
    if !left_out.is_empty() {
        blocks.push(Block::Note(format!(
            "left out, as they are not assigned to guests: {}",
            left_out.join(", ")
        )));
    }
    blocks.push(Block::text(summary(&candidates.shown)));
    let mut text = terminal(&blocks, Screen::default());
    mend(&mut text, &candidates.shown);
    text
}

fn table(shown: &[DeviceCandidate]) -> Table {
    let mut table = Table::new("device", shown.iter().map(|one| &one.device.name));
    let mut add = |title, cell: fn(&DeviceCandidate) -> Option<String>| {
        let cells = shown
            .iter()
            .map(|candidate| cell(candidate).map(Cell::from));
        table.add(Column::words(title), cells);
    };
    add("what it is", |one| Some(one.device.identity.to_string()));
    add("driver", |one| one.device.driver.clone());
    add("group", |one| Some(one.device.group?.to_string()));
    add("state", |one| Some(one.state()));
    table
}

/// The summary in one sentence.
fn summary(shown: &[DeviceCandidate]) -> String {
    let ready = shown
        .iter()
        .filter(|candidate| candidate.is_ready())
        .count();
    match (ready, shown) {
        (_, []) => "nothing can be assigned: this host has no device for it".to_owned(),
        (0, [first, others @ ..]) => {
            let Some(obstacle @ Obstacle::NoIommuGroup { .. }) = first.obstacles.first() else {
                return "nothing can be assigned yet".to_owned();
            };
            if others
                .iter()
                .all(|other| other.obstacles.first() == Some(obstacle))
            {
                format!("nothing can be assigned: {obstacle}")
            } else {
                "nothing can be assigned yet".to_owned()
            }
        }
        (ready, all) => format!("{ready} of {} can be assigned", all.len()),
    }
}

/// An obstacle, and the commands that remove it, by device.
struct ObstacleText<'c> {
    title: String,
    parts: Vec<SameFix<'c>>,
}

/// Devices with the same commands.
struct SameFix<'c> {
    devices: Vec<&'c str>,
    fix: Vec<String>,
}

fn entries(shown: &[DeviceCandidate]) -> Vec<ObstacleText<'_>> {
    let mut entries: Vec<ObstacleText> = Vec::new();
    for candidate in shown {
        let name = candidate.device.name.as_str();
        for obstacle in candidate.first_obstacles() {
            let (title, fix) = (obstacle.to_string(), remedy::commands(obstacle));
            let devices = vec![name];
            let Some(entry) = entries.iter_mut().find(|entry| entry.title == title) else {
                let parts = vec![SameFix { devices, fix }];
                entries.push(ObstacleText { title, parts });
                continue;
            };
            match entry.parts.iter_mut().find(|part| part.fix == fix) {
                Some(part) => part.devices.push(name),
                None => entry.parts.push(SameFix { devices, fix }),
            }
        }
    }
    entries
}

/// Writes the commands, below the obstacles that they remove.
fn mend(text: &mut String, shown: &[DeviceCandidate]) {
    let entries = entries(shown);
    if entries.is_empty() {
        return;
    }
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "\nwhat prevents it, and the commands that change that (as root)"
    );
    for ObstacleText { title, parts } in entries {
        let _ = writeln!(text, "\n{title}");
        for SameFix { devices, fix } in parts {
            let _ = writeln!(text, "  {}", devices.join(", "));
            for line in fix {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
}
