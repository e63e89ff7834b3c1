//! Whether a VMM is at fault at one instant. It is at fault only if something was open, and each restore fails in the
//! same way.

use serde::{Deserialize, Serialize};

use crate::diagnosis::{Behaviour, Fault, Paused, fault};

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

/// The verdict on the VMs after an event, with the fault of the first one that did not go on.
pub fn verdict(paused: &Paused, behaviours: &[Behaviour]) -> (Verdict, Option<Fault>) {
    let waits_for_interrupt = paused.wait == crate::guest::Wait::Interrupt;
    let is_open = paused.open.is_open(waits_for_interrupt);
    let repeats = !behaviours.contains(&Behaviour::WentOn);
    let faults: Vec<Option<Fault>> = behaviours
        .iter()
        .map(|behaviour| fault(paused, behaviour, repeats))
        .collect();
    let first = faults.iter().flatten().next().copied();
    let is_same = faults.iter().all(|fault| *fault == first);
    let verdict = match first {
        None if is_open && !faults.is_empty() => Verdict::Kept,
        None => Verdict::Inconclusive,
        Some(Fault::Emulator) => Verdict::Emulator,
        Some(Fault::Starvation) => Verdict::Starvation,
        // A VMM that fails has lost its guest, whatever was open.
        Some(Fault::VmmFailed) if is_same => Verdict::Lost,
        Some(_) if is_same && is_open => Verdict::Lost,
        Some(_) => Verdict::Inconclusive,
    };
    (verdict, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::{GuestFault, Wait};
    use crate::ring::OpenRing;

    #[test]
    fn a_vmm_is_blamed_only_if_each_restore_fails_in_the_same_way() {
        let twice = || Behaviour::Found(GuestFault::AnsweredTwice);
        let wrong = || Behaviour::Found(GuestFault::WrongAnswer);
        let silent = || Behaviour::Silent { ran: true };
        let refused = || Behaviour::Failed("cannot load".to_owned());
        let idle = || Behaviour::Silent { ran: false };
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
                0,
                vec![refused(), refused()],
                (Verdict::Lost, Some(Fault::VmmFailed)),
            ),
        ] {
            let paused = Paused {
                open: OpenRing {
                    requests,
                    answers: 1,
                    suppressed: false,
                },
                taken: false,
                unread: None,
                source_went_on: None,
                wait: Wait::Poll,
            };
            assert_eq!(
                verdict(&paused, &behaviours),
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
            let paused = Paused {
                open: OpenRing {
                    requests: 0,
                    answers: 1,
                    suppressed: false,
                },
                taken: false,
                unread: None,
                source_went_on: None,
                wait,
            };
            assert_eq!(verdict(&paused, &[Behaviour::WentOn]).0, expected);
        }
    }
}
