//! `vmbell virtqueue`: fixed work through a virtqueue of this process, in the options of Linux's
//! `virtio_test` and with the output of `perf stat --repeat`.
//!
//! [`workload`](vmbell_bench::workload) does the work; here variants of it take turns, so that
//! off and on are measured on the same host.

mod args;
mod json;
mod measure;
mod ratio;
mod text;
mod variant;

use anyhow::{Context as _, Result};

pub(super) use args::VirtqueueArgs;

use super::cpus;
use super::exit::{Exit, Usage};
use super::interrupt;
use super::output::print;
use super::progress::Progress;
use super::seed;
use measure::{Session, Where};
use vmbell_bench::affinity::Pinned;
use vmbell_bench::workload::Threads;
use vmbell_report::cpu_list;

/// Measures and prints.
pub(super) fn run(args: &VirtqueueArgs) -> Result<Exit> {
    let variants = variant::all(args)?;
    let cpus = cpus::choose(args.cpu.as_ref())?;
    let place = place(args, &cpus)?;
    let interrupted = interrupt::catch().context("cannot catch SIGINT")?;
    let _pinned = Pinned::to(place.driver)?;
    let mut session = Session {
        variants,
        chosen: args.bufs.is_some(),
        place,
        repeat: args.repeat,
        seed: u64::from(args.seed.unwrap_or_else(seed::fresh)),
        interrupted,
    };
    let results = session.measure(&mut Progress::new(!args.quiet))?;
    let text = if args.json {
        json::text(&session, &results)?
    } else {
        text::text(&session, &results)
    };
    print(&text)?;
    Ok(if results.interrupted {
        Exit::Interrupted
    } else {
        Exit::Good
    })
}

/// The driver takes the first CPU, the device the second where there is one.
fn place(args: &VirtqueueArgs, cpus: &[usize]) -> Result<Where> {
    let most = match args.threads() {
        Threads::One => 1,
        Threads::Two => 2,
    };
    if args.cpu.is_some() && cpus.len() > most {
        let cpus = cpu_list::Display(cpus);
        let error = format!("--cpu: {cpus} is more than the {most} that the run has threads");
        return Err(Usage::new(error).into());
    }
    let driver = *cpus.first().context("no CPU is allowed")?;
    Ok(Where {
        driver,
        device: match args.threads() {
            Threads::One => None,
            Threads::Two => Some(cpus.get(1).copied().unwrap_or(driver)),
        },
    })
}
