//! `vmbell bench rings`: a fixed amount of work through a virtqueue within this process, with the options of Linux's
//! `virtio_test`.
//!
//! [`workload`](vmbell_bench::workload) does the work; this module makes entries of the bench from its variants.

mod args;
mod variant;

use std::time::Duration;

use anyhow::Result;

pub(crate) use args::{RingsArgs, VARIANTS};

use super::measured::{BegunBench, exit};
use super::supervise::supervise;
use crate::args::exports::Exports;
use crate::exit::{Exit, Usage};
use crate::output::deliver::deliver;
use crate::output::progress::BenchProgress;
use variant::RingVariant;
use vmbell_bench::perf::{self, PerfEvent};
use vmbell_bench::workload::{Batch, Threads, entry};
use vmbell_bench::{BenchEntry, BenchPlan, Record, Remarks, SubjectOptions};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::{Backend, Kind, Look, Timing, Work, cpu_list};

/// How long a run of the slowest variant should take by default.
const RUN: Duration = Duration::from_millis(500);
/// The minimum number of buffers in a run by default.
const FEWEST: u64 = 4096;
/// The minimum number of buffers in emulated time, where two threads that wait for each other may take 8 ms per buffer.
const FEWEST_EMULATED: u64 = 64;

/// Measures the variants and prints the report.
pub(crate) fn run(args: &RingsArgs) -> Result<Exit> {
    let variants = variant::all(args)?;
    let cpus = args.measure.cpus()?;
    check_cpus(args, &cpus)?;
    let exports = Exports::open(&args.measure.exports)?;
    let begun = BegunBench::now()?;
    let delivery = args.measure.delivery(&begun, Look::default())?;
    let options = SubjectOptions {
        cpus,
        spin: SpinPolicy::Sleep,
        clock: begun.clock,
        limit: args.measure.limit()?,
        timing: begun.timing,
        marks: None,
    };
    let plan = plan(args, &variants, begun.timing);
    let entries = entries(&variants);
    let progress = BenchProgress::new(args.measure.progress(), plan.warmup + plan.runs);
    let mut record = supervise(entries, options.clone(), plan, progress)?;
    record.keep_whole_rounds();
    let work = work(&variants, &record);
    let backend = Backend {
        name: "host".to_owned(),
        why: "no guest takes part".to_owned(),
        emulates_kernel_mode: false,
    };
    // CPU time and instructions of both sides depend less on the host's load than the elapsed time.
    let compared = [PerfEvent::TaskClock, PerfEvent::Instructions].map(PerfEvent::name);
    let report = begun.report(
        &record,
        (&options, &plan),
        vec![backend],
        Kind::Rings { work },
        &compared,
    );
    deliver(&report, exports, delivery, Vec::new())?;
    Ok(exit(&report))
}

/// Fails if the arguments ask for a variant that is not possible.
pub(crate) fn check(args: &RingsArgs) -> Result<()> {
    variant::all(args).map(drop)
}

/// Fails if `--cpu` names more CPUs than there are threads. The driver takes the first, the device the second if there
/// is one.
fn check_cpus(args: &RingsArgs, cpus: &[usize]) -> Result<()> {
    let most = match args.threads() {
        Threads::One => 1,
        Threads::Two => 2,
    };
    if args.measure.cpu.is_some() && cpus.len() > most {
        let cpus = cpu_list::Display(cpus);
        let error = format!("--cpu: {cpus} names more CPUs than the run has threads ({most})");
        return Err(Usage::new(error).into());
    }
    Ok(())
}

/// The plan. A discarded round warms up. It also finds how many buffers a run needs, unless the user gave a number.
fn plan(args: &RingsArgs, variants: &[RingVariant], timing: Timing) -> BenchPlan {
    let bufs = variants.iter().map(|variant| variant.options.bufs);
    let most = bufs.min().unwrap_or_default();
    let (min_time, fewest) = match timing {
        Timing::Native => (RUN, FEWEST),
        Timing::Emulated | Timing::Instructions => (BenchPlan::COUNTED_RUN, FEWEST_EMULATED),
    };
    // A run must reach the first reset.
    let least = args.reset.unwrap_or_default().max(fewest).min(most);
    BenchPlan {
        runs: args.runs,
        warmup: 1,
        min_time,
        ops: args.bufs,
        most_time: None,
        same_ops: Some((least, most)),
        events: true,
        budget: None,
        seed: args.measure.seed(timing),
    }
}

/// One entry for each variant. The others are compared with the first.
fn entries(variants: &[RingVariant]) -> Vec<BenchEntry> {
    let reference = variants.first().map(|first| first.name.as_str());
    let of = |variant: &RingVariant| {
        let (name, switches) = (&variant.name, &variant.switches);
        let remarks = Remarks {
            parameters: [("switches".to_owned(), switches.clone())].into(),
            ..Remarks::default()
        };
        let entry = entry(name, switches, variant.options).with_remarks(remarks);
        match reference.filter(|reference| reference != name) {
            Some(reference) => entry.with_reference(reference),
            None => entry,
        }
    };
    variants.iter().map(of).collect()
}

/// The work that all variants do, for the report.
fn work(variants: &[RingVariant], record: &Record) -> Work {
    let text = variants.first().zip(record.series.first());
    Work {
        text: text.map_or_else(String::new, |(variant, series)| {
            describe(variant, series.ops_per_run(), &series.setting.cpus)
        }),
        operation: "buffer".to_owned(),
        source: perf::SOURCE.to_owned(),
        events: record.events.clone(),
    }
}

fn describe(variant: &RingVariant, bufs: u64, cpus: &[usize]) -> String {
    let options = &variant.options;
    let batch = match options.batch {
        Batch::Fixed(batch) => format!("batch {batch}"),
        Batch::Random => "random batches".to_owned(),
    };
    let pieces = match options.pieces {
        1 => String::new(),
        pieces => format!(" of {pieces} pieces"),
    };
    let reset = match options.reset {
        Some(reset) => format!(", a reset every {reset}"),
        None => String::new(),
    };
    let place = match cpus {
        [driver, device] => format!("driver on CPU {driver}, device on CPU {device}"),
        cpus => {
            let cpu = cpu_list::Display(cpus);
            format!("both sides on one thread, CPU {cpu}")
        }
    };
    let descriptors = options.ring_size;
    format!("{bufs} buffers{pieces} a run, {batch}{reset}; {descriptors} descriptors; {place}")
}
