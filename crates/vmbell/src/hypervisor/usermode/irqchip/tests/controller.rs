//! Lines, routes and irqfds with local APICs behind them, and the way back from an EOI.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use stub::event::{Event, EventCounts};
use stub::ioapic::{EndOfInterrupt, Lines, Pin, Pins, Source, Wire, end};
use stub::lapic::{Lapic, Message};
use stub::presence::Tell;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::apics::Apics;
use super::super::controller::Controller;
use super::super::ioapic::{BASE, SIZE};
use super::super::irqfd::Irqfd;
use super::super::resampler::Resampler;
use super::lapic;
use crate::eventfd::EventId;
use crate::irq::{Gsi, IrqError, Msi, Route, Target};

const IOREGSEL: u64 = 0;
const IOWIN: u64 = 0x10;
pub const LEVEL: u32 = 1 << 15;
pub const MASKED: u32 = 1 << 16;
const REMOTE_IRR: u32 = 1 << 14;

/// Two vCPUs, pins and lines, and who was woken.
pub struct Parts {
    pub lapics: Vec<Lapic>,
    pins: Box<Pins>,
    lines: Box<Lines>,
    events: EventCounts,
    woken: Rc<RefCell<Vec<usize>>>,
    tell: Box<dyn Fn(usize) -> Tell>,
}

impl Parts {
    fn new() -> Self {
        let woken: Rc<RefCell<Vec<usize>>> = Rc::default();
        let here = Rc::clone(&woken);
        let tell = move |vcpu| {
            here.borrow_mut().push(vcpu);
            Tell::Nothing
        };
        Self {
            lapics: vec![lapic(0), lapic(1)],
            pins: Box::default(),
            lines: Box::default(),
            events: EventCounts::default(),
            woken,
            tell: Box::new(tell),
        }
    }

    fn apics(&self) -> Apics<'_> {
        Apics::new(
            &self.lapics,
            &self.pins,
            &self.lines,
            &self.events,
            &self.tell,
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

fn resampler(descriptor: u32) -> Arc<Resampler> {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    Arc::new(Resampler::new(event, descriptor))
}

/// The controllers with their two vCPUs.
pub struct Chip {
    pub controller: Controller,
    pub parts: Parts,
    /// The descriptors that the sandbox would have.
    counters: Vec<Counter>,
}

/// The stub's part of an end of interrupt.
struct Ending<'c>(&'c Chip);

impl EndOfInterrupt for Ending<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        self.0.parts.apics().deliver(message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        for descriptor in pin.resamplers() {
            self.0.acked(descriptor);
        }
    }

    fn note(&mut self, _event: Event) {}
}

pub fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

pub fn event(number: u64) -> EventId {
    EventId::from_raw(number)
}

impl Chip {
    fn new(make: impl FnOnce(&Apics<'_>) -> Controller) -> Self {
        let parts = Parts::new();
        Self {
            controller: make(&parts.apics()),
            parts,
            counters: Vec::new(),
        }
    }

    pub fn full() -> Self {
        Self::new(Controller::full)
    }

    pub fn split() -> Self {
        Self::new(|_| Controller::split())
    }

    /// A resamplefd is signalled.
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

    /// The guest stores to the I/O APIC.
    pub fn store(&mut self, offset: u64, value: u32) {
        let apics = self.parts.apics();
        let acked = self.controller.write_ioapic(offset, value, &apics);
        self.all_acked(&acked.unwrap());
    }

    /// The guest loads from the I/O APIC; none if there is none.
    pub fn load(&self, offset: u64) -> Option<u32> {
        self.controller.read_ioapic(offset, &self.parts.apics())
    }

    /// The guest writes a register of the I/O APIC.
    pub fn write(&mut self, register: u32, value: u32) {
        self.store(IOREGSEL, register);
        self.store(IOWIN, value);
    }

    /// The guest reads a register of the I/O APIC.
    pub fn read(&mut self, register: u32) -> u32 {
        self.store(IOREGSEL, register);
        self.load(IOWIN).unwrap()
    }

    /// The guest writes the low half of a pin's entry; the high half names APIC 0 at first.
    pub fn entry(&mut self, pin: u32, low: u32) {
        self.write(0x10 + 2 * pin, low);
    }

    /// The guest writes the high half of a pin's entry: the destination is its highest byte.
    pub fn destination(&mut self, pin: u32, destination: u8) {
        self.write(0x11 + 2 * pin, u32::from(destination) << 24);
    }

    fn read_entry(&mut self, pin: u32) -> u32 {
        self.read(0x10 + 2 * pin)
    }

    pub fn line(&mut self, number: u32, up: bool) {
        let apics = self.parts.apics();
        self.controller
            .set_line(gsi(number), Source::User, up, &apics);
    }

    fn assign(
        &mut self,
        fd: u64,
        number: u32,
        resampler: Option<Arc<Resampler>>,
    ) -> Result<(), IrqError> {
        let gsi = gsi(number);
        let irqfd = Irqfd { gsi, resampler };
        self.controller
            .assign(event(fd), irqfd, &self.parts.apics())
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

    /// Removes an irqfd; whether there was one.
    pub fn remove(&mut self, fd: u64, number: u32) -> bool {
        let apics = self.parts.apics();
        let removed = self.controller.deassign(event(fd), gsi(number), &apics);
        removed.is_some()
    }

    pub fn signal(&mut self, fd: u64) {
        self.controller.signal(event(fd), &self.parts.apics());
    }

    pub fn route(&mut self, routes: &[(u32, Target)]) -> Result<(), IrqError> {
        let route = |&(number, target): &(u32, Target)| Route {
            gsi: gsi(number),
            target,
        };
        let routes: Vec<_> = routes.iter().map(route).collect();
        self.controller.set_routing(&routes, &self.parts.apics())
    }

    /// vCPU 0 takes what is next and ends it; the vector.
    pub fn serve(&mut self) -> Option<u8> {
        let vector = self.begin()?;
        self.end();
        Some(vector)
    }

    pub fn begin(&self) -> Option<u8> {
        let lapic = &self.parts.lapics[0];
        let vector = lapic.next()?;
        assert!(lapic.begin(vector));
        Some(vector)
    }

    /// As the stub does, which leaves a crowded pin to the monitor.
    pub fn end(&mut self) {
        let eoi = self.parts.lapics[0].eoi().unwrap();
        if !self.parts.lapics[0].watched.contains(eoi.vector) {
            return;
        }
        let (pins, lines) = (&*self.parts.pins, &*self.parts.lines);
        if Wire::with_vector(pins, lines, eoi.vector).any(|(_, wire)| wire.pin.is_crowded()) {
            let acked = self.controller.eoi(eoi.vector, &self.parts.apics());
            self.all_acked(&acked);
        } else {
            end(pins, lines, eoi.vector, &mut Ending(self));
        }
    }
}

#[test]
fn edge_pin_sends_on_each_rise() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.line(5, true);
    assert_eq!(chip.serve(), Some(0x41));
    chip.line(5, true);
    assert_eq!(chip.serve(), None, "it was up already");
    chip.line(5, false);
    chip.line(5, true);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!(*chip.parts.woken.borrow(), [0, 0]);
}

#[test]
fn level_pin_sends_until_the_device_lets_go() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    for _ in 0..3 {
        assert_eq!(chip.serve(), Some(0x41));
    }
    assert_eq!(chip.begin(), Some(0x41));
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn level_pin_sends_once_before_its_eoi() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    assert_eq!(chip.begin(), Some(0x41));
    assert_eq!(chip.read_entry(5), LEVEL | REMOTE_IRR | 0x41);
    chip.line(5, false);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    chip.end();
    assert_eq!(chip.serve(), Some(0x41));
}

#[test]
fn masked_level_is_remembered_and_a_masked_edge_is_lost() {
    let mut chip = Chip::full();
    chip.entry(4, MASKED | 0x41);
    chip.entry(5, MASKED | LEVEL | 0x51);
    chip.line(4, true);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    chip.entry(4, 0x41);
    chip.entry(5, LEVEL | 0x51);
    assert_eq!(chip.serve(), Some(0x51));
    chip.line(5, false);
    assert_eq!(chip.begin(), Some(0x51));
}

#[test]
fn pin_made_an_edge_one_forgets_its_eoi() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    chip.entry(5, 0x41);
    assert_eq!(chip.read_entry(5), 0x41);
}

#[test]
fn registers_of_the_ioapic_are_those_of_the_datasheet() {
    let mut chip = Chip::full();
    assert_eq!(chip.read(1), 0x17_0011);
    assert_eq!(chip.read(0x10), MASKED);
    assert_eq!(chip.read(0x40), 0);
    assert_eq!((BASE, SIZE), (0xfec0_0000, 0x100));
    chip.entry(5, u32::MAX);
    let written = chip.read_entry(5);
    assert_eq!(written & (REMOTE_IRR | 1 << 12), 0, "read-only");
    assert_eq!(written, 0x1_afff);
    assert_eq!(chip.load(0x20), Some(0));
}

#[test]
fn pin_with_a_vector_below_16_delivers_nothing() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x0f);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    assert_eq!(chip.read_entry(5) & REMOTE_IRR, 0, "nobody took it");
}

#[test]
fn irqfd_is_an_edge() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    for _ in 0..3 {
        chip.signal(1);
        assert_eq!(chip.serve(), Some(0x41));
    }
}

#[test]
fn eventfd_used_twice_is_ebusy_whatever_the_gsi() {
    let mut chip = Chip::full();
    chip.irqfd(1, 5).unwrap();
    for number in [5, 6] {
        let error = chip.irqfd(1, number).unwrap_err();
        assert!(matches!(error, IrqError::Busy));
        assert_eq!(error.errno(), libc::EBUSY);
    }
    chip.irqfd(2, 5).unwrap();
}

#[test]
fn irqfd_is_removed_by_eventfd_and_gsi_and_removing_none_is_no_error() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    assert!(!chip.remove(1, 6));
    assert!(!chip.remove(2, 5));
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
    assert!(chip.remove(1, 5));
    assert!(!chip.remove(1, 5));
    chip.signal(1);
    assert_eq!(chip.begin(), None);
    chip.irqfd(1, 6).unwrap();
}

#[test]
fn irqfd_that_goes_leaves_the_others_of_its_gsi_alone() {
    let mut chip = Chip::split();
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x45)))])
        .unwrap();
    for fd in [1, 2] {
        chip.irqfd(fd, 24).unwrap();
    }
    assert!(chip.remove(1, 24));
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x45));
    // Assigned again it has the route that there is by then.
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x55)))])
        .unwrap();
    chip.irqfd(1, 24).unwrap();
    for fd in [1, 2] {
        chip.signal(fd);
        assert_eq!(chip.serve(), Some(0x55));
    }
}

#[test]
fn irqfd_on_a_gsi_that_leads_nowhere_signals_nobody() {
    let mut chip = Chip::full();
    chip.irqfd(1, 100).unwrap();
    chip.signal(1);
    chip.line(100, true);
    assert_eq!(chip.begin(), None);
    assert_eq!(*chip.parts.woken.borrow(), [0; 0]);
}

#[test]
fn resampled_line_goes_down_once_and_every_resamplefd_is_signalled_once() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    let (one, two) = (chip.resampling(1, 5), chip.resampling(2, 5));
    chip.signal(1);
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!((one.get(), two.get()), (1, 1));
    assert_eq!(chip.begin(), None, "both have to signal again");
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!((one.get(), two.get()), (2, 2));
}

#[test]
fn line_that_a_device_holds_beside_a_resampled_one_stays_up() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    let resample = chip.resampling(1, 5);
    chip.line(5, true);
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!(resample.get(), 1);
    assert_eq!(chip.begin(), Some(0x41), "the device holds it still");
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn last_resampler_that_goes_takes_the_line_down() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | MASKED | 0x41);
    let _one = chip.resampling(1, 5);
    let _two = chip.resampling(2, 5);
    chip.signal(1);
    assert!(chip.remove(1, 5));
    assert!(chip.remove(2, 5));
    chip.entry(5, LEVEL | 0x41);
    assert_eq!(chip.begin(), None);
}

#[test]
fn pending_line_that_is_unmasked_is_resampled_instead_of_sent() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | MASKED | 0x41);
    let resample = chip.resampling(1, 5);
    chip.signal(1);
    chip.entry(5, LEVEL | 0x41);
    assert_eq!(resample.get(), 1);
    assert_eq!(chip.begin(), None);
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
}

#[test]
fn resampling_needs_an_ioapic() {
    let mut chip = Chip::split();
    let assigned = chip.assign(1, 5, Some(resampler(1)));
    assert!(matches!(assigned, Err(IrqError::NoResample)));
    assert_eq!(chip.load(IOWIN), None);
    chip.irqfd(1, 5).unwrap();
}

#[test]
fn route_to_a_pin_needs_an_ioapic() {
    let mut chip = Chip::split();
    let error = chip.route(&[(5, Target::Pin(5))]).unwrap_err();
    assert!(matches!(error, IrqError::NoIoApic { .. }), "{error}");
    Chip::full().route(&[(5, Target::Pin(5))]).unwrap();
}

#[test]
fn message_route_sends_on_each_signal() {
    let mut chip = Chip::split();
    let to_second = Target::Msi(Msi::fixed(1, 0x55));
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x45))), (25, to_second)])
        .unwrap();
    chip.irqfd(1, 24).unwrap();
    chip.irqfd(2, 25).unwrap();
    chip.signal(1);
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x45));
    assert_eq!(chip.parts.lapics[1].next(), Some(0x55));
    assert_eq!(*chip.parts.woken.borrow(), [0, 1]);
}

#[test]
fn bad_table_changes_nothing() {
    let mut chip = Chip::split();
    let good = (24, Target::Msi(Msi::fixed(0, 0x45)));
    chip.route(&[good]).unwrap();
    for (bad, expected) in [
        (vec![good, good], "gsi 24 has two routes"),
        (
            vec![good, (3, Target::Pin(24))],
            "pin 24 is out of range, the i/o apic has 24",
        ),
        (
            vec![good, (3, Target::Msi(Msi::fixed(0, 15)))],
            "vector 15 is an exception's, interrupts begin at 16",
        ),
    ] {
        let error = chip.route(&bad).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.errno(), libc::EINVAL);
    }
    chip.irqfd(1, 24).unwrap();
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x45));
}

#[test]
fn storm_of_edges_is_delivered_as_often_as_it_was_accepted() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 1000 };
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    let mut served = 0;
    for round in 0..ROUNDS {
        for _ in 0..=round % 3 {
            chip.signal(1);
        }
        served += usize::from(chip.serve().is_some());
    }
    assert_eq!(
        served, ROUNDS,
        "what comes while one is pending is coalesced"
    );
    assert_eq!(chip.parts.woken.borrow().len(), ROUNDS);
}
