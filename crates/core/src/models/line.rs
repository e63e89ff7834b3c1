//! A resampled level-triggered line: one thread ends its interrupt while others drive or unmask it, in every
//! interleaving.
//!
//! Line, pin, message and local APIC are the real code; the device is a counter of acks.

use crate::ioapic::{EoiActions, Line, Pin, PinLine, RedirectionEntry, Source};
use crate::lapic::{Lapic, Message, Raise};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
use loom::thread;

use super::check;
use super::lapic;

const VECTOR: u8 = 0x41;
const ENTRY: RedirectionEntry = RedirectionEntry(1 << 15 | VECTOR as u64);

/// A resampled level-triggered line, its local APIC, and the number of acks to its device.
struct Resampled {
    pin: Pin,
    line: Line,
    lapic: Lapic,
    acks: AtomicU32,
}

impl Resampled {
    /// A line that the device holds up, with the line's interrupt in service.
    fn in_service() -> Arc<Self> {
        let all = Self {
            pin: Pin::default(),
            line: Line::default(),
            lapic: lapic(),
            acks: AtomicU32::new(0),
        };
        all.pin.program(ENTRY);
        all.pin.set_resamplefds(&[16]);
        all.assert();
        assert!(all.lapic.start_service(VECTOR));
        Arc::new(all)
    }

    fn pin_line(&self) -> PinLine<'_> {
        PinLine {
            pin: &self.pin,
            line: &self.line,
        }
    }

    fn deliver(&self, message: Message) -> bool {
        message.deliver(std::iter::once(&self.lapic), |_| {}) != Raise::Refused
    }

    /// Raises the line, as the device does.
    fn assert(&self) {
        let pin_line = self.pin_line();
        pin_line.drive(Source::Resample, true, |message| self.deliver(message));
    }

    /// Does the guest's EOI in the same way as the stub.
    fn end(&self) {
        let eoi = self.lapic.eoi().unwrap();
        assert_eq!(eoi.vector, VECTOR);
        self.pin_line().eoi(4, &mut ModelEoi(self));
    }

    /// Checks the interrupt: if the line is up, it is pending; if the line is down, the ack came after the device
    /// raised the line.
    fn check(&self) {
        let pending = self.lapic.irr.contains(VECTOR);
        assert_eq!(self.line.has_remote_irr(), pending);
        assert_eq!(self.line.is_up(), pending);
        assert_eq!(self.acks.load(SeqCst), 1);
    }
}

/// Does the EOI of the guest's interrupt while another thread runs `other`.
fn end_beside(all: &Arc<Resampled>, other: impl FnOnce(&Resampled) + 'static) {
    let theirs = Arc::clone(all);
    let other = thread::spawn(move || other(&theirs));
    all.end();
    other.join().unwrap();
}

struct ModelEoi<'r>(&'r Resampled);

impl EoiActions for ModelEoi<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.0.deliver(message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        for _ in pin.resamplefds() {
            let acks = &self.0.acks;
            acks.fetch_add(1, SeqCst);
        }
    }

    fn count(&mut self, _event: crate::event::Event) {}
}

#[test]
fn level_that_is_raised_during_its_eoi_is_pending_or_its_device_is_acked() {
    check(|| {
        let all = Resampled::in_service();
        end_beside(&all, Resampled::assert);
        all.check();
    });
}

#[test]
fn level_of_a_device_that_answers_its_resamplefd_is_pending() {
    check(|| {
        let all = Resampled::in_service();
        end_beside(&all, |device| {
            while device.acks.load(SeqCst) == 0 {
                thread::yield_now();
            }
            device.assert();
        });
        all.check();
        assert!(all.line.is_up());
    });
}

/// The EOI takes the line down for the resampling irqfd while another device raises it: the interrupt is sent once
/// more.
#[test]
fn level_that_another_device_holds_is_sent_again_whoever_comes_first() {
    check(|| {
        let all = Resampled::in_service();
        end_beside(&all, |device| {
            let pin_line = device.pin_line();
            pin_line.drive(Source::User, true, |message| device.deliver(message));
        });
        assert!(all.line.is_up() && all.lapic.irr.contains(VECTOR));
        assert!(all.line.has_remote_irr());
    });
}

/// Another vCPU of the guest unmasks the pin while this vCPU does the EOI of the interrupt in service.
#[test]
fn level_that_is_unmasked_during_its_eoi_is_sent_once() {
    check(|| {
        let all = Resampled::in_service();
        all.pin_line().drive(Source::User, true, |_| unreachable!());
        all.pin.program(RedirectionEntry(ENTRY.0 | 1 << 16));
        end_beside(&all, |monitor| {
            monitor.pin.program(ENTRY);
            monitor
                .pin_line()
                .send_level(|message| monitor.deliver(message));
        });
        assert!(all.lapic.irr.contains(VECTOR) && all.line.has_remote_irr());
    });
}
