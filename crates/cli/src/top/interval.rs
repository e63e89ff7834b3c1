//! What the batch mode and the screen show of an interval.

use std::collections::BTreeMap;
use std::time::Duration;

use vmbell_report::units::plural;
use vmbell_top::costs::Costs;
use vmbell_top::model::Vm;
use vmbell_top::process;
use vmbell_top::reading::Reading;
use vmbell_top::sources::Sources;

/// What happened in an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct TopInterval {
    pub(super) vms: Vec<Vm>,
    pub(super) seconds: f64,
    /// The sources in use.
    pub(super) sources: Vec<&'static str>,
    /// What is missing, and why.
    pub(super) notes: Vec<String>,
    /// Events that were not counted; `None` without BPF programs.
    pub(super) lost: Option<u64>,
    /// What operations cost on this host, if known.
    pub(super) costs: Option<Costs>,
    /// This process's CPU time as a share of one core.
    pub(super) own_cores: f64,
    /// The names of the threads that first signalled irqfds.
    pub(super) threads: BTreeMap<u32, String>,
}

impl TopInterval {
    /// The interval of a reading. `own` is this process's CPU time in it.
    pub(super) fn new(sources: &Sources, reading: &Reading, own: Duration) -> Self {
        let mut names = Vec::new();
        names.extend(sources.bpf().is_ok().then_some("bpf"));
        names.extend(sources.counters().is_ok().then_some("counters"));
        let vms = sources.vms(reading);
        let irqfds = vms.iter().flat_map(|vm| &vm.irqfds);
        let name = |thread| {
            let name = process::name_of_thread("/proc".as_ref(), thread)?;
            Some((thread, name))
        };
        let threads = irqfds.filter_map(|irqfd| irqfd.first_signaller);
        let seconds = reading.interval.as_secs_f64();
        Self {
            threads: threads.filter_map(name).collect(),
            vms,
            seconds,
            sources: names,
            notes: notes(sources, reading),
            lost: reading.bpf.as_ref().map(|bpf| bpf.lost),
            costs: None,
            own_cores: match seconds > 0.0 {
                true => own.as_secs_f64() / seconds,
                false => 0.0,
            },
        }
    }
}

/// What is missing, and why, one line each.
fn notes(sources: &Sources, reading: &Reading) -> Vec<String> {
    let missing = |(source, reasons): (&'static str, Vec<String>)| {
        reasons
            .into_iter()
            .map(move |reason| format!("no {source}{reason}"))
    };
    let bpf = match sources.bpf() {
        Ok(_) => "",
        Err(_) => "bpf: ",
    };
    let bpf = missing((bpf, sources.missing_of_bpf()));
    let mut notes: Vec<String> = bpf
        .chain(missing(("counters: ", sources.missing_of_counters())))
        .collect();
    if reading.unreadable > 0 {
        notes.push(format!(
            "{} processes cannot be looked at: it takes root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
            reading.unreadable
        ));
    }
    notes.extend(
        sources
            .missing_of_samples()
            .map(|reason| format!("no samples: {reason}")),
    );
    if let Some(samples) = &reading.samples {
        let count: u64 = samples.counts.values().sum();
        if count > 0 {
            notes.push(format!(
                "sampled: {count} looks at vCPUs; ~ is the share of them that found a vCPU in its VMM"
            ));
        }
        if samples.refused > 0 {
            notes.push(format!(
                "no samples of {} processes: it takes CAP_SYS_PTRACE",
                samples.refused
            ));
        }
    }
    if let Some(bpf) = reading.bpf.as_ref().filter(|bpf| bpf.lost > 0) {
        notes.push(format!(
            "{} lost, so counts are too low",
            plural(bpf.lost, "event")
        ));
    }
    notes
}
