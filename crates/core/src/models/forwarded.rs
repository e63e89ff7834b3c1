//! A forwarded line whose vCPU takes and ends an interrupt while another thread raises the line again or stops
//! forwarding it, in every interleaving.
//!
//! Line, pin, local APIC, mode word and PV EOI are the real code; a signal is a counter.

use crate::ioapic::{EoiActions, Line, Pin, PinLine, RedirectionEntry};
use crate::lapic::{Lapic, Message, Raise};
use crate::pv_eoi::{Completion, GuestByte, PvEoi};
use crate::vcpu_mode::{Notification, VcpuMode};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::SeqCst;
use loom::thread;

use super::check;
use super::lapic;

const VECTOR: u8 = 0x41;

/// The guest's PV EOI byte.
struct Byte(AtomicU32);

impl GuestByte for Byte {
    fn read(&self, _: u64) -> Option<u8> {
        Some((self.0.load(SeqCst) & 0xff) as u8)
    }

    fn write(&self, _: u64, value: u8) -> bool {
        self.0.store(value.into(), SeqCst);
        true
    }
}

/// A forwarded line and the vCPU that takes its interrupts.
struct Forwarded {
    pin: Pin,
    line: Line,
    lapic: Lapic,
    mode: VcpuMode,
    pv_eoi: PvEoi,
    byte: Byte,
    signals: AtomicU32,
}

impl Forwarded {
    /// Makes a line that has been raised: its interrupt is pending, and the vCPU is outside the guest.
    fn raised() -> Arc<Self> {
        let all = Self {
            pin: Pin::default(),
            line: Line::default(),
            lapic: lapic(),
            mode: VcpuMode::default(),
            pv_eoi: PvEoi::default(),
            byte: Byte(AtomicU32::new(0)),
            signals: AtomicU32::new(0),
        };
        all.pin
            .program(RedirectionEntry(1 << 15 | u64::from(VECTOR)));
        all.pin.set_forwarded(true);
        all.pv_eoi.write_msr(0x3001, |_| true).unwrap();
        all.raise();
        Arc::new(all)
    }

    fn pin_line(&self) -> PinLine<'_> {
        let (pin, line) = (&self.pin, &self.line);
        PinLine { pin, line }
    }

    fn notify(&self) {
        if self.mode.claim_notification() == Notification::Signal {
            self.signals.fetch_add(1, SeqCst);
        }
    }

    fn deliver(&self, message: Message) -> bool {
        message.deliver(std::iter::once(&self.lapic), |_| self.notify()) != Raise::Refused
    }

    /// Raises the line, as its owner does.
    fn raise(&self) {
        self.pin_line().raise(|message| self.deliver(message));
        self.end_deferral();
    }

    /// Stops forwarding the line, as its owner does.
    fn unforward(&self) {
        self.pin.set_forwarded(false);
        self.end_deferral();
    }

    fn end_deferral(&self) {
        if self.pin_line().needs_exit() {
            self.notify();
        }
    }

    fn has_ended(&self) -> bool {
        let read = |address| self.byte.read(address);
        self.pin_line()
            .has_ended(|vector| self.pv_eoi.is_ended(vector, read))
    }

    /// Makes the vCPU enter the guest and begin the handler.
    fn take(&self) {
        self.mode.enter();
        assert!(self.lapic.start_service(VECTOR));
        if self.pin_line().begin_service() {
            self.pv_eoi.arm_forwarded(&self.lapic, &self.byte);
        }
    }

    fn leave(&self) {
        self.mode.leave();
        if let Completion::Completed(Some(_)) = self.pv_eoi.complete(&self.lapic, &self.byte) {
            self.pin_line().eoi(4, &mut ModelEoi(self));
        }
    }

    /// Ends the interrupt as the handler does: by the bit or by the register.
    fn end(&self) {
        if self.byte.0.swap(0, SeqCst) == 0 {
            self.leave();
            assert!(self.lapic.eoi().is_some());
            self.pin_line().eoi(4, &mut ModelEoi(self));
            self.mode.enter();
        }
    }

    /// Makes the vCPU leave the guest if a signal has arrived.
    fn take_signal(&self) {
        if self.signals.load(SeqCst) != 0 {
            self.mode.signal_arrived();
            self.leave();
        }
    }
}

struct ModelEoi<'f>(&'f Forwarded);

impl EoiActions for ModelEoi<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.0.deliver(message)
    }

    fn resample(&mut self, _number: u8, _pin: &Pin) {}

    fn count(&mut self, _event: crate::event::Event) {}
}

/// Makes the vCPU take and end an interrupt while another thread runs `other`.
fn served_beside(other: impl Fn(&Forwarded) + Send + Sync + Copy + 'static) -> Arc<Forwarded> {
    let all = Forwarded::raised();
    let theirs = Arc::clone(&all);
    let other = thread::spawn(move || other(&theirs));
    all.take();
    all.end();
    other.join().unwrap();
    all
}

#[test]
fn edge_that_comes_while_the_first_is_taken_and_ended_makes_the_vcpu_leave_and_is_pending() {
    check(|| {
        let all = served_beside(Forwarded::raise);
        all.take_signal();
        assert!(all.lapic.irr.contains(VECTOR));
        assert!(!all.lapic.is_in_service(VECTOR) && !all.has_ended());
    });
}

#[test]
fn owner_that_looks_sees_no_end_before_the_guest_has_made_one() {
    check(|| {
        let all = Forwarded::raised();
        let theirs = Arc::clone(&all);
        let looks = thread::spawn(move || theirs.has_ended());
        all.take();
        // An exit during the interrupt clears the bit, and that must not look like the guest's EOI.
        all.leave();
        assert!(!looks.join().unwrap());
        all.end();
        assert!(all.has_ended());
    });
}

#[test]
fn forwarding_that_is_taken_back_meanwhile_leaves_no_end_put_off() {
    check(|| {
        let all = served_beside(Forwarded::unforward);
        all.take_signal();
        assert!(!all.pv_eoi.is_pending());
        assert!(!all.line.has_remote_irr());
    });
}
