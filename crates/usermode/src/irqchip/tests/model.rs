//! Checks the local APIC with PV EOI against a plain reference without PV EOI, in random steps.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::guest::{Vcpu, vectors};

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Another thread raises a vector; its kick comes later.
    Raise(u8),
    /// The kick for the vectors that were raised.
    Kick,
    /// An exit for another reason.
    Exit,
    /// `sti`, inside or outside a handler.
    Sti,
    /// The innermost handler that has not done its EOI does the EOI.
    Eoi,
    /// The innermost handler returns.
    Iret,
    /// The guest changes its task priority.
    Tpr(u8),
    /// The vCPU is saved and restored elsewhere.
    Migrate,
}

/// Returns random steps, weighted so that handlers nest and no requests remain pending; [`super::reach`] checks this.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..120)
}

fn step() -> impl Strategy<Value = Step> {
    // Few vectors, so that they interact: eight priority classes of two vectors.
    let vector = (3..11_u8, 0..2_u8).prop_map(|(class, low)| class << 4 | low);
    let priority = prop_oneof![2 => Just(0), 1 => (3..11_u8).prop_map(|class| class << 4)];
    prop_oneof![
        3 => vector.prop_map(Step::Raise),
        5 => Just(Step::Kick),
        1 => Just(Step::Exit),
        5 => Just(Step::Sti),
        3 => Just(Step::Eoi),
        2 => Just(Step::Iret),
        1 => priority.prop_map(Step::Tpr),
        1 => Just(Step::Migrate),
    ]
}

/// The reference: sets of vectors, and the rules of the manual.
#[derive(Debug, Default)]
pub struct Reference {
    requests: BTreeSet<u8>,
    service: BTreeSet<u8>,
    tpr: u8,
    ended: Vec<u8>,
}

impl Reference {
    fn next(&self) -> Option<u8> {
        let busy = self.service.last().map_or(0, |vector| vector / 16);
        let highest = *self.requests.last()?;
        (highest / 16 > busy.max(self.tpr / 16)).then_some(highest)
    }

    fn eoi(&mut self) {
        self.ended.extend(self.service.pop_last());
    }
}

/// A vCPU and its reference.
pub struct Pair {
    pub vcpu: Vcpu,
    reference: Reference,
}

impl Pair {
    pub fn new(pv_eoi: bool) -> Self {
        Self {
            vcpu: Vcpu::new(pv_eoi),
            reference: Reference::default(),
        }
    }

    /// Makes the vCPU run `action`, which leaves the guest and enters it again. If the vCPU entered a handler, checks
    /// that the reference expects the same handler, and makes the reference enter it.
    fn through_exit(&mut self, action: impl FnOnce(&mut Vcpu)) -> Result<(), TestCaseError> {
        let (begun, expected) = (self.vcpu.begun, self.reference.next());
        action(&mut self.vcpu);
        if self.vcpu.begun > begun {
            prop_assert_eq!(self.vcpu.begun, begun + 1);
            let vector = self.vcpu.handlers.last().map(|handler| handler.vector);
            prop_assert_eq!(vector, expected);
            let vector = vector.unwrap();
            self.reference.requests.remove(&vector);
            self.reference.service.insert(vector);
        }
        Ok(())
    }

    /// Makes a step on both sides and compares them.
    pub fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Raise(vector) => {
                let _ = self.vcpu.raise(vector);
                self.reference.requests.insert(vector);
            }
            Step::Kick => self.through_exit(|vcpu| {
                if vcpu.kicked {
                    vcpu.unrelated_exit();
                }
            })?,
            Step::Exit => self.through_exit(Vcpu::unrelated_exit)?,
            Step::Sti => self.through_exit(Vcpu::sti)?,
            Step::Eoi => {
                // An honest guest does one EOI for each interrupt.
                if self.vcpu.innermost().is_some() {
                    self.reference.eoi();
                    self.through_exit(|vcpu| {
                        vcpu.eoi();
                    })?;
                }
            }
            Step::Iret => {
                if self
                    .vcpu
                    .handlers
                    .last()
                    .is_some_and(|handler| handler.ended)
                {
                    self.through_exit(Vcpu::iret)?;
                }
            }
            Step::Tpr(value) => {
                self.reference.tpr = value;
                self.through_exit(|vcpu| vcpu.write_tpr(value))?;
            }
            Step::Migrate => self.through_exit(Vcpu::migrate)?,
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let Self { vcpu, reference } = self;
        let requests = vectors(&vcpu.lapic.irr);
        prop_assert!(requests.iter().eq(&reference.requests), "{:x?}", requests);
        // The host may miss only the newest EOI, and only while no vector waits for an exit.
        let owed = vcpu.pv_eoi.is_pending() && !vcpu.is_armed();
        let mut ended = vcpu.ended.clone();
        let mut service = vcpu.in_service();
        if owed {
            ended.push(service.remove(0));
        }
        prop_assert_eq!(&ended, &reference.ended);
        prop_assert!(service.iter().eq(reference.service.iter().rev()));
        let waits = vcpu.interruptible && reference.next().is_some();
        prop_assert!(!waits || vcpu.kicked, "a vector waits without a kick");
        prop_assert_eq!(vcpu.begun + reference.requests.len(), vcpu.accepted);
        prop_assert!(vcpu.spared <= vcpu.ended.len());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_eoi_is_lost_doubled_or_reordered(pv_eoi: bool, steps in steps()) {
        let mut pair = Pair::new(pv_eoi);
        for step in steps {
            pair.step(step)?;
        }
    }

    #[test]
    fn guest_that_does_what_it_likes_with_its_bit_ends_no_more_than_began(
        steps in prop::collection::vec((step(), 0..6_u8), 1..120),
    ) {
        let mut vcpu = Vcpu::new(true);
        for (step, crime) in steps {
            match crime {
                0 => vcpu.word.byte.set(1),
                1 => vcpu.word.byte.set(0),
                2 => vcpu.word.unmapped.set(!vcpu.word.unmapped.get()),
                3 => vcpu.write_eoi(),
                4 => drop(vcpu.write_msr(0x3000 | u64::from(vcpu.begun.is_multiple_of(2)))),
                _ => {}
            }
            match step {
                Step::Raise(vector) => drop(vcpu.raise(vector)),
                Step::Kick | Step::Exit => vcpu.unrelated_exit(),
                Step::Sti => vcpu.sti(),
                Step::Eoi => drop(vcpu.eoi()),
                Step::Iret => vcpu.iret(),
                Step::Tpr(value) => vcpu.write_tpr(value),
                Step::Migrate => vcpu.migrate(),
            }
            prop_assert_eq!(vcpu.begun + vectors(&vcpu.lapic.irr).len(), vcpu.accepted);
            prop_assert_eq!(vcpu.ended.len() + vcpu.in_service().len(), vcpu.begun);
        }
    }
}

#[test]
fn three_that_nest_end_from_the_inside_whichever_of_them_is_spared() {
    const VECTORS: [u8; 3] = [0x31, 0x45, 0x5f];
    for exits in 0..1 << VECTORS.len() {
        let mut pair = Pair::new(true);
        let mut play = |steps: &[Step]| steps.iter().try_for_each(|step| pair.step(*step));
        for vector in VECTORS {
            play(&[Step::Raise(vector), Step::Kick, Step::Sti]).unwrap();
        }
        // The handlers end from the innermost on, with or without an exit before the EOI.
        for depth in 0..VECTORS.len() {
            let before = [Step::Exit].into_iter().filter(|_| exits >> depth & 1 != 0);
            let steps: Vec<_> = before.chain([Step::Eoi, Step::Iret]).collect();
            play(&steps).unwrap();
        }
        play(&[Step::Exit]).unwrap();
        assert_eq!(pair.vcpu.ended, [0x5f, 0x45, 0x31], "exits {exits:#b}");
        // After an EOI the host no longer knows which vector in service is the newest, so only the innermost vector can
        // be spared.
        assert_eq!(pair.vcpu.spared, usize::from(exits & 1 == 0), "{exits:#b}");
    }
}

#[test]
fn one_interrupt_at_a_time_is_always_spared_and_halves_the_exits() {
    let run = |pv_eoi| {
        let mut vcpu = Vcpu::new(pv_eoi);
        for _ in 0..1000 {
            vcpu.interrupt(0x41);
            vcpu.eoi();
            vcpu.iret();
        }
        let _ = vcpu.exit();
        assert_eq!(vcpu.ended.len(), 1000);
        (vcpu.exits - 1, vcpu.spared)
    };
    assert_eq!(run(false), (2000, 0));
    assert_eq!(run(true), (1000, 1000));
}
