//! Makes variants from switches: each switch that is given with its opposite doubles their number.

use anyhow::Result;

use super::args::RingsArgs;
use crate::exit::Usage;
use vmbell_bench::workload::{Tokens, WorkloadOptions};

/// One variant of the work.
#[derive(Clone, Debug)]
pub(super) struct RingVariant {
    /// The switches in which the variant differs from the others; all switches if it is the only variant.
    pub(super) name: String,
    /// All switches of the variant.
    pub(super) switches: String,
    pub(super) options: WorkloadOptions,
}

/// A switch and its opposites, one of which each variant chooses.
struct Axis {
    /// In the order of reports. The others are compared with the first.
    choices: Vec<SwitchChoice>,
}

type SwitchChoice = (&'static str, fn(&mut WorkloadOptions));

impl Axis {
    /// The choices whose switches were given, or the default one.
    fn of(choices: &[(bool, SwitchChoice)], default: usize) -> Self {
        let given = choices.iter().filter(|(given, _)| *given);
        let mut choices_given: Vec<SwitchChoice> = given.map(|(_, choice)| *choice).collect();
        if choices_given.is_empty() {
            choices_given.extend(choices.get(default).map(|(_, choice)| *choice));
        }
        Self {
            choices: choices_given,
        }
    }
}

/// All variants that `args` asks for; fails if one of them is impossible. Without a number of buffers, each variant
/// gets virtio_test's.
pub(super) fn all(args: &RingsArgs) -> Result<Vec<RingVariant>> {
    let base = WorkloadOptions {
        batch: args.batch,
        reset: args.reset,
        ring_size: args.ring_size,
        bufs: args.bufs.unwrap_or(WorkloadOptions::default().bufs),
        pieces: args.pieces,
        threads: args.threads(),
        ..WorkloadOptions::default()
    };
    let bufs = base.bufs;
    if let Some(reset) = args.reset.filter(|reset| *reset > bufs) {
        let error = format!("--reset={reset} never comes: a run has {bufs} buffers (--bufs)");
        return Err(Usage::new(error).into());
    }
    let axes = axes(args);
    let mut variants = vec![(base, Vec::new())];
    for axis in &axes {
        variants = variants
            .into_iter()
            .flat_map(|(options, names)| {
                axis.choices.iter().map(move |(name, set)| {
                    let (mut options, mut names) = (options, names.clone());
                    set(&mut options);
                    names.push(*name);
                    (options, names)
                })
            })
            .collect();
    }
    let differs: Vec<bool> = axes.iter().map(|axis| axis.choices.len() > 1).collect();
    variants
        .into_iter()
        .map(|(options, names)| {
            check_size(&options)?;
            let switches = names.join(" ");
            options
                .check()
                .map_err(|error| Usage::new(format!("{switches}: {error}")))?;
            let told: Vec<&str> = names
                .iter()
                .zip(&differs)
                .filter_map(|(name, differs)| differs.then_some(*name))
                .collect();
            Ok(RingVariant {
                name: if told.is_empty() {
                    switches.clone()
                } else {
                    told.join(" ")
                },
                switches,
                options,
            })
        })
        .collect()
}

/// Checks the ring's size before the measurement; otherwise this error could come after minutes of measuring other
/// variants.
fn check_size(options: &WorkloadOptions) -> Result<()> {
    let size = options.ring_size;
    let possible = (1..=1 << 15).contains(&size) && (options.packed || size.is_power_of_two());
    if possible {
        return Ok(());
    }
    let wanted = if options.packed {
        "a packed ring takes 1 to 32768 descriptors"
    } else {
        "a split ring takes a power of two up to 32768 descriptors"
    };
    Err(Usage::new(format!("--ring-size {size}: {wanted}")).into())
}

fn axes(args: &RingsArgs) -> Vec<Axis> {
    let mut axes = vec![
        Axis::of(
            &[
                (args.split, ("--split", |options| options.packed = false)),
                (args.packed, ("--packed", |options| options.packed = true)),
            ],
            0,
        ),
        Axis::of(
            &[
                (
                    args.no_event_idx,
                    ("--no-event-idx", |o| o.event_idx = false),
                ),
                (args.event_idx, ("--event-idx", |o| o.event_idx = true)),
            ],
            1,
        ),
        Axis::of(
            &[
                (args.no_indirect, ("--no-indirect", |o| o.indirect = false)),
                (args.indirect, ("--indirect", |o| o.indirect = true)),
            ],
            1,
        ),
        Axis::of(
            &[
                (args.no_virtio_1, ("--no-virtio-1", |o| o.virtio_1 = false)),
                (args.virtio_1, ("--virtio-1", |o| o.virtio_1 = true)),
            ],
            1,
        ),
        Axis::of(
            &[
                (
                    args.no_delayed_interrupt,
                    ("--no-delayed-interrupt", |o| o.delayed_interrupt = false),
                ),
                (
                    args.delayed_interrupt,
                    ("--delayed-interrupt", |o| o.delayed_interrupt = true),
                ),
            ],
            0,
        ),
    ];
    let is_pair = axes.iter().any(|axis| axis.choices.len() > 1);
    let any = args.no_wrap_counters || args.wrap_counters || args.wide_tokens;
    // If the user gives neither both switches of a pair nor a way to poll, all ways to poll are compared. A delayed
    // interrupt is requested without a token, so it excludes them.
    let every = !is_pair && !any && !args.delayed_interrupt;
    axes.push(Axis::of(
        &[
            (
                args.no_wrap_counters || every,
                ("--no-wrap-counters", |o| o.tokens = Tokens::Plain),
            ),
            (
                args.wrap_counters || every,
                ("--wrap-counters", |o| o.tokens = Tokens::WrapCounters),
            ),
            (
                args.wide_tokens || every,
                ("--wide-tokens", |o| o.tokens = Tokens::Wide),
            ),
        ],
        0,
    ));
    axes
}

#[cfg(test)]
#[path = "variant_test.rs"]
mod tests;
