//! Names the fault: joins what was open at the pause with what the guest did afterwards and what revived it.

use serde::{Deserialize, Serialize};

use crate::guest::{GuestFault, Help, Loss, Wait};
use crate::ring::{OpenRing, RingPlace};

/// Why a guest did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The driver notified the device, and the device never looked.
    KickLost,
    /// The device had taken a request, and never answered it.
    RequestForgotten,
    /// Either the kick or the request was lost: it is unknown whether the device had read the notification.
    KickOrRequestLost,
    /// The answer came without its interrupt.
    InterruptLost,
    /// The device's event index told the driver not to notify it, and the device did not look either.
    SuppressionStale,
    /// The guest halts, its VMM is idle, and not even the guest's timer wakes it.
    TimerLost,
    /// No request was open, and nothing revives the device.
    DeviceDead,
    /// The guest prints nothing, and its VMM uses the CPU.
    Spinning,
    /// The VMM did not answer a command in time after any restore.
    Unanswered,
    /// A notification was lost before the event.
    LostBefore,
    /// The VMM printed more than the sweep keeps.
    OutputCut,
    /// The device answered a request twice.
    AnsweredTwice,
    /// The device answered with wrong data.
    WrongAnswer,
    /// The VMM ended, or refused a command.
    VmmFailed,
    /// The CPU is emulated and the guest spins without output, or KVM reports an internal error.
    Emulator,
    /// A thread did not run for long; the answer came late, or not at all in some of the restores.
    Starvation,
}

impl Fault {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KickLost => "kick lost",
            Self::RequestForgotten => "in-flight request forgotten",
            Self::KickOrRequestLost => "kick lost or in-flight request forgotten",
            Self::InterruptLost => "interrupt lost",
            Self::SuppressionStale => "suppression stale",
            Self::TimerLost => "timer lost",
            Self::DeviceDead => "device dead",
            Self::Spinning => "guest spins",
            Self::Unanswered => "command not answered",
            Self::LostBefore => "lost before the event",
            Self::OutputCut => "output cut",
            Self::AnsweredTwice => "answered twice",
            Self::WrongAnswer => "wrong answer",
            Self::VmmFailed => "VMM failed",
            Self::Emulator => "emulator",
            Self::Starvation => "starvation",
        }
    }

    /// Whether the VMM may be to blame.
    pub const fn is_of_vmm(self) -> bool {
        !matches!(self, Self::Emulator | Self::Starvation)
    }
}

/// What was known at the pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// What was open.
    pub open: OpenRing,
    /// Whether the device had certainly taken an open request.
    pub taken: bool,
    /// Where the ring is, and whether it has event indexes.
    pub place: RingPlace,
    /// Whether EVENT_IDX was negotiated.
    pub event_idx: bool,
    /// Whether an eventfd was unread that is read while the VM runs, if that is known.
    pub unread: Option<bool>,
    /// Whether the VM that was saved went on after the event; `None` if it was not seen.
    pub source_went_on: Option<bool>,
    /// How the guest waits.
    pub wait: Wait,
    /// Whether an emulator runs the CPU, which may be why a guest spins.
    pub emulated: bool,
    /// Whether the VMs were restored from a snapshot: only then can a fault be tried again.
    pub restored: bool,
}

/// What the guest did after the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// The guest's traffic went on.
    WentOn,
    /// The guest found a fault itself.
    Found(GuestFault),
    /// The guest printed nothing; `ran` says whether its VMM used the CPU meanwhile.
    Silent {
        /// Whether the VMM used more than a tenth of the time.
        ran: bool,
    },
    /// The VMM ended or refused a command, with this message.
    Failed(String),
    /// The VMM did not answer a command in time, with this message.
    Late(String),
    /// The VMM printed more than is kept, so that the guest's output is incomplete.
    Cut,
}

/// How KVM's errors read in VMMs' messages: QEMU's, Cloud Hypervisor's and Firecracker's.
const KVM_ERRORS: [&str; 3] = [
    "KVM internal error",
    "InternalError",
    "KVM_EXIT_INTERNAL_ERROR",
];

/// Names the fault of one VM after an event; `None` if it went on. `repeats` says whether a VM did not go on in
/// each round of restores.
pub fn fault(paused: &Paused, behaviour: &Behaviour, repeats: bool) -> Option<Fault> {
    let loss = match behaviour {
        Behaviour::WentOn => return None,
        Behaviour::Found(GuestFault::LostBefore) => return Some(Fault::LostBefore),
        Behaviour::Found(GuestFault::AnsweredTwice) => return Some(Fault::AnsweredTwice),
        Behaviour::Found(GuestFault::WrongAnswer) => return Some(Fault::WrongAnswer),
        Behaviour::Silent { ran: true } if paused.emulated => return Some(Fault::Emulator),
        Behaviour::Silent { ran: true } => return Some(Fault::Spinning),
        // A polling guest would notice by itself, so its thread did not run.
        Behaviour::Silent { ran: false } => {
            return Some(match paused.wait {
                Wait::Poll => Fault::Starvation,
                Wait::Timer | Wait::Interrupt => Fault::TimerLost,
            });
        }
        Behaviour::Failed(message) => {
            let is_kvms = KVM_ERRORS.iter().any(|error| message.contains(error));
            return Some(if is_kvms {
                Fault::Emulator
            } else {
                Fault::VmmFailed
            });
        }
        Behaviour::Cut => return Some(Fault::OutputCut),
        Behaviour::Late(_) => return Some(Fault::Unanswered),
        Behaviour::Found(GuestFault::Lost(loss)) => loss,
    };
    Some(match (loss.help, paused.wait) {
        (Help::Look, Wait::Interrupt) | (Help::Interrupt, _) => Fault::InterruptLost,
        (Help::Look, Wait::Poll | Wait::Timer) => Fault::Starvation,
        (Help::Kick, _) if !loss.kicked && !is_current(paused, loss) => Fault::SuppressionStale,
        (Help::Kick, _) => match (paused.unread, paused.source_went_on) {
            _ if paused.taken => Fault::RequestForgotten,
            (Some(true), _) => Fault::KickLost,
            // The device had read the notification, and what it was to do then was in the process that was saved.
            (Some(false), Some(true)) => Fault::RequestForgotten,
            // It had read the notification, and did nothing.
            (_, Some(false)) => Fault::KickLost,
            (None, _) | (_, None) => Fault::KickOrRequestLost,
        },
        // The device's position is beyond the request, so a notification does not make it look at it again.
        (Help::Nothing, _) if repeats && paused.open.requests != 0 => Fault::RequestForgotten,
        (Help::Nothing, _) if repeats => Fault::DeviceDead,
        (Help::Nothing, _) => Fault::Starvation,
    })
}

/// Whether the device's event index fits its position when the guest missed the answer: then the device was notified of an
/// open request, or had taken them all, and owed a look at the later ones.
fn is_current(paused: &Paused, loss: &Loss) -> bool {
    let ring = loss.ring;
    let is_between = paused
        .place
        .is_between(ring.used, ring.avail_event, ring.available);
    paused.event_idx && is_between
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::PrintedRing;
    use crate::ring::SplitPlace;

    const PLACE: RingPlace = RingPlace::Split(SplitPlace {
        size: 8,
        available: 0,
        used: 0,
        seen: 0,
    });

    fn paused(wait: Wait) -> Paused {
        Paused {
            open: OpenRing {
                requests: 1,
                answers: 0,
                suppressed: false,
            },
            taken: false,
            place: PLACE,
            event_idx: true,
            unread: Some(false),
            source_went_on: Some(true),
            wait,
            emulated: true,
            restored: true,
        }
    }

    fn lost(help: Help, kicked: bool) -> Behaviour {
        let ring = PrintedRing::ONE_OPEN;
        Behaviour::Found(GuestFault::Lost(Loss {
            operation: 1,
            kicked,
            interrupts: 0,
            ring,
            help,
        }))
    }

    #[test]
    fn what_a_further_notification_revives_is_named_by_where_the_first_one_was() {
        use Fault::{KickLost, KickOrRequestLost, RequestForgotten};
        for (taken, unread, source_went_on, expected) in [
            (true, Some(true), Some(true), RequestForgotten),
            (true, None, None, RequestForgotten),
            (false, Some(true), Some(true), KickLost),
            (false, Some(true), Some(false), KickLost),
            (false, Some(false), Some(true), RequestForgotten),
            (false, Some(false), Some(false), KickLost),
            (false, None, Some(false), KickLost),
            (false, None, Some(true), KickOrRequestLost),
            (false, Some(false), None, KickOrRequestLost),
        ] {
            let paused = Paused {
                taken,
                unread,
                source_went_on,
                ..paused(Wait::Timer)
            };
            let named = fault(&paused, &lost(Help::Kick, true), true);
            assert_eq!(named, Some(expected), "{paused:?}");
        }
    }

    #[test]
    fn a_device_that_knows_of_an_open_request_did_not_suppress_the_next_one() {
        for (avail_event, event_idx, expected) in [
            (0, true, Fault::SuppressionStale),
            (1, true, Fault::RequestForgotten),
            (2, true, Fault::RequestForgotten),
            (3, true, Fault::SuppressionStale),
            (1, false, Fault::SuppressionStale),
        ] {
            let paused = Paused {
                event_idx,
                ..paused(Wait::Timer)
            };
            let Behaviour::Found(GuestFault::Lost(mut loss)) = lost(Help::Kick, false) else {
                panic!("a loss");
            };
            loss.ring.avail_event = avail_event;
            let lost = Behaviour::Found(GuestFault::Lost(loss));
            let named = fault(&paused, &lost, true);
            assert_eq!(named, Some(expected), "{avail_event} {event_idx}");
        }
    }

    #[test]
    fn every_other_fault_has_its_evidence() {
        use Fault::{
            AnsweredTwice, Emulator, InterruptLost, RequestForgotten, Starvation, SuppressionStale,
            TimerLost, Unanswered, VmmFailed, WrongAnswer,
        };
        use Wait::{Interrupt, Poll, Timer};
        let failed = |message: &str| Behaviour::Failed(message.to_owned());
        let silent = |ran| Behaviour::Silent { ran };
        let found = Behaviour::Found;
        let stale = || match lost(Help::Kick, false) {
            Behaviour::Found(GuestFault::Lost(mut loss)) => {
                loss.ring.avail_event = 0;
                found(GuestFault::Lost(loss))
            }
            other => other,
        };
        for (wait, behaviour, repeats, expected) in [
            (Timer, Behaviour::WentOn, true, None),
            (
                Timer,
                lost(Help::Nothing, true),
                true,
                Some(RequestForgotten),
            ),
            (Timer, lost(Help::Nothing, true), false, Some(Starvation)),
            (Interrupt, lost(Help::Look, true), true, Some(InterruptLost)),
            (
                Interrupt,
                lost(Help::Interrupt, true),
                true,
                Some(InterruptLost),
            ),
            (Timer, lost(Help::Look, true), true, Some(Starvation)),
            (Poll, lost(Help::Look, true), true, Some(Starvation)),
            (Timer, stale(), true, Some(SuppressionStale)),
            (Timer, silent(false), true, Some(TimerLost)),
            (Poll, silent(false), true, Some(Starvation)),
            (Poll, silent(true), true, Some(Emulator)),
            (
                Timer,
                failed("KVM internal error. Suberror: 1"),
                true,
                Some(Emulator),
            ),
            (Timer, failed("cannot load state"), true, Some(VmmFailed)),
            (
                Timer,
                Behaviour::Late("no answer".to_owned()),
                true,
                Some(Unanswered),
            ),
            (
                Timer,
                found(GuestFault::AnsweredTwice),
                true,
                Some(AnsweredTwice),
            ),
            (
                Timer,
                found(GuestFault::WrongAnswer),
                true,
                Some(WrongAnswer),
            ),
        ] {
            let paused = paused(wait);
            let named = fault(&paused, &behaviour, repeats);
            assert_eq!(named, expected, "{paused:?} {behaviour:?} {repeats}");
        }
    }

    #[test]
    fn a_guest_that_spins_on_a_real_cpu_is_not_the_emulators() {
        for (emulated, expected) in [(true, Fault::Emulator), (false, Fault::Spinning)] {
            let paused = Paused {
                emulated,
                ..paused(Wait::Timer)
            };
            let spins = Behaviour::Silent { ran: true };
            assert_eq!(fault(&paused, &spins, true), Some(expected));
        }
    }

    #[test]
    fn a_device_that_is_dead_in_each_restore_is_not_starved() {
        let mut paused = paused(Wait::Interrupt);
        paused.open.requests = 0;
        for (repeats, expected) in [(true, Fault::DeviceDead), (false, Fault::Starvation)] {
            let named = fault(&paused, &lost(Help::Nothing, true), repeats);
            assert_eq!(named, Some(expected));
        }
    }

    #[test]
    fn only_the_emulator_and_starvation_are_not_the_vmms() {
        assert!(Fault::TimerLost.is_of_vmm() && Fault::VmmFailed.is_of_vmm());
        assert!(!Fault::Emulator.is_of_vmm() && !Fault::Starvation.is_of_vmm());
    }
}
