//! What `vmbell probe` shows: what affects the numbers here, in at most 40 lines, or everything with `--verbose`.

use crate::advice::{self, Finding};
use crate::backends::BackendProbe;
use vmbell_hypervisor::{Capability, Support};
use vmbell_report::units::plural;
use vmbell_report::{Block, Cell, Column, Host, Table, cpu_list};

/// How many findings the short form shows, each in two lines.
const MOST: usize = 8;

/// What this host offers.
pub(super) struct Offer {
    pub(super) host: Host,
    /// The counter's frequency in Hz and whether it is invariant, or why it cannot be used.
    pub(super) clock: Result<(f64, bool), String>,
    pub(super) features: Vec<(&'static str, Support)>,
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) backends: Vec<BackendProbe>,
    pub(super) advice: Vec<Finding>,
}

/// Formats the offer, in short or in full.
pub(super) fn blocks(offer: &Offer, is_verbose: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Facts(host(offer, is_verbose))];
    if is_verbose {
        let (mitigations, parameters) = (&offer.host.mitigations, &offer.host.kvm_params);
        blocks.extend(pairs("mitigation", mitigations.iter()));
        blocks.extend(pairs("KVM's parameter", parameters.iter()));
        let features = offer.features.iter();
        let features = features.map(|(name, support)| (*name, support.to_string()));
        let settings = offer
            .settings
            .iter()
            .map(|(name, value)| (*name, value.clone()));
        blocks.extend(pairs("feature", features.chain(settings)));
        blocks.extend(offer.backends.iter().flat_map(|(backend, capabilities)| {
            let each = capabilities.iter();
            let each = each.map(|(capability, support)| (capability.name(), support.to_string()));
            pairs(&format!("backend {backend}"), each)
        }));
        blocks.extend(advice::blocks(&offer.advice));
    } else {
        blocks.push(Block::Table(backends(&offer.backends)));
        let (findings, others) = advice::brief(&offer.advice, MOST);
        blocks.extend(findings);
        let others = match others {
            0 => String::new(),
            others => format!(", including {}", plural(others, "other finding")),
        };
        blocks.push(Block::Note(format!(
            "vmbell probe -v shows everything{others}"
        )));
    }
    blocks
}

/// A table of names and values; `None` without rows.
fn pairs<N: Into<String>, T: Into<String>>(
    title: &str,
    rows: impl Iterator<Item = (N, T)>,
) -> Option<Block> {
    let (names, texts): (Vec<N>, Vec<T>) = rows.unzip();
    let mut table = Table::new(title, names);
    let cells = texts.into_iter().map(|text| Some(Cell::from(text)));
    table.add(Column::words("here"), cells);
    (!table.is_empty()).then_some(Block::Table(table))
}

/// The backends: whether each runs here, and its number of capabilities.
fn backends(backends: &[BackendProbe]) -> Table {
    let here = |capabilities: &[(Capability, Support)]| {
        let run = capabilities.iter().find(|(one, _)| *one == Capability::Run);
        if let Some((_, no @ Support::No(_))) = run {
            return no.to_string();
        }
        let has = capabilities.iter().filter(|(_, support)| support.is_yes());
        format!(
            "yes, with {} of {} capabilities",
            has.count(),
            capabilities.len()
        )
    };
    let mut table = Table::new("backend", backends.iter().map(|(name, _)| *name));
    let cells = backends
        .iter()
        .map(|(_, capabilities)| Some(Cell::from(here(capabilities))));
    table.add(Column::words("runs here"), cells);
    table
}

fn host(offer: &Offer, is_verbose: bool) -> Vec<(String, String)> {
    let host = &offer.host;
    let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
    let smt = match host.smt {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let counter = match &offer.clock {
        Ok((hz, true)) => format!("{:.3} MHz, invariant", hz / 1e6),
        Ok((hz, false)) => format!("{:.3} MHz, not guaranteed to be invariant", hz / 1e6),
        Err(error) => format!("unusable: {error}"),
    };
    let cpus = format!(
        "{}, this process may use {}",
        host.cpus,
        cpu_list::Display(&host.allowed_cpus)
    );
    let governor = or(
        &host.governor,
        "none: this kernel does not control the frequency",
    );
    // The report's JSON calls it `tsc` on each architecture.
    let counter_name = match cfg!(target_arch = "x86_64") {
        true => "TSC",
        false => "counter",
    };
    let mut facts = vec![
        ("kernel", format!("{} {}", host.kernel, host.arch)),
        ("CPU", host.cpu.clone()),
        ("CPUs", cpus),
        ("SMT", smt.to_owned()),
        ("governor", governor),
        ("hypervisor", or(&host.hypervisor, "none detected")),
        (counter_name, counter),
    ];
    if is_verbose {
        facts.insert(2, ("microcode", or(&host.microcode, "unknown")));
    } else {
        let names = |is_yes: bool| {
            let features = offer.features.iter();
            let features = features.filter(|(_, support)| support.is_yes() == is_yes);
            let names: Vec<&str> = features.map(|(name, _)| *name).collect();
            names.join(", ")
        };
        let vulnerable = host.mitigations.values();
        let vulnerable = vulnerable.filter(|state| state.starts_with("Vulnerable"));
        let mitigations = format!(
            "{} in use, {} vulnerable",
            plural(
                host.mitigations.len() - vulnerable.clone().count(),
                "mitigation"
            ),
            vulnerable.count()
        );
        facts.push(("mitigations", mitigations));
        facts.extend(
            [("usable", names(true)), ("not usable", names(false))]
                .into_iter()
                .filter(|(_, names)| !names.is_empty()),
        );
    }
    let facts = facts.into_iter();
    facts
        .map(|(label, text)| (label.to_owned(), text))
        .collect()
}

#[cfg(test)]
#[path = "view_test.rs"]
mod tests;
