//! What the probe image prints during a sweep (`crates/probe-image/README.md`): its rings' addresses once, the
//! number of each step of its traffic, and a report of each notification that did not come.
//!
//! The output passes through the VMM, which may add other lines, so nothing in it is trusted. Only complete lines
//! are read.

use serde::{Deserialize, Serialize};

use crate::ring::{PackedPlace, RingPlace, SplitPlace};

/// How the guest waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// The guest reads the used index in a loop.
    Poll,
    /// The guest halts, is woken by its own timer, and then reads the used index.
    Timer,
    /// The guest halts until the device interrupts.
    Interrupt,
}

impl Wait {
    /// The name, as in the guest's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Timer => "timer",
            Self::Interrupt => "interrupt",
        }
    }
}

/// A step by which the guest helps itself after a notification did not come, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Help {
    /// The guest looked again, and the answer was there.
    Look,
    /// The guest notified the device again, and the answer came.
    Kick,
    /// The guest asked for the interrupt again, and the interrupt came.
    Interrupt,
    /// Nothing helped.
    Nothing,
}

/// The guest's view of its ring when it noticed that nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedRing {
    /// The driver's index.
    pub available: u16,
    /// The device's index.
    pub used: u16,
    /// The number of answers taken, modulo 65536.
    pub seen: u16,
    /// The device's event index.
    pub avail_event: u16,
    /// The driver's event index.
    pub used_event: u16,
}

#[cfg(test)]
impl PrintedRing {
    /// One request of two is open.
    pub(crate) const ONE_OPEN: Self = Self {
        available: 2,
        used: 1,
        seen: 1,
        avail_event: 1,
        used_event: 1,
    };
}

/// A notification that did not come within the guest's own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The number of requests before this notification.
    pub operation: u64,
    /// Whether the driver notified the device of its last request.
    pub kicked: bool,
    /// The interrupts of the device since the wait began.
    pub interrupts: u64,
    /// The ring.
    pub ring: PrintedRing,
    /// The step that made the traffic go on.
    pub help: Help,
}

/// What went wrong in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestFault {
    /// A notification did not come.
    Lost(Loss),
    /// A notification did not come before the event: only the end of the guest's report of it was printed after that.
    LostBefore,
    /// The device answered a request that was not open.
    AnsweredTwice,
    /// The device answered with wrong data.
    WrongAnswer,
}

/// The guest's rings, which it prints before its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where the queue is.
    pub place: RingPlace,
    /// Whether EVENT_IDX was negotiated.
    pub event_idx: bool,
    /// The maximum number of requests in flight.
    pub in_flight: u16,
}

/// The guest's output, from some point on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The highest number of a step of its traffic; 0 without one.
    pub step: u64,
    /// A notification that did not come; the guest has not said yet what helped.
    pub losing: Option<Loss>,
    /// The first fault.
    pub fault: Option<GuestFault>,
    /// Why the guest has no traffic, although there is such a device.
    pub failed: Option<String>,
    /// Why the VMM does not have this traffic.
    pub none: Option<String>,
}

/// The steps, of `step` answers each, that a guest has to make after an instant before it is certain that no request of
/// then is missing. The guest submits nothing more once 2N answers have overtaken a request of N in flight, so that it
/// still gets 3N - 2 answers without that one. The first step may have been made before the instant.
pub fn steps_after(in_flight: u16, step: u32) -> u64 {
    (3 * u64::from(in_flight)).div_ceil(u64::from(step.max(1))) + 1
}

/// The maximum number of characters kept of the guest's reason.
const LONGEST_REASON: usize = 100;

/// Returns the guest's rings, once it has printed them.
pub fn ready(output: &[u8]) -> Option<Ready> {
    let text = String::from_utf8_lossy(output);
    lines(&text).find_map(|line| {
        let words = line.strip_prefix("sweep ready ")?;
        Some(Ready {
            place: place(words)?,
            event_idx: number(words, "event_idx")? != 0,
            in_flight: short(words, "in_flight")?,
        })
    })
}

fn place(words: &str) -> Option<RingPlace> {
    let size = short(words, "size")?;
    let [driver, device, seen] = ["driver", "device", "seen"].map(|name| number(words, name));
    let (driver, device, seen) = (driver?, device?, seen?);
    match word(words, "ring")? {
        "split" => Some(RingPlace::Split(SplitPlace {
            size,
            available: driver,
            used: device,
            seen,
        })),
        "packed" => Some(RingPlace::Packed(PackedPlace {
            size,
            chain: short(words, "chain")?,
            descriptors: number(words, "descriptors")?,
            driver,
            device,
            seen,
        })),
        _ => None,
    }
}

/// Reads what the guest printed. A missing notification is reported only once it is known which step made the traffic
/// go on.
pub fn said(output: &[u8]) -> Said {
    let text = String::from_utf8_lossy(output);
    let mut said = Said::default();
    for line in lines(&text) {
        let Some((what, words)) = line
            .strip_prefix("sweep ")
            .map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
        else {
            continue;
        };
        let fault = match what {
            "step" => {
                let step = words.parse().ok().filter(|step| is_next(said.step, *step));
                said.step = step.unwrap_or(said.step);
                None
            }
            "lost" => {
                said.losing = said.losing.or_else(|| loss(words));
                None
            }
            "revived" | "dead" => help(what, words).map(|help| match said.losing.take() {
                Some(loss) => GuestFault::Lost(Loss { help, ..loss }),
                None => GuestFault::LostBefore,
            }),
            "twice" => Some(GuestFault::AnsweredTwice),
            "wrong" => Some(GuestFault::WrongAnswer),
            "failed" => {
                said.failed = Some(reason(words));
                None
            }
            "none" => {
                said.none = Some(reason(words));
                None
            }
            _ => None,
        };
        said.fault = said.fault.or(fault);
    }
    said
}

/// The highest number of a step, and the most steps between two complete lines: no traffic makes as many.
const MAX_STEP: u64 = 1 << 40;
const MAX_STEPS: u64 = 1 << 20;

/// Whether a guest can have made this step after the last one, which is 0 if it is unknown.
fn is_next(last: u64, step: u64) -> bool {
    let most = if last == 0 {
        MAX_STEP
    } else {
        last + MAX_STEPS
    };
    step > last && step <= most
}

fn reason(words: &str) -> String {
    let visible = words.chars().filter(|c| !c.is_control());
    visible.take(LONGEST_REASON).collect()
}

fn help(what: &str, words: &str) -> Option<Help> {
    match (what, word(words, "by")) {
        ("dead", _) => Some(Help::Nothing),
        (_, Some("look")) => Some(Help::Look),
        (_, Some("kick")) => Some(Help::Kick),
        (_, Some("interrupt")) => Some(Help::Interrupt),
        _ => None,
    }
}

fn loss(words: &str) -> Option<Loss> {
    Some(Loss {
        operation: number(words, "op")?,
        kicked: number(words, "kicked")? != 0,
        interrupts: number(words, "interrupts")?,
        ring: PrintedRing {
            available: short(words, "available")?,
            used: short(words, "used")?,
            seen: short(words, "seen")?,
            avail_event: short(words, "avail_event")?,
            used_event: short(words, "used_event")?,
        },
        help: Help::Nothing,
    })
}

/// The complete lines. A serial port ends lines with `\n` or `\r\n`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::trim_end)
}

fn word<'a>(words: &'a str, name: &str) -> Option<&'a str> {
    words
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn number(words: &str, name: &str) -> Option<u64> {
    let text = word(words, name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn short(words: &str, name: &str) -> Option<u16> {
    number(words, name)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOST: &str = "sweep lost op=12 kicked=1 interrupts=3 available=13 used=12 seen=12 avail_event=13 used_event=12\r\n";

    #[test]
    fn the_rings_are_those_of_the_ready_line() {
        let line = "SeaBIOS\r\nsweep ready ring=split event_idx=1 in_flight=2 size=8 chain=1 descriptors=0x204000 driver=0x204080 device=0x205000 seen=0x206000\r\n";
        let found = ready(line.as_bytes()).unwrap();
        let expected = SplitPlace {
            size: 8,
            available: 0x20_4080,
            used: 0x20_5000,
            seen: 0x20_6000,
        };
        assert_eq!(found.place, RingPlace::Split(expected));
        assert!(found.event_idx && found.in_flight == 2);
        let packed = line.replace("split", "packed");
        let Some(RingPlace::Packed(place)) = ready(packed.as_bytes()).map(|ready| ready.place)
        else {
            panic!("{packed}");
        };
        assert_eq!(
            (place.chain, place.descriptors, place.driver),
            (1, 0x20_4000, 0x20_4080)
        );
        let cut = &line[..line.len() - 3];
        assert_eq!(ready(cut.as_bytes()), None);
    }

    #[test]
    fn a_loss_is_known_with_what_helped() {
        let said = |text: &str| super::said(text.as_bytes());
        assert_eq!(said(LOST).fault, None);
        for (line, expected) in [
            ("sweep revived by=look\n", Help::Look),
            ("sweep revived by=kick\n", Help::Kick),
            ("sweep revived by=interrupt\n", Help::Interrupt),
            ("sweep dead\n", Help::Nothing),
        ] {
            let said = said(&format!("{LOST}{line}sweep step 3\nsweep step 4"));
            let Some(GuestFault::Lost(loss)) = said.fault else {
                panic!("{line}: {said:?}");
            };
            assert_eq!(
                (loss.help, loss.operation, loss.interrupts),
                (expected, 12, 3)
            );
            assert_eq!((loss.ring.used, loss.ring.avail_event), (12, 13));
            assert_eq!((said.step, said.losing), (3, None));
        }
    }

    #[test]
    fn a_report_that_begins_before_the_output_is_of_a_loss_before() {
        for line in ["sweep revived by=kick\n", "sweep dead\n"] {
            for cut in [30, LOST.len() - 1, LOST.len()] {
                let text = format!("{}{line}sweep step 3\n", &LOST[cut..]);
                let fault = said(text.as_bytes()).fault;
                assert_eq!(fault, Some(GuestFault::LostBefore), "{text}");
            }
        }
    }

    #[test]
    fn a_loss_is_open_until_it_is_known_what_helped() {
        let said = said(LOST.as_bytes());
        assert_eq!(said.losing.map(|loss| loss.operation), Some(12));
    }

    #[test]
    fn a_vmms_own_output_is_no_step() {
        let log = "v1.2.3 started... sweep step 9\nsweep step x\n\nsweep step 2\r\n[info] step 7.\nsweep step 5";
        assert_eq!(said(log.as_bytes()).step, 2);
    }

    #[test]
    fn a_step_that_no_traffic_makes_is_not_counted() {
        let most = u64::MAX;
        for (text, expected) in [
            (format!("sweep step {most}\n"), 0),
            (format!("sweep step {most}\nsweep step 3\n"), 3),
            (format!("sweep step 3\nsweep step {}\n", 1_u64 << 39), 3),
            (
                format!("sweep step {}\nsweep step 9\n", 1_u64 << 39),
                1 << 39,
            ),
        ] {
            assert_eq!(said(text.as_bytes()).step, expected, "{text}");
        }
    }

    #[test]
    fn the_first_fault_counts() {
        let said = said(b"sweep twice id=3\nsweep wrong\n");
        assert_eq!(said.fault, Some(GuestFault::AnsweredTwice));
        let said = super::said(b"sweep failed it does not answer\nsweep none no such device\n");
        assert_eq!(said.failed.as_deref(), Some("it does not answer"));
        assert_eq!(said.none.as_deref(), Some("no such device"));
    }

    /// The answers after a request is lost, in the probe image's traffic: it fills all slots before each wait, unless a
    /// request was overtaken, and takes answers in batches.
    fn answers_without(in_flight: u16, batches: &[usize]) -> u64 {
        let most = 2 * u64::from(in_flight);
        let others = usize::from(in_flight) - 1;
        let (mut open, mut answers) = (others, 0);
        for batch in batches.iter().cycle() {
            if answers < most {
                open = others;
            }
            let taken = open.min(*batch);
            if taken == 0 {
                break;
            }
            open -= taken;
            answers += taken as u64;
        }
        answers
    }

    proptest! {
        #[test]
        fn no_guest_makes_the_steps_without_a_request(
            in_flight in 1..=8_u16, step in 1..40_u32, batches in prop::collection::vec(1..9_usize, 1..20), before in 0..40_u64
        ) {
            let step = u64::from(step);
            // At most one whole step was made and not read before the instant.
            let before = before.min(step);
            let made = (before + answers_without(in_flight, &batches)) / step;
            prop_assert!(made < steps_after(in_flight, u32::try_from(step).unwrap()));
        }

        #[test]
        fn any_output_is_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (ready(&bytes), said(&bytes));
        }

        #[test]
        fn any_words_are_read(text in "(sweep (ready|step|lost|revived|dead|twice|failed|none)( (op|size|device|driver|by|seen|ring)=(0x)?[0-9a-z]{0,20}){0,8}\n){0,4}") {
            let _ = (ready(text.as_bytes()), said(text.as_bytes()));
        }
    }
}
