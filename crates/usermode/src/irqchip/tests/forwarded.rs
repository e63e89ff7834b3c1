//! Forwarded lines against a plain model of a hardware-mapped interrupt, in random steps, and case by case.
//!
//! Controller, lines, local APIC and PV EOI are the real ones. This file simulates the vCPU's loop and its guest, which
//! takes one interrupt at a time.

use proptest::prelude::*;
use vmbell_core::lapic::{Effect, Eoi, Register};
use vmbell_core::pv_eoi::{Completion, GuestByte, PvEoi};

use super::chip::{Chip, LEVEL, MASKED, resampler};
use super::guest::{WORD, Word};
use vmbell::irq::{Activity, IrqError, Msi, Target};

const VECTOR: u8 = 0x51;
const PIN: u32 = 5;
const ENTRY: u32 = LEVEL | VECTOR as u32;

/// A guest with a line, and its vCPU's loop.
struct Guest {
    chip: Chip,
    pv_eoi: PvEoi,
    word: Word,
    handles: bool,
    taken: u32,
    spared: u32,
}

impl Guest {
    /// Makes a guest whose pin 5 is level-triggered and forwarded.
    fn new() -> Self {
        let mut chip = Chip::full();
        chip.entry(PIN, ENTRY);
        chip.forward(PIN).unwrap();
        let pv_eoi = PvEoi::default();
        pv_eoi.write_msr(WORD | 1, |_| true).unwrap();
        Self {
            chip,
            pv_eoi,
            word: Word::default(),
            handles: false,
            taken: 0,
            spared: 0,
        }
    }

    fn eoi(&self, eoi: Eoi) {
        assert_eq!((eoi.vector, eoi.level), (VECTOR, true));
        self.chip.end_pins(eoi.vector);
    }

    fn leave(&mut self) {
        let lapic = &self.chip.parts.lapics[0];
        if let Completion::Completed(Some(eoi)) = self.pv_eoi.complete(lapic, &self.word) {
            self.spared += 1;
            self.eoi(eoi);
        }
    }

    fn enter(&mut self) {
        let lapic = &self.chip.parts.lapics[0];
        if let Some(vector) = lapic.next_interrupt()
            && !self.handles
        {
            assert!(lapic.start_service(vector));
            (self.handles, self.taken) = (true, self.taken + 1);
            if self.chip.begin_service(vector) {
                self.pv_eoi.arm_forwarded(lapic, &self.word);
            } else {
                self.pv_eoi.arm(lapic, &self.word);
            }
        }
    }

    /// Exits and enters again, for a notification or another reason.
    fn exit(&mut self) {
        self.leave();
        self.enter();
    }

    /// Exits if the vCPU was notified: it is in the guest, so a notification makes it leave.
    fn take_signals(&mut self) {
        if !std::mem::take(&mut *self.chip.parts.woken.borrow_mut()).is_empty() {
            self.exit();
        }
    }

    /// Ends the interrupt, as the handler.
    fn end(&mut self) {
        self.handles = false;
        if self.word.byte.replace(0) & 1 == 0 {
            self.leave();
            let lapic = &self.chip.parts.lapics[0];
            let Effect::Eoi(eoi) = lapic.write(Register::Eoi, 0) else {
                panic!("nothing was in service");
            };
            self.eoi(eoi);
            self.enter();
        }
        self.take_signals();
    }

    fn raise(&mut self) {
        self.chip.raise(PIN);
        self.take_signals();
    }

    fn has_ended(&self) -> bool {
        let read = |address| self.word.read(address);
        let ended_by_bit = |vector| self.pv_eoi.is_ended(vector, read);
        self.chip.has_ended(PIN, ended_by_bit)
    }

    fn activity(&self) -> Activity {
        self.chip.pin_line(5).line.state().activity()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Raise,
    Level(bool),
    Masked(bool),
    Exit,
    End,
    Forward,
    Unforward,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Raise),
        2 => any::<bool>().prop_map(Step::Level),
        2 => any::<bool>().prop_map(Step::Masked),
        2 => Just(Step::Exit),
        6 => Just(Step::End),
        2 => Just(Step::Forward),
        1 => Just(Step::Unforward),
    ]
}

/// The model: a physical line that is mapped to one interrupt of the guest. The guest takes it as soon as it is
/// pending.
struct Model {
    forwarded: bool,
    level: bool,
    latched: bool,
    masked: bool,
    active: bool,
    taken: u32,
}

impl Model {
    fn send(&mut self) {
        if !self.active && !self.masked && (self.level || self.latched) {
            (self.active, self.latched) = (true, false);
            self.taken += 1;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Raise => self.latched |= self.forwarded,
            Step::Level(up) => self.level = up,
            Step::Masked(masked) => self.masked = masked,
            Step::End => self.active = false,
            Step::Forward => self.forwarded = true,
            Step::Unforward => self.forwarded = false,
            Step::Exit => {}
        }
        self.send();
    }
}

fn play(guest: &mut Guest, step: Step) {
    match step {
        Step::Raise => guest.raise(),
        Step::Level(up) => guest.chip.line(PIN, up),
        Step::Masked(masked) => guest
            .chip
            .entry(PIN, ENTRY | if masked { MASKED } else { 0 }),
        Step::Exit => guest.exit(),
        Step::End if guest.handles => guest.end(),
        Step::End => {}
        Step::Forward => drop(guest.chip.forward(PIN)),
        Step::Unforward => guest.chip.unforward(PIN),
    }
    guest.take_signals();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn line_does_what_a_hardware_mapped_interrupt_does(steps in prop::collection::vec(step(), 1..120)) {
        let mut guest = Guest::new();
        let mut model = Model {
            forwarded: true, level: false, latched: false, masked: false, active: false, taken: 0,
        };
        for step in steps {
            play(&mut guest, step);
            model.step(step);
            prop_assert_eq!(guest.taken, model.taken, "{:?}", step);
            prop_assert_eq!(guest.handles, model.active);
            let is_quiet = !model.active && !model.level && !model.latched;
            if model.forwarded {
                prop_assert_eq!(guest.has_ended(), is_quiet);
            } else {
                prop_assert!(!guest.pv_eoi.is_pending(), "its end is put off");
            }
            let lapic = &guest.chip.parts.lapics[0];
            let both = lapic.irr.contains(VECTOR) && lapic.is_in_service(VECTOR);
            prop_assert!(!both, "pending and active");
        }
    }
}

#[test]
fn interrupts_one_after_the_other_are_all_ended_by_the_bit() {
    const ROUNDS: u32 = if cfg!(miri) { 10 } else { 100 };
    let mut guest = Guest::new();
    for round in 1..=ROUNDS {
        assert!(guest.has_ended());
        guest.raise();
        assert_eq!((guest.taken, guest.activity()), (round, Activity::Active));
        assert!(!guest.has_ended());
        guest.end();
    }
    assert!(guest.has_ended());
    guest.exit();
    assert_eq!(guest.spared, ROUNDS);
    assert_eq!(guest.activity(), Activity::Inactive);
}

#[test]
fn second_edge_while_active_is_taken_after_the_end_and_a_third_is_one_with_it() {
    let mut guest = Guest::new();
    (0..3).for_each(|_| guest.raise());
    assert_eq!(guest.taken, 1);
    // The guest ends the interrupt by the register, because another interrupt waits.
    guest.end();
    assert_eq!((guest.taken, guest.has_ended()), (2, false));
    guest.end();
    assert_eq!((guest.taken, guest.has_ended()), (2, true));
}

#[test]
fn edge_that_finds_its_pin_masked_is_taken_when_it_is_unmasked() {
    let mut guest = Guest::new();
    guest.raise();
    play(&mut guest, Step::Masked(true));
    guest.raise();
    guest.end();
    assert_eq!((guest.taken, guest.has_ended()), (1, false));
    play(&mut guest, Step::Masked(false));
    assert_eq!(guest.taken, 2);
}

#[test]
fn edge_that_comes_before_the_guest_has_set_its_pin_up_is_taken_then() {
    let mut chip = Chip::full();
    chip.forward(PIN).unwrap();
    chip.raise(PIN);
    assert!(!chip.has_ended(PIN, |_| false));
    chip.destination(PIN, 0);
    chip.entry(PIN, ENTRY);
    assert_eq!(chip.serve(), Some(VECTOR));
}

#[test]
fn forwarding_taken_back_in_mid_interrupt_leaves_the_end_to_the_eoi_which_a_resamplefd_sees() {
    let mut guest = Guest::new();
    guest.raise();
    guest.chip.unforward(PIN);
    assert_eq!(guest.word.byte.get(), 1);
    guest.take_signals();
    assert_eq!(guest.word.byte.get(), 0, "the bit is taken back");
    let told = guest.chip.resampling(1, PIN);
    guest.end();
    assert_eq!((told.get(), guest.activity()), (1, Activity::Inactive));
    guest.chip.signal(1);
    guest.take_signals();
    guest.end();
    assert_eq!((guest.taken, told.get(), guest.spared), (2, 2, 0));
}

#[test]
fn line_that_another_pin_shares_its_vector_with_is_ended_by_the_register() {
    let mut guest = Guest::new();
    guest.chip.entry(6, ENTRY);
    guest.raise();
    assert!(!guest.pv_eoi.is_pending());
    guest.end();
    assert!(guest.has_ended());
}

#[test]
fn edge_of_a_pin_that_the_guest_made_edge_triggered_is_sent_and_has_ended() {
    let mut guest = Guest::new();
    guest.chip.entry(PIN, VECTOR.into());
    guest.chip.raise(PIN);
    assert!(guest.chip.parts.lapics[0].irr.contains(VECTOR));
    assert!(guest.has_ended());
}

#[test]
fn what_cannot_be_forwarded_is_refused_with_the_reason() {
    let mut chip = Chip::full();
    assert!(matches!(chip.forward(24), Err(IrqError::NoLine { .. })));
    let message = Target::Msi(Msi::fixed(0, VECTOR));
    chip.route(&[(PIN, Target::Pin(5)), (7, message)]).unwrap();
    assert!(matches!(chip.forward(7), Err(IrqError::NoLine { .. })));
    chip.entry(PIN, VECTOR.into());
    assert!(matches!(chip.forward(PIN), Err(IrqError::Edge { .. })));
    chip.entry(PIN, ENTRY);
    let _told = chip.resampling(1, PIN);
    assert!(matches!(chip.forward(PIN), Err(IrqError::Resampled { .. })));
    assert!(chip.remove(1, PIN));
    chip.forward(PIN).unwrap();
    assert!(matches!(chip.forward(PIN), Err(IrqError::Forwarded { .. })));
    assert!(matches!(
        chip.assign(2, PIN, Some(resampler(2))),
        Err(IrqError::Forwarded { .. })
    ));
    assert!(matches!(
        Chip::split().forward(PIN),
        Err(IrqError::NoLine { .. })
    ));
}
