//! Whether a VMM is at fault at one instant. It is at fault only if something was open, and each restore fails in the
//! same way.

use serde::{Deserialize, Serialize};

use crate::diagnosis::{Behaviour, Fault, Paused, fault};
use crate::guest::{GuestFault, Help, Wait};

/// The result of one event at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A notification was lost, in the same way in each VM.
    Lost,
    /// Something was open, and all VMs went on.
    Kept,
    /// Nothing was open, or the restores of one snapshot disagree.
    Inconclusive,
    /// The emulated CPU under KVM failed.
    Emulator,
    /// A thread did not run for long.
    Starvation,
}

/// The verdict on the VMs after an event, with the fault of the first one that did not go on. A round has the VMs that
/// ran at the same time; each further round restores the same snapshot again.
pub fn verdict(paused: &Paused, rounds: &[Vec<Behaviour>]) -> (Verdict, Option<Fault>) {
    let is_open = paused.open.is_open(paused.wait == Wait::Interrupt);
    let has_failed = |round: &Vec<Behaviour>| round.iter().any(|vm| *vm != Behaviour::WentOn);
    let repeats = rounds.iter().all(has_failed);
    let named = |vm: &Behaviour| fault(paused, vm, repeats);
    let mut failed = rounds.iter().flatten();
    let Some((vm, first)) = failed.find_map(|vm| Some((vm, named(vm)?))) else {
        let is_kept = is_open && !rounds.is_empty();
        let verdict = if is_kept {
            Verdict::Kept
        } else {
            Verdict::Inconclusive
        };
        return (verdict, None);
    };
    let is_same = |round: &Vec<Behaviour>| round.iter().any(|vm| named(vm) == Some(first));
    let is_same = rounds.iter().all(is_same);
    let verdict = match first {
        Fault::Emulator => Verdict::Emulator,
        Fault::Starvation => Verdict::Starvation,
        // A thread that did not run looks the same once, but not each time.
        Fault::Unanswered if !is_same || rounds.len() == 1 => {
            return (Verdict::Starvation, Some(Fault::Starvation));
        }
        Fault::Unanswered | Fault::LostBefore | Fault::OutputCut => Verdict::Inconclusive,
        _ if !is_same || !paused.restored && needs_repetition(vm) => Verdict::Inconclusive,
        // A VMM that fails has lost its guest, whatever was open.
        Fault::VmmFailed => Verdict::Lost,
        _ if is_open => Verdict::Lost,
        _ => Verdict::Inconclusive,
    };
    (verdict, Some(first))
}

/// Whether a thread that did not run looks the same if it is seen once.
fn needs_repetition(vm: &Behaviour) -> bool {
    match vm {
        Behaviour::Silent { .. } => true,
        Behaviour::Found(GuestFault::Lost(loss)) => loss.help == Help::Nothing,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::{Loss, PrintedRing};
    use crate::ring::{OpenRing, RingPlace, SplitPlace};

    fn paused(wait: Wait, requests: u16, restored: bool) -> Paused {
        Paused {
            open: OpenRing {
                requests,
                answers: 1,
                suppressed: false,
            },
            taken: false,
            place: RingPlace::Split(SplitPlace {
                size: 8,
                available: 0,
                used: 0,
                seen: 0,
            }),
            event_idx: true,
            unread: None,
            source_went_on: None,
            wait,
            emulated: true,
            restored,
        }
    }

    #[test]
    fn a_vmm_is_blamed_only_if_each_restore_fails_in_the_same_way() {
        let twice = || Behaviour::Found(GuestFault::AnsweredTwice);
        let wrong = || Behaviour::Found(GuestFault::WrongAnswer);
        let silent = || Behaviour::Silent { ran: true };
        let refused = || Behaviour::Failed("cannot load".to_owned());
        let idle = || Behaviour::Silent { ran: false };
        let late = || Behaviour::Late("no end".to_owned());
        let before = || Behaviour::Found(GuestFault::LostBefore);
        let went = || Behaviour::WentOn;
        for (requests, behaviours, expected) in [
            (1, vec![went(), went()], (Verdict::Kept, None)),
            (0, vec![went(), went()], (Verdict::Inconclusive, None)),
            (1, vec![], (Verdict::Inconclusive, None)),
            (
                1,
                vec![twice(), twice()],
                (Verdict::Lost, Some(Fault::AnsweredTwice)),
            ),
            (
                0,
                vec![twice()],
                (Verdict::Inconclusive, Some(Fault::AnsweredTwice)),
            ),
            (
                1,
                vec![twice(), went()],
                (Verdict::Inconclusive, Some(Fault::AnsweredTwice)),
            ),
            (
                1,
                vec![twice(), wrong()],
                (Verdict::Inconclusive, Some(Fault::AnsweredTwice)),
            ),
            (
                1,
                vec![silent(), twice()],
                (Verdict::Emulator, Some(Fault::Emulator)),
            ),
            (
                1,
                vec![idle()],
                (Verdict::Starvation, Some(Fault::Starvation)),
            ),
            (
                1,
                vec![late()],
                (Verdict::Starvation, Some(Fault::Starvation)),
            ),
            (
                1,
                vec![before(), before()],
                (Verdict::Inconclusive, Some(Fault::LostBefore)),
            ),
            (
                1,
                vec![Behaviour::Cut],
                (Verdict::Inconclusive, Some(Fault::OutputCut)),
            ),
            (
                1,
                vec![late(), went()],
                (Verdict::Starvation, Some(Fault::Starvation)),
            ),
            (
                1,
                vec![late(), late()],
                (Verdict::Inconclusive, Some(Fault::Unanswered)),
            ),
            (
                0,
                vec![refused(), refused()],
                (Verdict::Lost, Some(Fault::VmmFailed)),
            ),
        ] {
            let rounds: Vec<Vec<Behaviour>> =
                behaviours.iter().map(|vm| vec![vm.clone()]).collect();
            assert_eq!(
                verdict(&paused(Wait::Poll, requests, true), &rounds),
                expected,
                "{requests} {behaviours:?}"
            );
        }
    }

    #[test]
    fn an_answer_is_open_only_for_a_guest_that_waits_for_its_interrupt() {
        for (wait, expected) in [
            (Wait::Interrupt, Verdict::Kept),
            (Wait::Timer, Verdict::Inconclusive),
            (Wait::Poll, Verdict::Inconclusive),
        ] {
            let rounds = [vec![Behaviour::WentOn]];
            assert_eq!(verdict(&paused(wait, 0, true), &rounds).0, expected);
        }
    }

    #[test]
    fn a_clone_that_fails_in_each_round_is_a_loss_although_the_other_goes_on() {
        let (went, twice) = (
            Behaviour::WentOn,
            Behaviour::Found(GuestFault::AnsweredTwice),
        );
        let round = |vms: [&Behaviour; 2]| vms.map(Behaviour::clone).to_vec();
        for (rounds, expected) in [
            (
                [round([&went, &twice]), round([&twice, &went])],
                Verdict::Lost,
            ),
            (
                [round([&went, &twice]), round([&went, &went])],
                Verdict::Inconclusive,
            ),
        ] {
            let paused = paused(Wait::Timer, 1, true);
            assert_eq!(verdict(&paused, &rounds).0, expected, "{rounds:?}");
        }
    }

    #[test]
    fn what_a_thread_that_does_not_run_may_cause_is_no_loss_if_it_is_seen_once() {
        let ring = PrintedRing::ONE_OPEN;
        let lost = |help| {
            Behaviour::Found(GuestFault::Lost(Loss {
                operation: 1,
                kicked: true,
                interrupts: 0,
                ring,
                help,
            }))
        };
        for (vm, pause) in [
            (Behaviour::Silent { ran: false }, Verdict::Inconclusive),
            (lost(Help::Nothing), Verdict::Inconclusive),
            (lost(Help::Kick), Verdict::Lost),
        ] {
            let rounds = [vec![vm]];
            let of = |restored| verdict(&paused(Wait::Timer, 1, restored), &rounds).0;
            assert_eq!((of(false), of(true)), (pause, Verdict::Lost), "{rounds:?}");
        }
    }
}
