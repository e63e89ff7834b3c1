//! `vmbell gate`: measures VMMs in the deterministic lab and holds their exits and instructions to a budget.
//!
//! `budget` is the file, `check` finds its mistakes before a boot, `edit` writes figures into it, `boots` runs
//! the labs. The rule by which a row has grown, and the texts of the verdict, are `vmbell_report::gate`'s.

mod args;
mod boots;
mod budget;
mod check;
mod edit;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{IsTerminal, Write as _, stderr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(super) use self::args::GateArgs;
use self::boots::Boots;
use self::budget::{Budget, Vmm};
use super::exit::{Exit, Usage};
use super::interrupt;
use super::output::print;
use crate::args::suggest::did_you_mean;
use crate::output::deliver::show;
use crate::output::style::Style;
use vmbell_bench::CommandLimit;
use vmbell_report::Export;
use vmbell_report::gate::{self, Measured, Place, Verdict};
use vmbell_report::units::plural;

/// The kernel of a new budget.
const KERNEL: &str = "debian:6.12";
/// The VMM of a new budget, which is always here.
const VMM: &str = "vmbell";
/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Runs `vmbell gate`.
pub(super) fn run(args: &GateArgs) -> Result<Exit> {
    let (mut budget, text) = match args.init {
        true => (planned(args)?, None),
        false => {
            let (budget, text) = Budget::read(&args.file).map_err(Usage::new)?;
            (budget, Some(text))
        }
    };
    if !args.init {
        override_vmms(&mut budget, args)?;
    }
    let kernels = kernels(&budget, args)?;
    check::check(&budget, &kernels, args).map_err(Usage::new)?;
    // What cannot be written is found before anything is measured.
    let file = match args.init || args.accept {
        true => Some(Export::open(&args.file)?),
        false => None,
    };
    let markdown = args.markdown.as_deref().map(append_to).transpose()?;
    if let Some(folder) = &args.keep {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    let limit = CommandLimit::new(None, interrupted);
    let boots = Boots {
        budget: &budget,
        kernels: &kernels,
        seed: args.seed,
        jobs: args.jobs.map_or_else(cpus, |jobs| jobs as usize),
        keep: args.keep.as_deref(),
        quiet: args.quiet,
        limit: &limit,
    };
    if let Some(exit) = boots.prepare()? {
        return Ok(exit);
    }
    let progress = progress(args.quiet);
    let measured = boots.measure(&progress);
    progress.finish_and_clear();
    let measured = match measured {
        Ok(Some(measured)) => measured,
        Ok(None) => return Ok(Exit::Interrupted),
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(Exit::Lab);
        }
    };
    match file {
        Some(file) => accept(args, &mut budget, (file, text), measured, markdown),
        None => hold(args, &budget.figures(&kernels), &measured, markdown),
    }
}

/// The budget that `--init` describes.
fn planned(args: &GateArgs) -> Result<Budget> {
    if args.file.exists() {
        let file = args.file.display();
        let message = format!(
            "{file} exists: `vmbell gate --accept` takes new figures, and --file names another file"
        );
        return Err(Usage::new(message).into());
    }
    let given = args.vmm.iter();
    let given = given.map(|(name, command)| (name.clone(), Vmm::default().with_command(command)));
    let mut vmms: BTreeMap<String, Vmm> = given.collect();
    for name in &args.names {
        vmms.entry(name.clone()).or_default();
    }
    if vmms.is_empty() {
        vmms.insert(VMM.to_owned(), Vmm::default());
    }
    let kernels = match args.kernel.as_slice() {
        [] => vec![KERNEL.to_owned()],
        kernels => kernels.to_vec(),
    };
    let mut budget = Budget::new(kernels, vmms, args.boots);
    budget.rows.clone_from(&args.rows);
    let virtio = args.virtio.iter();
    budget.virtio = virtio.map(|device| device.name().to_owned()).collect();
    budget.linux = args.linux;
    Ok(budget)
}

/// Takes the commands of `--vmm` for VMMs of the budget.
fn override_vmms(budget: &mut Budget, args: &GateArgs) -> Result<()> {
    for (name, command) in &args.vmm {
        let names: Vec<String> = budget.vmm.keys().cloned().collect();
        let Some(vmm) = budget.vmm.get_mut(name) else {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (file, hint) = (args.file.display(), did_you_mean(name, &names));
            let message = format!(
                "--vmm: {file} has no VMM '{name}'{hint}; it has {}",
                names.join(", ")
            );
            return Err(Usage::new(message).into());
        };
        *vmm = vmm.with_command(command);
    }
    Ok(())
}

/// The kernels to measure on.
fn kernels(budget: &Budget, args: &GateArgs) -> Result<Vec<String>> {
    let kernels = match args.init || args.kernel.is_empty() {
        true => &budget.kernels,
        false => &args.kernel,
    };
    let is_absent = |kernel: &&String| !budget.kernels.contains(kernel);
    if let Some(absent) = kernels.iter().find(is_absent) {
        let (file, held) = (args.file.display(), budget.kernels.join(", "));
        let message = format!("--kernel: {file} does not hold the kernel {absent}, only {held}");
        return Err(Usage::new(message).into());
    }
    // Its boots would run twice, and write each report twice at a time.
    let mut seen = BTreeSet::new();
    if let Some(twice) = kernels.iter().find(|kernel| !seen.insert(*kernel)) {
        return Err(Usage::new(format!("the kernel {twice} is named twice")).into());
    }
    Ok(kernels.clone())
}

/// Writes the budget with what was measured; a VMM that failed has none.
fn accept(
    args: &GateArgs,
    budget: &mut Budget,
    (file, text): (Export, Option<String>),
    measured: BTreeMap<Place, Measured>,
    markdown: Option<File>,
) -> Result<Exit> {
    let verdict = gate::judge(&budget.figures(&budget.kernels), &measured);
    let has_failed = !verdict.failed.is_empty();
    if has_failed || args.accept || args.json {
        report(args, &verdict, &measured, markdown)?;
    }
    if has_failed {
        return Ok(Exit::Failed);
    }
    let rows: usize = measured.values().map(|vmm| vmm.rows.len()).sum();
    budget.accept(measured);
    let text = text.unwrap_or_else(|| budget.plan());
    file.finish(&budget.text(&args.file, &text)?)?;
    let written = format!(
        "{} holds {}; `vmbell gate` measures them again\n",
        args.file.display(),
        plural(rows, "row")
    );
    match args.json {
        true => eprint!("{written}"),
        false => print(&written)?,
    }
    Ok(Exit::Good)
}

/// Shows what grew.
fn hold(
    args: &GateArgs,
    budget: &BTreeMap<Place, Measured>,
    measured: &BTreeMap<Place, Measured>,
    markdown: Option<File>,
) -> Result<Exit> {
    let verdict = gate::judge(budget, measured);
    report(args, &verdict, measured, markdown)?;
    Ok(match verdict.is_within() {
        true => Exit::Good,
        false => Exit::Failed,
    })
}

/// Prints the verdict as the arguments say, and appends it to the file of --markdown.
fn report(
    args: &GateArgs,
    verdict: &Verdict,
    measured: &BTreeMap<Place, Measured>,
    markdown: Option<File>,
) -> Result<()> {
    if args.json {
        print(&gate::json(verdict, measured))?;
    } else {
        show(Style::Auto, false, &gate::blocks(verdict))?;
    }
    if let Some(mut file) = markdown {
        let text = format!(
            "### vmbell gate\n\n{}",
            vmbell_report::markdown(&gate::blocks(verdict))
        );
        file.write_all(text.as_bytes())
            .context("cannot write the verdict to the file of --markdown")?;
    }
    Ok(())
}

/// Opens a file to which text is appended.
fn append_to(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn progress(quiet: bool) -> ProgressBar {
    let target = match !quiet && stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    let template = "Boot [{bar:30}] {pos}/{len}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(TICK);
    bar
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}
