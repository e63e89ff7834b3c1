use proptest::prelude::*;

use super::*;
use crate::diagnosis::{Behaviour, Paused};
use crate::guest::{GuestFault, PrintedRing};
use crate::merge::{MergeError, merge};
use crate::ring::{RingPlace, SplitPlace};
use crate::verdict::verdict;

fn traffic(wait: Wait) -> Traffic {
    Traffic {
        device: Device::Blk,
        wait,
        event_idx: true,
        packed: false,
        in_flight: 1,
        limited: true,
    }
}

fn result(number: u32, requests: u16, verdict: Verdict, fault: Option<Fault>) -> InstantResult {
    InstantResult {
        instant: Instant::new(number, 1, 1000),
        open: OpenRing {
            requests,
            answers: 0,
            suppressed: false,
        },
        ring: None,
        unread: Vec::new(),
        verdict,
        fault,
        loss: None,
        message: None,
    }
}

fn report(events: Vec<(Event, Vec<InstantResult>)>) -> SweepReport {
    let event = |(event, instants)| EventResults {
        traffic: traffic(Wait::Timer),
        event,
        has_none: None,
        instants,
    };
    let mut report = SweepReport {
        schema_version: SCHEMA_VERSION,
        seed: 1,
        instants: 8,
        window: Window::Limiter,
        again: 2,
        given: Vec::new(),
        repeats: true,
        edit: None,
        shard: None,
        vmms: vec![SweptVmm {
            name: "a".to_owned(),
            version: None,
            accelerator: "kvm".to_owned(),
            skipped: None,
            failed: None,
            events: events.into_iter().map(event).collect(),
        }],
    };
    report.vmms[0].excuse();
    report
}

fn shard(report: &SweepReport, index: u32, count: u32) -> SweepReport {
    let mut part = report.clone();
    let shard = Shard { index, count };
    part.shard = Some(shard);
    for event in &mut part.vmms[0].events {
        event
            .instants
            .retain(|result| shard.has(result.instant.number));
    }
    part
}

#[test]
fn a_sweep_without_an_open_ring_is_inconclusive() {
    let closed = || vec![result(0, 0, Verdict::Inconclusive, None)];
    let kept = || vec![result(0, 1, Verdict::Kept, None)];
    let lost = || vec![result(0, 1, Verdict::Lost, Some(Fault::KickLost))];
    let shown = |events| report(events).shown();
    assert_eq!(shown(vec![(Event::Pause, closed())]), Shown::Inconclusive);
    assert_eq!(shown(vec![]), Shown::Inconclusive);
    assert_eq!(shown(vec![(Event::Pause, kept())]), Shown::NothingLost);
    let mixed = vec![(Event::Pause, kept()), (Event::Restore, closed())];
    assert_eq!(shown(mixed), Shown::Inconclusive);
    let lost = vec![(Event::Pause, closed()), (Event::Restore, lost())];
    assert_eq!(shown(lost), Shown::Lost);
}

#[test]
fn a_guest_that_hangs_without_a_known_reason_is_neither_kept_nor_lost() {
    let hangs = |number| result(number, 1, Verdict::Inconclusive, Some(Fault::KickLost));
    let instants = vec![result(0, 1, Verdict::Kept, None), hangs(1), hangs(2)];
    let report = report(vec![(Event::Restore, instants)]);
    let counts = report.vmms[0].events[0].counts();
    assert_eq!((counts.open(), counts.unexplained), (1, 2));
    assert_eq!(report.shown(), Shown::Inconclusive);
}

#[test]
fn an_event_in_which_only_the_emulator_failed_shows_nothing() {
    let spins = vec![result(0, 1, Verdict::Emulator, Some(Fault::Emulator))];
    assert_eq!(
        report(vec![(Event::Pause, spins)]).shown(),
        Shown::Inconclusive
    );
}

#[test]
fn a_vmm_that_fails_without_an_event_has_failed() {
    let failed = vec![result(0, 0, Verdict::Inconclusive, Some(Fault::VmmFailed))];
    let kept = vec![result(0, 1, Verdict::Kept, None)];
    let report = report(vec![(Event::Control, failed), (Event::Pause, kept)]);
    assert_eq!(report.shown(), Shown::Lost);
}

#[test]
fn the_control_group_shows_nothing_about_the_vmm() {
    let lost = vec![result(0, 0, Verdict::Lost, Some(Fault::KickLost))];
    let kept = vec![result(0, 1, Verdict::Kept, None)];
    let report = report(vec![(Event::Control, lost), (Event::Pause, kept)]);
    assert_eq!(report.shown(), Shown::NothingLost);
}

#[test]
fn a_fault_that_the_control_group_has_too_is_not_blamed() {
    let of = |verdict, fault| vec![result(0, 1, verdict, Some(fault))];
    let lost = |fault| of(Verdict::Lost, fault);
    let starved = || of(Verdict::Starvation, Fault::Starvation);
    for (control, event, shown, lost_and_unexplained) in [
        (
            lost(Fault::KickLost),
            lost(Fault::KickLost),
            Shown::Inconclusive,
            (0, 1),
        ),
        (
            lost(Fault::TimerLost),
            lost(Fault::KickLost),
            Shown::Lost,
            (1, 0),
        ),
        (starved(), starved(), Shown::Inconclusive, (0, 0)),
    ] {
        let report = report(vec![(Event::Control, control), (Event::Restore, event)]);
        let counts = report.vmms[0].events[1].counts();
        assert_eq!((counts.lost, counts.unexplained), lost_and_unexplained);
        assert_eq!(report.shown(), shown);
        let control = report.vmms[0].events[0].counts();
        assert_eq!(control.unexplained, 0, "the control group is its own");
    }
}

#[test]
fn a_loss_is_known_in_the_control_group_by_what_helped() {
    let lost = |help| {
        let ring = PrintedRing::ONE_OPEN;
        Loss {
            operation: 1,
            kicked: true,
            interrupts: 0,
            ring,
            help,
        }
    };
    // What the sweep knows at a pause, and in the control group.
    let named = |help, paused: bool| {
        let place = SplitPlace {
            size: 8,
            available: 0,
            used: 0,
            seen: 0,
        };
        let open = OpenRing {
            requests: u16::from(paused),
            ..OpenRing::default()
        };
        let paused = Paused {
            open,
            taken: paused,
            place: RingPlace::Split(place),
            event_idx: true,
            unread: paused.then_some(false),
            source_went_on: paused.then_some(true),
            wait: Wait::Timer,
            emulated: true,
            restored: paused,
        };
        let behaviour = Behaviour::Found(GuestFault::Lost(lost(help)));
        let (verdict, fault) = verdict(&paused, &[vec![behaviour]]);
        InstantResult {
            loss: Some(lost(help)),
            ..result(0, open.requests, verdict, fault)
        }
    };
    for (control, event, shown) in [
        (Help::Kick, Help::Kick, Shown::Inconclusive),
        (Help::Nothing, Help::Nothing, Shown::Inconclusive),
        (Help::Look, Help::Kick, Shown::Lost),
        (Help::Kick, Help::Nothing, Shown::Lost),
    ] {
        let [control, event] = [named(control, false), named(event, true)];
        assert_eq!(event.fault, Some(Fault::RequestForgotten));
        assert_ne!(control.fault, event.fault);
        let report = report(vec![
            (Event::Control, vec![control]),
            (Event::Restore, vec![event]),
        ]);
        assert_eq!(report.shown(), shown, "{report:?}");
    }
}

#[test]
fn the_json_has_the_verdict_that_counts() {
    let lost = |number| result(number, 1, Verdict::Lost, Some(Fault::TimerLost));
    let kept = |number| result(number, 1, Verdict::Kept, None);
    let events = vec![
        (Event::Control, vec![kept(0), lost(1)]),
        (Event::Restore, vec![lost(0), kept(1)]),
    ];
    let mut whole = report(events);
    whole.instants = 2;
    let verdicts = |report: &SweepReport| {
        let instants = report.vmms[0].events[1].instants.iter();
        instants.map(|result| result.verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&whole), [Verdict::Inconclusive, Verdict::Kept]);
    // The shard with the loss does not have the control group's.
    whole.vmms[0].events[1].instants[0].verdict = Verdict::Lost;
    let merged = merge(&[shard(&whole, 1, 2), shard(&whole, 2, 2)]).unwrap();
    assert_eq!(verdicts(&merged), [Verdict::Inconclusive, Verdict::Kept]);
}

#[test]
fn a_vmm_without_the_events_is_no_obstacle_to_the_others() {
    let kept = vec![result(0, 1, Verdict::Kept, None)];
    let mut of = report(vec![(Event::Pause, kept)]);
    let mut other = report(vec![(Event::Pause, vec![])]);
    other.vmms[0].events[0].has_none = Some("no network card".to_owned());
    assert_eq!(other.vmms[0].shown(), Shown::Inconclusive);
    assert_eq!(other.shown(), Shown::Inconclusive);
    of.vmms.append(&mut other.vmms);
    assert_eq!(of.shown(), Shown::NothingLost);
}

#[test]
fn a_command_that_no_restore_answers_is_not_excused_by_other_instants() {
    let late = result(0, 1, Verdict::Inconclusive, Some(Fault::Unanswered));
    let kept = result(1, 1, Verdict::Kept, None);
    let report = report(vec![(Event::Restore, vec![late, kept])]);
    assert_eq!(report.shown(), Shown::Inconclusive);
}

#[test]
fn a_vmm_that_failed_in_some_shards_is_merged() {
    let kept = |number| result(number, 1, Verdict::Kept, None);
    let events = || {
        vec![
            (Event::Pause, vec![kept(0), kept(1), kept(2)]),
            (Event::Restore, vec![]),
        ]
    };
    let mut whole = report(events());
    whole.instants = 3;
    let parts = || [1, 2, 3].map(|index| shard(&whole, index, 3));
    for failed in [vec![0, 1, 2], vec![2], vec![0, 1]] {
        let mut parts = parts();
        for index in &failed {
            parts[*index].vmms[0].failed = Some(format!("in shard {index}"));
            parts[*index].vmms[0].events.truncate(1);
        }
        let merged = merge(&parts).unwrap();
        let vmm = &merged.vmms[0];
        assert_eq!(vmm.failed, Some(format!("in shard {}", failed[0])));
        assert_eq!(vmm.events[0].instants.len(), 3);
        assert_eq!(vmm.events.len() == 2, failed.len() < 3);
        assert_eq!(merged.shown(), Shown::Lost);
        parts.reverse();
        assert_eq!(merge(&parts).unwrap(), merged);
    }
    assert!(matches!(
        merge(&parts()),
        Err(MergeError::Incomplete { .. })
    ));
}

#[test]
fn an_event_that_a_vmm_does_not_have_is_no_obstacle() {
    let kept = vec![result(0, 1, Verdict::Kept, None)];
    let mut report = report(vec![(Event::Pause, kept), (Event::Restore, vec![])]);
    assert_eq!(report.shown(), Shown::Inconclusive);
    report.vmms[0].events[1].has_none = Some("no snapshots".to_owned());
    assert_eq!(report.shown(), Shown::NothingLost);
    report.vmms[0].failed = Some("not started".to_owned());
    assert_eq!(report.shown(), Shown::Lost);
    report.vmms[0].skipped = Some("not found".to_owned());
    assert_eq!(report.shown(), Shown::Skipped);
}

#[test]
fn counts_are_by_verdict_and_fault() {
    let instants = vec![
        result(0, 1, Verdict::Lost, Some(Fault::KickLost)),
        result(1, 1, Verdict::Lost, Some(Fault::KickLost)),
        result(2, 0, Verdict::Lost, Some(Fault::VmmFailed)),
        result(3, 1, Verdict::Kept, None),
        result(4, 0, Verdict::Inconclusive, None),
        result(5, 1, Verdict::Emulator, Some(Fault::Emulator)),
        result(6, 1, Verdict::Starvation, Some(Fault::Starvation)),
    ];
    let report = report(vec![(Event::Pause, instants)]);
    let counts = report.vmms[0].events[0].counts();
    assert_eq!((counts.instants, counts.open(), counts.lost), (7, 4, 3));
    assert_eq!((counts.emulator, counts.starvation), (1, 1));
    assert_eq!(
        counts.faults,
        [(Fault::KickLost, 2), (Fault::VmmFailed, 1)].into()
    );
}

#[test]
fn parts_of_different_sweeps_are_refused() {
    let mut whole = report(vec![(
        Event::Pause,
        vec![result(0, 1, Verdict::Kept, None)],
    )]);
    whole.instants = 1;
    let [one, two] = [1, 2].map(|index| shard(&whole, index, 2));
    assert_eq!(merge(&[]), Err(MergeError::Empty));
    assert_eq!(
        merge(std::slice::from_ref(&whole)),
        Err(MergeError::Whole(1))
    );
    let found = |found| MergeError::Shards {
        index: 2,
        found,
        count: 2,
    };
    assert_eq!(merge(std::slice::from_ref(&one)), Err(found(0)));
    assert_eq!(
        merge(&[one.clone(), two.clone(), two.clone()]),
        Err(found(2))
    );
    let mut other = two.clone();
    other.seed = 2;
    assert_eq!(
        merge(&[one.clone(), other]),
        Err(MergeError::Differs(2, "the seed"))
    );
    let mut other = two.clone();
    other.again = 0;
    assert_eq!(
        merge(&[one.clone(), other]),
        Err(MergeError::Differs(2, "the number of restores"))
    );
    let mut short = [one.clone(), two.clone()];
    short.iter_mut().for_each(|part| part.instants = 2);
    assert!(matches!(
        merge(&short),
        Err(MergeError::Incomplete { found: 1, .. })
    ));
    let mut other = two;
    other.vmms[0].name.push('b');
    let differs = MergeError::Differs(2, "the list of VMMs or events");
    assert_eq!(merge(&[one, other]), Err(differs));
}

proptest! {
    #[test]
    fn all_shards_merged_are_the_whole_sweep_to_the_byte(
        count in 1..6_u32, requests in prop::collection::vec(0..2_u16, 0..20), reverse: bool
    ) {
        let instants = || (0..).zip(&requests).map(|(number, requests)| {
            let verdict = if *requests == 0 { Verdict::Inconclusive } else { Verdict::Kept };
            result(number, *requests, verdict, None)
        }).collect();
        let mut whole = report(vec![(Event::Control, instants()), (Event::Restore, instants())]);
        whole.instants = u32::try_from(requests.len()).unwrap();
        let mut parts: Vec<SweepReport> = (1..=count).map(|index| shard(&whole, index, count)).collect();
        if reverse {
            parts.reverse();
        }
        let text = |report: &SweepReport| serde_json::to_string_pretty(report).unwrap();
        let parts: Vec<SweepReport> = parts.iter().map(|part| serde_json::from_str(&text(part)).unwrap()).collect();
        prop_assert_eq!(text(&merge(&parts).unwrap()), text(&whole));
    }
}
