//! `vmbell probe`: prints what this host offers.

mod devices;
mod features;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::features::{features, settings};
use super::advice::{self, Finding};
use super::backends::{BackendProbe, probe_backends};
use super::exit::Exit;
use super::output::print;
use crate::args::exports::{BlockExportArgs, BlockExports};
use crate::output::deliver::show;
use crate::output::style::Style;
use vmbell_bench::{TickClock, host};
use vmbell_hypervisor::Support;
use vmbell_report::Host;

/// Show what this host offers: kernel, CPU, clock, backends, and what distorts measurements
///
/// The advice names each setting that distorts or slows measurements on this host: where it was read, how to change it,
/// and its cost if that can be measured in a third of a second. vmbell changes nothing.
#[derive(Args, Debug)]
pub(super) struct ProbeArgs {
    /// Print JSON
    #[arg(long, conflicts_with_all = EXPORTS)]
    json: bool,

    /// Show everything: mitigations, KVM's parameters, each capability of each backend, and all advice with its effects
    #[arg(short, long, conflicts_with_all = ["json", "devices"])]
    verbose: bool,

    /// Show which devices (all, or the named ones) can be assigned to a guest. For the others, print what prevents it
    /// and the commands that would fix it, without running them
    #[arg(long, num_args = 0.., value_name = "DEVICE", conflicts_with_all = EXPORTS)]
    devices: Option<Vec<String>>,

    /// The folder with the host's sys, dev, proc and lib/modules
    #[arg(long, hide = true, requires = "devices")]
    root: Option<PathBuf>,

    #[command(flatten)]
    exports: BlockExportArgs,
}

/// Options that are not for `--json` or `--devices`.
const EXPORTS: [&str; 2] = ["export_markdown", "export_html"];

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
        None => return shown(args),
    };
    print(&text)?;
    Ok(Exit::Good)
}

/// Shows the host, and writes the exports.
fn shown(args: &ProbeArgs) -> Result<Exit> {
    let exports = BlockExports::open(&args.exports)?;
    let host = host::probe();
    let clock = TickClock::calibrate();
    let backends = probe_backends();
    let offer = view::Offer {
        advice: found(&host, clock.as_ref().ok(), &backends),
        clock: match &clock {
            Ok(clock) => Ok((clock.hz(), clock.is_invariant())),
            Err(error) => Err(error.to_string()),
        },
        features: features(),
        settings: settings(),
        host,
        backends,
    };
    let blocks = view::blocks(&offer, args.verbose);
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish("What this host offers", &blocks);
    show(Style::Auto, stdout_is_taken, &blocks)?;
    exported?;
    Ok(Exit::Good)
}

/// What distorts or slows measurements here. Takes a third of a second.
fn found(host: &Host, clock: Option<&TickClock>, backends: &[BackendProbe]) -> Vec<Finding> {
    let known = advice::KnownHost {
        host,
        invariant: clock.map(TickClock::is_invariant),
        backends,
    };
    advice::find(Path::new("/"), &known)
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
