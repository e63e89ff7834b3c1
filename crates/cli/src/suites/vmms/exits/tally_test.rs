use proptest::prelude::*;

use super::*;
use crate::suites::kvm_trace::EventTally as _;
use vmbell_report::Reasons;

fn tally<'e>(
    events: impl IntoIterator<Item = (u32, KvmEventKind<'e>)>,
) -> Result<MarkedTally, TraceError> {
    let mut tally = MarkedTally::default();
    for (sequence, (thread, what)) in (1..).zip(events) {
        tally.add(KvmEvent {
            thread,
            sequence,
            what,
        })?;
    }
    Ok(tally)
}

fn one(events: &[KvmEventKind<'_>]) -> BTreeMap<u8, MarkedBatches> {
    let events = events.iter().map(|what| (7, *what));
    tally(events).unwrap().finish()
}

fn reasons(counts: &[(&str, u64)]) -> Reasons {
    let counts = counts.iter();
    counts
        .map(|(reason, count)| ((*reason).to_owned(), *count))
        .collect()
}

/// The events of a write to the port of marks.
fn mark(value: u64) -> [KvmEventKind<'static>; 3] {
    [
        KvmEventKind::Exit("io"),
        KvmEventKind::Mark(value),
        KvmEventKind::Userspace("KVM_EXIT_IO"),
    ]
}

#[test]
fn the_exits_of_the_marks_themselves_are_left_out() {
    let batch = [
        KvmEventKind::Exit("cpuid"),
        KvmEventKind::Exit("io"),
        KvmEventKind::Userspace("KVM_EXIT_IO"),
        KvmEventKind::Exit("cpuid"),
    ];
    let marked = one(&[&mark(5)[..], &batch, &mark(0), &[KvmEventKind::Exit("hlt")]].concat());
    let wanted = ReasonsOfRun {
        exits: reasons(&[("cpuid", 2), ("io", 1)]),
        userspace: reasons(&[("KVM_EXIT_IO", 1)]),
    };
    assert_eq!(marked[&5].batches, [wanted]);
    assert_eq!(marked[&5].spoilt, None);
}

#[test]
fn a_mark_that_does_not_go_to_the_vmm_costs_no_batch_an_exit() {
    // If the port is answered below the VMM, there is no return to leave out.
    let batch = [
        KvmEventKind::Exit("io"),
        KvmEventKind::Userspace("KVM_EXIT_IO"),
    ];
    let events = [&mark(5)[..2], &batch, &mark(0)[..2]].concat();
    let marked = one(&events);
    assert_eq!(marked[&5].batches[0].exits, reasons(&[("io", 1)]));
    assert_eq!(
        marked[&5].batches[0].userspace,
        reasons(&[("KVM_EXIT_IO", 1)])
    );
}

#[test]
fn other_threads_are_not_counted() {
    let mut events: Vec<(u32, KvmEventKind<'_>)> = Vec::new();
    for what in [&mark(5)[..], &[KvmEventKind::Exit("cpuid")], &mark(0)].concat() {
        events.push((7, what));
        events.push((8, KvmEventKind::Exit("hlt")));
    }
    let marked = tally(events).unwrap().finish();
    assert_eq!(marked[&5].batches[0].exits, reasons(&[("cpuid", 1)]));
}

#[test]
fn a_batch_within_another_spoils_the_outer_one() {
    let marked = one(&[mark(5), mark(6), mark(0), mark(0)].concat());
    assert!(marked[&5].spoilt.is_some() && marked[&5].batches.is_empty());
    assert_eq!(marked[&6].batches, [ReasonsOfRun::default()]);
}

#[test]
fn a_mark_of_no_row_ends_no_batch() {
    for odd in [256, u64::MAX] {
        let marked = one(&[mark(5), mark(odd), mark(0)].concat());
        assert!(marked[&5].spoilt.is_some() && marked[&5].batches.is_empty());
        assert_eq!(marked.len(), 1);
    }
}

#[test]
fn a_batch_without_end_spoils_its_row() {
    let marked = one(&[mark(5), mark(0), mark(5)].concat());
    assert_eq!(marked[&5].batches.len(), 1);
    assert!(marked[&5].spoilt.is_some());
}

#[test]
fn an_end_without_beginning_is_nothing() {
    assert!(one(&[mark(0), mark(0)].concat()).is_empty());
}

#[test]
fn a_trace_out_of_order_is_refused() {
    let mut tally = MarkedTally::default();
    let event = |thread, sequence| KvmEvent {
        thread,
        sequence,
        what: KvmEventKind::Exit("io"),
    };
    tally.add(event(1, 5)).unwrap();
    tally.add(event(2, 3)).unwrap();
    assert!(matches!(
        tally.add(event(1, 5)),
        Err(TraceError::OutOfOrder)
    ));
}

#[test]
fn a_guest_cannot_fill_the_memory() {
    let marks = std::iter::repeat_n([mark(5), mark(0)].concat(), BATCHES + 1);
    let too_many = tally(marks.flatten().map(|what| (7, what)));
    assert!(matches!(too_many, Err(TraceError::TooMany { .. })));
    let threads = (0..)
        .take(THREADS + 1)
        .map(|thread| (thread, KvmEventKind::Exit("io")));
    assert!(matches!(tally(threads), Err(TraceError::TooMany { .. })));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Exit,
    Userspace,
    Mark(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Exit),
        Just(Step::Userspace),
        (0..4_u8).prop_map(Step::Mark),
        (0..2_u8).prop_map(Step::Mark),
    ];
    proptest::collection::vec(step, 0..200)
}

/// The exits and returns of every complete batch, found by searching back from each end.
fn model(steps: &[Step]) -> Vec<(u8, u64, u64)> {
    let marks: Vec<(usize, u8)> = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match step {
            Step::Mark(mark) => Some((at, *mark)),
            _ => None,
        })
        .collect();
    let whole = marks
        .windows(2)
        .filter(|pair| pair[0].1 != 0 && pair[1].1 == 0);
    whole
        .map(|pair| {
            let inside = &steps[pair[0].0 + 1..pair[1].0];
            let of = |wanted: fn(&Step) -> bool| {
                inside.iter().filter(|step| wanted(step)).count() as u64
            };
            let exits = of(|step| matches!(step, Step::Exit));
            (pair[0].1, exits, of(|step| matches!(step, Step::Userspace)))
        })
        .collect()
}

proptest! {
    /// Each step is a round of the vCPU: an exit, and also a return to the VMM if the step says so.
    #[test]
    fn whole_batches_are_counted_as_in_a_model(steps in steps()) {
        let mut events = Vec::new();
        for step in &steps {
            match step {
                Step::Exit => events.push(KvmEventKind::Exit("cpuid")),
                Step::Userspace => events.extend([KvmEventKind::Exit("io"), KvmEventKind::Userspace("KVM_EXIT_IO")]),
                Step::Mark(value) => events.extend(mark(u64::from(*value))),
            }
        }
        let marked = one(&events);
        let mut expected: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
        for (value, exits, userspace) in model(&steps) {
            // Each return to the VMM follows an exit.
            expected.entry(value).or_default().push((exits + userspace, userspace));
        }
        let sum = |reasons: &Reasons| reasons.values().sum::<u64>();
        for (value, marked) in &marked {
            let counted: Vec<_> = marked.batches.iter().map(|b| (sum(&b.exits), sum(&b.userspace))).collect();
            prop_assert_eq!(counted, expected.get(value).cloned().unwrap_or_default());
        }
        prop_assert!(expected.keys().all(|value| marked.contains_key(value)));
    }
}
