//! The exits of L1's guests by reason: a line for all of them, and a table of exits per operation for each row. Both
//! also go into the report.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use vmbell_lab::arch::Arch;
use vmbell_lab::job::NamedExits;
use vmbell_report::{Block, Cell, Column, Outcome, Overflow, Report, Row, Table};

/// The exit codes of AMD's SVM (APM volume 2, appendix C) that are frequent with nested guests.
const NAMES: [(u32, &str); 20] = [
    (0x00, "read cr0"),
    (0x10, "write cr0"),
    (0x5c, "#AC"),
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x64, "vintr"),
    (0x6e, "rdtsc"),
    (0x72, "cpuid"),
    (0x74, "iret"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x80, "vmrun"),
    (0x81, "vmmcall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x8d, "xsetbv"),
    (0x400, "page fault"),
];
/// The exception classes of arm64 (Arm DDI 0487, ESR_EL2.EC) that are frequent with nested guests; KVM reports an
/// interrupt as 0.
const CLASSES: [(u32, &str); 10] = [
    (0x00, "interrupt"),
    (0x01, "wfx"),
    (0x07, "fp"),
    (0x16, "hvc"),
    (0x17, "smc"),
    (0x18, "system register"),
    (0x19, "sve"),
    (0x1a, "eret"),
    (0x20, "instruction abort"),
    (0x24, "data abort"),
];
/// Exits that a CPU with virtual VMLOAD and VMSAVE (VLS) avoids.
const VLS: [u32; 2] = [0x82, 0x83];

/// The line for an L1 of this architecture. A star marks exits that a CPU with VLS avoids.
pub(super) fn text(exits: &[(u32, u64)], arch: Arch) -> String {
    if arch == Arch::AARCH64 {
        return listed(exits, &CLASSES, &[]);
    }
    listed(exits, &NAMES, &VLS)
}

fn listed(exits: &[(u32, u64)], names: &[(u32, &str)], vls: &[u32]) -> String {
    let all: u64 = exits.iter().map(|(_, count)| count).sum();
    let saved = exits.iter().filter(|(code, _)| vls.contains(code));
    let saved: u64 = saved.map(|(_, count)| count).sum();
    let one = |(code, count): &(u32, u64)| {
        let name = names.iter().find(|(other, _)| other == code);
        let name = name.map_or_else(|| format!("{code:#x}"), |(_, name)| (*name).to_owned());
        let star = if vls.contains(code) { "*" } else { "" };
        format!("{name}{star} {count}")
    };
    let each: Vec<String> = exits.iter().map(one).collect();
    let starred = match vls {
        [] => String::new(),
        _ => format!(", {saved} of them (*) not on a CPU with VLS"),
    };
    format!(
        "{all} exits of L1's guests while the program ran{starred}: {}",
        each.join(", ")
    )
}

/// Puts the exits into the report, and returns the table. The parts are between the marks of `vmbell bench`: a row has
/// one run between its first two marks, and a run of twice as many operations between its last two.
pub(super) fn of_rows(report: &mut Report, parts: &[NamedExits]) -> Result<Vec<Block>> {
    let rows = report.results.iter_mut();
    let mut rows: Vec<_> = rows.filter_map(MeasuredRow::of).collect();
    // There is also a part between two rows. The first mark may be missing, because it starts the recording.
    let wanted = (rows.len() * 3).saturating_sub(1);
    ensure!(
        wanted > 0 && (wanted..=wanted + 1).contains(&parts.len()),
        "the exits of {} rows are in {} parts, not in {wanted}: a row failed while its exits were counted",
        rows.len(),
        parts.len()
    );
    let parts = &parts[parts.len() - wanted..];
    for (row, parts) in rows.iter_mut().zip(parts.chunks(3)) {
        *row.exits = Some(per_operation(&parts[0], &parts[1], row.ops));
    }
    let exits = rows
        .iter()
        .filter_map(|row| Some((row.name, row.exits.as_ref()?)));
    Ok(blocks(&exits.collect::<Vec<_>>()))
}

/// A row that was measured.
struct MeasuredRow<'a> {
    name: &'a str,
    exits: &'a mut Option<BTreeMap<String, f64>>,
    /// Operations of each run.
    ops: u64,
}

impl<'a> MeasuredRow<'a> {
    fn of(row: &'a mut Row) -> Option<Self> {
        let Outcome::Measured(measured) = &mut row.outcome else {
            return None;
        };
        Some(Self {
            name: &row.command,
            ops: measured.times.ops_per_run()?,
            exits: &mut measured.l1_exits,
        })
    }
}

/// Exits per operation: the second run has `ops` operations more than the first, and the same of everything else.
#[expect(clippy::cast_precision_loss, reason = "far fewer exits than 2^53")]
fn per_operation(first: &NamedExits, second: &NamedExits, ops: u64) -> BTreeMap<String, f64> {
    let count =
        |exits: &NamedExits, reason: &str| exits.get(reason).copied().unwrap_or_default() as f64;
    let reasons = first.keys().chain(second.keys());
    let one = |reason: &String| {
        let more = count(second, reason) - count(first, reason);
        (reason.clone(), more / ops.max(1) as f64)
    };
    reasons.map(one).collect()
}

/// A column for all exits, and one for each reason with at least a twentieth of an exit in some row, the largest first.
fn blocks(rows: &[(&str, &BTreeMap<String, f64>)]) -> Vec<Block> {
    const LEAST: f64 = 0.05;
    let mut reasons: Vec<(&str, f64)> = Vec::new();
    for (reason, exits) in rows.iter().flat_map(|(_, exits)| *exits) {
        match reasons.iter_mut().find(|(name, _)| name == reason) {
            Some((_, most)) => *most = most.max(exits.abs()),
            None => reasons.push((reason, exits.abs())),
        }
    }
    reasons.retain(|(_, most)| *most >= LEAST);
    reasons.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    let has_star = |reason: &str| {
        let mut vls = NAMES.iter().filter(|(code, _)| VLS.contains(code));
        vls.any(|(_, name)| *name == reason)
    };
    let cell = |exits: f64| (exits.abs() >= LEAST).then(|| Cell::from(format!("{exits:.1}")));
    let mut table = Table {
        overflow: Overflow::Continue,
        ..Table::new("row", rows.iter().map(|(name, _)| *name))
    };
    let all = rows.iter().map(|(_, exits)| cell(exits.values().sum()));
    table.add(Column::numbers("all"), all);
    for (reason, _) in &reasons {
        let star = if has_star(reason) { "*" } else { "" };
        let title = format!("{}{star}", reason.replace('_', " "));
        let cells = rows
            .iter()
            .map(|(_, exits)| cell(exits.get(*reason).copied().unwrap_or_default()));
        table.add(Column::numbers(title), cells);
    }
    let mut blocks = vec![
        Block::text(
            "exits of L1's guests for one operation; counting them costs instructions, which the report above has",
        ),
        Block::Table(table),
    ];
    if reasons.iter().any(|(reason, _)| has_star(reason)) {
        let note = "* not on a CPU with virtual VMLOAD and VMSAVE (VLS)";
        blocks.push(Block::Note(note.to_owned()));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use vmbell_report::{Screen, terminal};

    use super::*;

    #[test]
    fn exits_that_a_cpu_with_vls_does_not_have_are_marked() {
        assert_eq!(
            text(&[(0x82, 400), (0x80, 200), (0x999, 1)], Arch::X86_64),
            "601 exits of L1's guests while the program ran, 400 of them (*) not on a CPU with VLS: \
             vmload* 400, vmrun 200, 0x999 1"
        );
        assert_eq!(
            text(&[(0x1a, 400), (0, 2)], Arch::AARCH64),
            "402 exits of L1's guests while the program ran: eret 400, interrupt 2"
        );
    }

    fn exits(pairs: &[(&str, u64)]) -> NamedExits {
        let owned = |(reason, count): &(&str, u64)| ((*reason).to_owned(), *count);
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn what_a_longer_run_has_more_is_that_of_the_operations() {
        let first = exits(&[("io", 23), ("vmload", 50), ("hlt", 1)]);
        let second = exits(&[("io", 43), ("vmload", 90), ("hlt", 1), ("npf", 2)]);
        let exits = per_operation(&first, &second, 20);
        assert_eq!(
            terminal(&blocks(&[("portio-no-eventfd", &exits)]), Screen::default()),
            "exits of L1's guests for one operation; counting them costs instructions, which the report above has\n\n\
             row                all  vmload*   io  npf\n\
             portio-no-eventfd  3.1      2.0  1.0  0.1\n\
             * not on a CPU with virtual VMLOAD and VMSAVE (VLS)\n"
        );
    }
}
