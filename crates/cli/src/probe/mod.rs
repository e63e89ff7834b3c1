//! `vmbell probe`: prints what this host offers.

mod devices;
mod features;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::features::{features, settings};
use super::advice::{self, Finding};
use super::backends::{BackendProbe, probe_backends};
use super::exit::Exit;
use super::output::print;
use vmbell_bench::{TickClock, host};
use vmbell_hypervisor::Support;
use vmbell_report::{Host, cpu_list, pad, width};

/// Show what this host offers: kernel, CPU, clock, backends, and what distorts measurements
///
/// The advice names each setting that distorts or slows measurements on this host: where it was read, how to change it, and
/// its cost if that can be measured in a third of a second. vmbell changes nothing.
#[derive(Args, Debug)]
pub(super) struct ProbeArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Show which devices can be assigned to a guest, all or the named ones: what prevents it, and the commands that mend it,
    /// which are not run
    #[arg(long, num_args = 0.., value_name = "DEVICE")]
    devices: Option<Vec<String>>,

    /// The folder with the host's sys, dev, proc and lib/modules
    #[arg(long, hide = true, requires = "devices")]
    root: Option<PathBuf>,
}

#[derive(Serialize)]
struct FeatureAnswer {
    supported: bool,
    reason: Option<String>,
}

impl From<&Support> for FeatureAnswer {
    fn from(support: &Support) -> Self {
        match support {
            Support::Yes => Self {
                supported: true,
                reason: None,
            },
            Support::No(reason) => Self {
                supported: false,
                reason: Some(reason.clone()),
            },
        }
    }
}

#[derive(Serialize)]
struct HostOffer {
    host: Host,
    tsc: Option<vmbell_report::Tsc>,
    features: BTreeMap<&'static str, FeatureAnswer>,
    settings: BTreeMap<&'static str, String>,
    backends: BTreeMap<&'static str, BTreeMap<&'static str, FeatureAnswer>>,
    advice: Vec<Finding>,
}

/// Prints the kernel, the CPU, the clock, and what each backend can do here.
pub(super) fn run(args: &ProbeArgs) -> Result<Exit> {
    let text = match &args.devices {
        Some(names) => devices::report(names, args.root.as_deref(), args.json)?,
        None if args.json => json()?,
        None => text(),
    };
    print(&text)?;
    Ok(Exit::Good)
}

/// A text of sections with aligned lines.
struct TextSections(String);

impl TextSections {
    fn section(&mut self, title: &str, lines: &[(String, String)]) {
        let widest = lines.iter().map(|(label, _)| width(label)).max();
        let widest = widest.unwrap_or_default();
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.0, "{title}");
        for (label, value) in lines {
            let _ = writeln!(self.0, "  {}  {value}", pad(label, widest));
        }
    }
}

fn text() -> String {
    let mut sections = TextSections(String::new());
    let host = host::probe();
    let clock = TickClock::calibrate();
    let backends = probe_backends();
    let advice = found(&host, clock.as_ref().ok(), &backends);
    sections.section("host", &host_lines(&host, &clock));
    if !host.mitigations.is_empty() {
        let lines: Vec<_> = host.mitigations.clone().into_iter().collect();
        sections.section("mitigations", &lines);
    }
    if !host.kvm_params.is_empty() {
        let lines: Vec<_> = host.kvm_params.clone().into_iter().collect();
        sections.section("kvm module", &lines);
    }
    let mut lines: Vec<(String, String)> = features()
        .iter()
        .map(|(name, support)| ((*name).to_owned(), support.to_string()))
        .collect();
    lines.extend(
        settings()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    sections.section("features", &lines);
    for (backend, capabilities) in backends {
        let lines: Vec<_> = capabilities
            .iter()
            .map(|(capability, support)| (capability.name().to_owned(), support.to_string()))
            .collect();
        sections.section(&format!("backend {backend}"), &lines);
    }
    sections.0.push('\n');
    sections.0.push_str(&advice::text(&advice));
    sections.0
}

/// What acts on the numbers here; takes a third of a second.
fn found(host: &Host, clock: Option<&TickClock>, backends: &[BackendProbe]) -> Vec<Finding> {
    let known = advice::KnownHost {
        host,
        invariant: clock.map(TickClock::is_invariant),
        backends,
    };
    advice::find(Path::new("/"), &known)
}

fn host_lines<E: Display>(host: &Host, clock: &Result<TickClock, E>) -> Vec<(String, String)> {
    let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
    let smt = match host.smt {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let tsc = match clock {
        Ok(clock) => format!(
            "{:.3} MHz, {}",
            clock.hz() / 1e6,
            if clock.is_invariant() {
                "invariant"
            } else {
                "NOT promised to be invariant"
            }
        ),
        Err(error) => format!("unusable: {error}"),
    };
    // The report's JSON calls it `tsc` on each architecture.
    let counter = if cfg!(target_arch = "x86_64") {
        "TSC"
    } else {
        "counter"
    };
    [
        ("kernel", format!("{} {}", host.kernel, host.arch)),
        ("CPU", host.cpu.clone()),
        ("microcode", or(&host.microcode, "unknown")),
        (
            "CPUs",
            format!(
                "{}, this process may use {}",
                host.cpus,
                cpu_list::Display(&host.allowed_cpus)
            ),
        ),
        ("SMT", smt.to_owned()),
        (
            "governor",
            or(&host.governor, "none: frequency is not up to this kernel"),
        ),
        ("hypervisor", or(&host.hypervisor, "none that shows itself")),
        (counter, tsc),
    ]
    .map(|(label, value)| (label.to_owned(), value))
    .into()
}

fn json() -> Result<String> {
    let host = host::probe();
    let clock = TickClock::calibrate().ok();
    let backends = probe_backends();
    let probe = HostOffer {
        advice: found(&host, clock.as_ref(), &backends),
        host,
        tsc: clock.map(|clock| vmbell_report::Tsc {
            hz: clock.hz(),
            invariant: clock.is_invariant(),
        }),
        features: features()
            .iter()
            .map(|(name, support)| (*name, support.into()))
            .collect(),
        settings: settings().into_iter().collect(),
        backends: backends
            .iter()
            .map(|(name, capabilities)| {
                let answers = capabilities
                    .iter()
                    .map(|(capability, support)| (capability.name(), support.into()))
                    .collect();
                (*name, answers)
            })
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&probe).context("cannot write this as JSON")?;
    text.push('\n');
    Ok(text)
}
