//! A whole irqchip with two vCPUs but without a guest. Tests drive it from both sides: as devices and irqfds do, and by
//! the loads, stores and EOIs of a guest.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use vmbell::eventfd::EventId;
use vmbell::irq::{Gsi, IrqError, Route, Target};
use vmbell::sync::Mutex;
use vmbell_core::event::{Event, EventCounts};
use vmbell_core::ioapic::{EoiActions, Lines, Pin, PinLine, Pins, Source, begin_service, eoi_pins};
use vmbell_core::lapic::{Lapic, Message};
use vmbell_core::vcpu_mode::Notification;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::apics::Apics;
use super::super::controller::{Controller, ControllerState};
use super::super::irqfd::{Irqfd, Resampler};
use super::lapic;

pub const IOREGSEL: u64 = 0;
pub const IOWIN: u64 = 0x10;
pub const LEVEL: u32 = 1 << 15;
pub const MASKED: u32 = 1 << 16;
pub const REMOTE_IRR: u32 = 1 << 14;

/// The local APICs of two vCPUs, the pins and lines, and the vCPUs that were notified.
pub struct Parts {
    pub lapics: Vec<Lapic>,
    pins: Box<Pins>,
    lines: Box<Lines>,
    events: EventCounts,
    pub woken: Rc<RefCell<Vec<usize>>>,
    notify: Box<dyn Fn(usize) -> Notification>,
}

impl Parts {
    fn new() -> Self {
        let woken: Rc<RefCell<Vec<usize>>> = Rc::default();
        let here = Rc::clone(&woken);
        let notify = move |vcpu| {
            here.borrow_mut().push(vcpu);
            Notification::None
        };
        Self {
            lapics: vec![lapic(0), lapic(1)],
            pins: Box::default(),
            lines: Box::default(),
            events: EventCounts::default(),
            woken,
            notify: Box::new(notify),
        }
    }

    fn apics(&self) -> Apics<'_> {
        Apics::new(
            &self.lapics,
            &self.pins,
            &self.lines,
            &self.events,
            &self.notify,
        )
    }
}

/// A resamplefd, and how often it was signalled.
#[derive(Clone, Debug)]
pub struct Counter {
    count: Rc<Cell<u32>>,
    resampler: Arc<Resampler>,
}

impl Counter {
    pub fn get(&self) -> u32 {
        self.count.get()
    }

    fn signal(&self) {
        self.count.set(self.count.get() + 1);
    }
}

pub fn resampler(descriptor: u32) -> Arc<Resampler> {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    Arc::new(Resampler::new(event, descriptor))
}

/// The controllers and the local APICs of their two vCPUs.
pub struct Chip {
    state: Mutex<ControllerState>,
    pub parts: Parts,
    /// The resamplefds, by the descriptors that they would have in the sandbox.
    counters: Vec<Counter>,
}

/// The stub's side of an EOI.
struct StubEoi<'c>(&'c Chip);

impl EoiActions for StubEoi<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.0.parts.apics().deliver(message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        for descriptor in pin.resamplefds() {
            self.0.acked(descriptor);
        }
    }

    fn count(&mut self, _event: Event) {}
}

pub fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

pub fn event(number: u64) -> EventId {
    EventId::from_raw(number)
}

impl Chip {
    fn new(make: impl FnOnce(&Apics<'_>) -> ControllerState) -> Self {
        let parts = Parts::new();
        Self {
            state: Mutex::new(make(&parts.apics())),
            parts,
            counters: Vec::new(),
        }
    }

    pub fn full() -> Self {
        Self::new(ControllerState::full)
    }

    pub fn split() -> Self {
        Self::new(|_| ControllerState::split())
    }

    /// Locks the controller.
    pub fn controller(&self) -> Controller<'_> {
        Controller::new(self.state.lock(), self.parts.apics())
    }

    /// Counts a signal of the resamplefd with this descriptor.
    fn acked(&self, descriptor: u32) {
        let mut counters = self.counters.iter();
        let counter = counters.find(|counter| counter.resampler.descriptor() == descriptor);
        counter.unwrap().signal();
    }

    fn all_acked(&self, resamplers: &[Arc<Resampler>]) {
        resamplers
            .iter()
            .for_each(|one| self.acked(one.descriptor()));
    }

    /// Stores to the I/O APIC, as the guest.
    pub fn store(&mut self, offset: u64, value: u32) {
        let acked = self.controller().write_ioapic(offset, value);
        self.all_acked(&acked.unwrap());
    }

    /// Loads from the I/O APIC, as the guest; `None` if there is no I/O APIC.
    pub fn load(&self, offset: u64) -> Option<u32> {
        self.controller().read_ioapic(offset)
    }

    /// Writes a register of the I/O APIC, as the guest.
    pub fn write(&mut self, register: u32, value: u32) {
        self.store(IOREGSEL, register);
        self.store(IOWIN, value);
    }

    /// Reads a register of the I/O APIC, as the guest.
    pub fn read(&mut self, register: u32) -> u32 {
        self.store(IOREGSEL, register);
        self.load(IOWIN).unwrap()
    }

    /// Writes the low half of a pin's redirection entry, as the guest. The high half names APIC 0 at first.
    pub fn entry(&mut self, pin: u32, low: u32) {
        self.write(0x10 + 2 * pin, low);
    }

    /// Writes the high half of a pin's redirection entry, whose highest byte is the destination.
    pub fn destination(&mut self, pin: u32, destination: u8) {
        self.write(0x11 + 2 * pin, u32::from(destination) << 24);
    }

    pub fn read_entry(&mut self, pin: u32) -> u32 {
        self.read(0x10 + 2 * pin)
    }

    /// Returns a pin and its line.
    pub fn pin_line(&self, pin: u8) -> PinLine<'_> {
        self.parts.apics().pin_line(pin).unwrap()
    }

    /// Begins the handler of a level-triggered vector; returns whether the guest may end it without an exit.
    pub fn begin_service(&self, vector: u8) -> bool {
        begin_service(&self.parts.pins, &self.parts.lines, vector)
    }

    /// Forwards a line, as its owner.
    pub fn forward(&mut self, number: u32) -> Result<(), IrqError> {
        self.controller().forward_line(gsi(number))
    }

    /// Stops forwarding a line, as its owner.
    pub fn unforward(&mut self, number: u32) {
        self.controller().unforward_line(gsi(number));
    }

    /// Raises a forwarded line, as its owner.
    pub fn raise(&mut self, number: u32) {
        self.controller().raise_forwarded(gsi(number));
    }

    /// Returns whether the interrupts of a forwarded line have ended, as its owner sees it.
    pub fn has_ended(&self, number: u32, ended_by_bit: impl FnOnce(u8) -> bool) -> bool {
        self.controller().has_ended(gsi(number), ended_by_bit)
    }

    /// Does the stub's part of the EOI of a vector that has left service.
    pub fn end_pins(&self, vector: u8) {
        let (pins, lines) = (&self.parts.pins, &self.parts.lines);
        eoi_pins(pins, lines, vector, &mut StubEoi(self));
    }

    pub fn line(&mut self, number: u32, up: bool) {
        self.controller().set_line(gsi(number), Source::User, up);
    }

    pub fn assign(
        &mut self,
        fd: u64,
        number: u32,
        resampler: Option<Arc<Resampler>>,
    ) -> Result<(), IrqError> {
        let gsi = gsi(number);
        let irqfd = Irqfd { gsi, resampler };
        self.controller().assign(event(fd), irqfd)
    }

    pub fn irqfd(&mut self, fd: u64, number: u32) -> Result<(), IrqError> {
        self.assign(fd, number, None)
    }

    pub fn resampling(&mut self, fd: u64, number: u32) -> Counter {
        let descriptor = u32::try_from(self.counters.len()).unwrap() + 1;
        let counter = Counter {
            count: Rc::default(),
            resampler: resampler(descriptor),
        };
        self.counters.push(counter.clone());
        let resampler = Some(Arc::clone(&counter.resampler));
        self.assign(fd, number, resampler).unwrap();
        counter
    }

    /// Removes an irqfd and returns whether there was one.
    pub fn remove(&mut self, fd: u64, number: u32) -> bool {
        let removed = self.controller().deassign(event(fd), gsi(number));
        removed.is_some()
    }

    pub fn signal(&mut self, fd: u64) {
        self.controller().signal(event(fd));
    }

    pub fn route(&mut self, routes: &[(u32, Target)]) -> Result<(), IrqError> {
        let route = |&(number, target): &(u32, Target)| Route {
            gsi: gsi(number),
            target,
        };
        let routes: Vec<_> = routes.iter().map(route).collect();
        self.controller().set_routing(&routes)
    }

    /// vCPU 0 takes its next interrupt and does the EOI. Returns the vector.
    pub fn serve(&mut self) -> Option<u8> {
        let vector = self.begin()?;
        self.end();
        Some(vector)
    }

    pub fn begin(&self) -> Option<u8> {
        let lapic = &self.parts.lapics[0];
        let vector = lapic.next_interrupt()?;
        assert!(lapic.start_service(vector));
        Some(vector)
    }

    /// Does the EOI as the stub does; the stub leaves a pin with too many resamplefds to the monitor.
    pub fn end(&mut self) {
        let eoi = self.parts.lapics[0].eoi().unwrap();
        if !self.parts.lapics[0].eoi_exit_bitmap.contains(eoi.vector) {
            return;
        }
        let (pins, lines) = (&*self.parts.pins, &*self.parts.lines);
        if PinLine::with_vector(pins, lines, eoi.vector)
            .any(|(_, pin_line)| pin_line.pin.needs_monitor_eoi())
        {
            let acked = self.controller().eoi(eoi.vector);
            self.all_acked(&acked);
        } else {
            eoi_pins(pins, lines, eoi.vector, &mut StubEoi(self));
        }
    }
}
