//! The lines above the tables: what readers must know to compare the numbers with those of a different host.

use crate::cpu_list;
use crate::warnings::{BUSY, WIDE};
use crate::{Backend, Measured, PercentilesOf, Report, Row, Timing, units};

/// The header's lines as labels and texts, in order.
pub fn header(report: &Report) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("tool", tool(report)),
        ("host", host(report)),
        ("mitigations", mitigations(report)),
        ("backend", backends(report)),
        ("CPUs", cpus(report)),
    ];
    let has_spin = || report.results.iter().any(|row| row.setting.spin.is_some());
    if let Some(paths) = report.paths().filter(|_| has_spin()) {
        lines.push(("spin", spin_in_words(&paths.spin).to_owned()));
    }
    lines.push(("runs", runs(report)));
    if report.timing == Timing::Native {
        lines.push(("quality", quality(report)));
    }
    lines.extend(timing(report).map(|text| ("timing", text.to_owned())));
    lines
}

/// What the spin policy `policy` means for a heavy exit, in a sentence. It is shown with heavy exits, because an exit
/// that spins uses a second core and one that sleeps does not.
pub fn spin_in_words(policy: &str) -> &'static str {
    match policy {
        "one-cpu" => {
            "one-cpu: in an exit to the VMM each side sleeps until the other wakes it on the same CPU; \
             no CPU spins"
        }
        "sleep" => {
            "sleep: in an exit to the VMM each side sleeps until the other wakes it; no CPU spins"
        }
        "spin" => {
            "spin: in an exit to the VMM each side polls the other, which keeps one more CPU busy"
        }
        "adaptive" => {
            "adaptive: in an exit to the VMM each side polls for a short time if the other runs on \
             another CPU, otherwise sleeps"
        }
        _ => "unknown to this version",
    }
}

/// Advice for a backend whose exits cost more or less than on hardware; empty for other backends.
const fn emulation(backend: &Backend) -> &'static str {
    if backend.emulates_kernel_mode {
        "; emulates the guest's kernel mode: use the usermode backend or the lab (vmbell lab -- vmbell bench) \
         for exit costs"
    } else {
        ""
    }
}

/// What the numbers are, if they are not times of a real CPU; otherwise `None`.
pub(crate) fn timing(report: &Report) -> Option<&'static str> {
    match report.timing {
        Timing::Native => None,
        Timing::Emulated => Some(
            "emulated: times and their ratios say nothing about hardware; exit counts are exact",
        ),
        Timing::Instructions => Some(
            "emulated: numbers are instructions of this kernel and its guest per operation, not times",
        ),
    }
}

/// The title of the column of medians.
pub(crate) const fn median_title(report: &Report) -> &'static str {
    match report.timing {
        Timing::Native => "median",
        Timing::Emulated => "emulated",
        Timing::Instructions => "instructions",
    }
}

/// The word for a ratio below 1: `faster` or `cheaper`.
pub(crate) const fn below_one(report: &Report) -> &'static str {
    match report.timing {
        Timing::Native | Timing::Emulated => "faster",
        Timing::Instructions => "cheaper",
    }
}

fn backends(report: &Report) -> String {
    let one =
        |backend: &Backend| format!("{} ({}){}", backend.name, backend.why, emulation(backend));
    let all: Vec<String> = report.backends.iter().map(one).collect();
    all.join("; ")
}

/// Says whether the host was quiet enough for the numbers to be reproducible.
#[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
pub(crate) fn quality(report: &Report) -> String {
    let (load, cpus) = (report.host.load.unwrap_or_default(), report.host.cpus);
    let measured = || report.results.iter().filter_map(Row::times);
    let wide = measured().filter(|times| times.spread.is_some_and(|spread| spread > WIDE));
    let (wide, all) = (wide.count(), measured().count());
    let mut parts = Vec::new();
    if load > BUSY * cpus as f64 {
        parts.push(format!(
            "busy host, load {load:.1} on {}",
            count_of(cpus, "CPU")
        ));
    }
    if wide > 0 {
        parts.push(format!(
            "{wide} of {all} rows spread by more than {}",
            units::percent(WIDE)
        ));
    }
    if parts.is_empty() {
        parts.push("good: the host was quiet, and no row spreads by more than 10 %".to_owned());
    }
    parts.join("; ")
}

/// `1 CPU`, `2 CPUs`.
fn count_of(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

pub(crate) fn tool(report: &Report) -> String {
    let tool = &report.tool;
    let git = tool
        .git
        .as_ref()
        .map_or_else(String::new, |git| format!(" ({git})"));
    format!("{} {}{git}, {}", tool.name, tool.version, report.started)
}

pub(crate) fn host(report: &Report) -> String {
    let host = &report.host;
    let mut parts = vec![host.kernel.clone(), host.cpu.clone()];
    parts.extend(host.microcode.as_ref().map(|m| format!("microcode {m}")));
    parts.push(match host.cpus {
        0 => "an unknown number of CPUs".to_owned(),
        cpus => count_of(cpus, "CPU"),
    });
    parts.extend(host.smt.map(|smt| format!("SMT {}", on_off(smt))));
    parts.extend(host.governor.as_ref().map(|g| format!("governor {g}")));
    parts.extend(
        host.hypervisor
            .as_ref()
            .map(|h| format!("itself under {h}")),
    );
    parts.extend(host.level());
    parts.extend(host.load.map(|load| format!("load {load:.2}")));
    parts.join(", ")
}

const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

pub(crate) fn mitigations(report: &Report) -> String {
    let mut parts = Vec::new();
    let on = report.host.mitigated(true);
    if !on.is_empty() {
        parts.push(on.join(", "));
    }
    let open = report.host.mitigated(false);
    if !open.is_empty() {
        parts.push(format!("left open: {}", open.join(", ")));
    }
    if parts.is_empty() {
        return "none".to_owned();
    }
    parts.join("; ")
}

fn cpus(report: &Report) -> String {
    match report.cpus.as_slice() {
        [] => "not pinned".to_owned(),
        [only] => format!("everything on {only}"),
        [first, second, ..] if first == second => format!("everything on {first}"),
        [first, rest @ ..] => {
            let rest = cpu_list::Display(rest);
            if report.results.iter().any(|row| row.setting.spin.is_some()) {
                format!("guest on {first}, its VMM and threads that wait for a doorbell on {rest}")
            } else {
                format!("guest and its VMM on {first}, threads that wait for a doorbell on {rest}")
            }
        }
    }
}

fn runs(report: &Report) -> String {
    let plan = &report.plan;
    let warmup = match plan.warmup {
        0 => "no warm-up".to_owned(),
        1 => "1 warm-up round".to_owned(),
        rounds => format!("{rounds} warm-up rounds"),
    };
    let runs = if plan.finished == plan.runs {
        plan.runs.to_string()
    } else {
        format!("{} (of {} wanted)", plan.finished, plan.runs)
    };
    format!(
        "{runs} of {} each, interleaved in random order (seed {}), {warmup}, {:.1} s in all{}",
        length(report),
        report.seed,
        report.duration,
        ended_early(report)
    )
}

/// How long one run should have been, as `about 15.0 ms`.
pub(crate) fn length(report: &Report) -> String {
    let plan = &report.plan;
    match plan.ops {
        Some(ops) => match fewest_operations(report) {
            Some(fewest) if fewest < ops => format!("{fewest} to {ops} operations"),
            _ => units::plural(ops, "operation"),
        },
        None => format!("about {}", units::time(plan.min_time * 1e9)),
    }
}

/// The operations of the shortest run: a row that rests between operations has fewer than the plan says.
fn fewest_operations(report: &Report) -> Option<u64> {
    let times = report.results.iter().filter_map(Row::times);
    times.flat_map(|times| &times.ops).min().copied()
}

/// What ended the command early, as the end of a sentence.
pub(crate) const fn ended_early(report: &Report) -> &'static str {
    if report.interrupted {
        "; INTERRUPTED before the end"
    } else if report.timed_out {
        "; TIME LIMIT reached before the end"
    } else {
        ""
    }
}

/// What the report's memory columns mean, if it has any.
pub(crate) fn memory(report: &Report) -> Option<&'static str> {
    let any = |has: fn(&Measured) -> bool| {
        let mut rows = report.results.iter().filter_map(Row::measured);
        rows.any(has)
    };
    let processes = any(|row| row.memory.is_some());
    match (processes, any(|row| row.kernel_memory.is_some())) {
        (true, true) => Some(
            "memory: what an operation adds to the VMM's processes, page tables included; kernel memory: what it adds to all else that the kernel keeps for them",
        ),
        (true, false) => Some(
            "memory: what an operation adds to the VMM's processes, page tables included; what KVM keeps in the kernel is not counted",
        ),
        (false, true) => Some(
            "kernel memory: what an operation adds to what the kernel keeps for the VMM's processes, without page tables",
        ),
        (false, false) => None,
    }
}

/// The footnotes for the measured rows, each once.
pub(crate) fn footnotes<'r>(report: &'r Report) -> Vec<&'r str> {
    let measured = || report.results.iter().filter(|row| row.is_ok());
    let mut notes = Vec::new();
    if report.backends.len() > 1 && report.backends.iter().any(|one| one.emulates_kernel_mode) {
        notes.push("† emulates the guest's kernel mode: exits are emulated, not hardware VM exits");
    }
    if measured().any(|row| row.ratio().is_some()) {
        notes.push(match report.paths().map_or("", |paths| paths.ratios_to.as_str()) {
            "device model" => "ratio: to the device model in the VMM",
            "first value" => "ratio: to the first value of the scan",
            _ => {
                "ratio: to the row without the mechanism, most often the device model in the VMM"
            }
        });
    }
    let of_operations = |row: &Row| {
        row.times()
            .is_some_and(|times| times.percentiles_of == PercentilesOf::Operations)
    };
    if measured().any(of_operations) {
        notes.push("* percentile of single operations; every other p99 is of runs, each the mean of its operations");
    }
    if measured().any(|row| row.bound().is_some()) {
        notes.push("< below two ticks of the time stamp counter, the least that it can measure");
    }
    notes.extend(memory(report));
    let of_row = |row: &'r Row| {
        let of_exits = row.measured().and_then(|row| row.exits_note.as_deref());
        [row.note.as_deref(), of_exits]
    };
    for note in measured().flat_map(of_row).flatten() {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

#[cfg(test)]
#[path = "header_test.rs"]
mod tests;
