//! Every interleaving of a guest's handlers, two senders and the host's exits, until no step leads to a new
//! state.
//!
//! The host accesses the PV EOI bit only while the guest is stopped, so it is enough to allow exits between any two of
//! the guest's instructions. The key of a state contains everything that decides what happens next. A state is reached
//! by replaying the steps that led to it.

use std::collections::HashSet;

use super::guest::Vcpu;

const LOW: u8 = 0x31;
const HIGH: u8 = 0x51;
/// How often each vector is raised.
const EACH: usize = 2;

/// How the guest does an EOI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    /// The guest tests and clears the bit by one instruction.
    OneInstruction,
    /// The guest reads the bit and clears it by a second instruction, which the interface forbids.
    TwoInstructions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Raise(u8),
    Exit,
    /// The handler enables interrupts.
    Sti,
    /// The guest executes its next instruction.
    Guest,
}

const STEPS: [Step; 5] = [
    Step::Raise(LOW),
    Step::Raise(HIGH),
    Step::Exit,
    Step::Sti,
    Step::Guest,
];

/// A run: the vCPU, and which step of its EOI each handler has reached.
struct Run {
    vcpu: Vcpu,
    raised: [usize; 2],
    /// The value that each handler's first instruction has read, for [`Guest::TwoInstructions`].
    read: Vec<Option<bool>>,
    /// The vectors whose EOI the guest has done, in order.
    guest_ended: Vec<u8>,
}

impl Run {
    fn new() -> Self {
        Self {
            vcpu: Vcpu::new(true),
            raised: [0; 2],
            read: Vec::new(),
            guest_ended: Vec::new(),
        }
    }

    /// Makes a step; returns false if the step is not possible in this state.
    fn take(&mut self, step: Step, guest: Guest) -> bool {
        match step {
            Step::Raise(vector) => {
                let raised = &mut self.raised[usize::from(vector == HIGH)];
                if *raised == EACH || self.vcpu.lapic.irr.contains(vector) {
                    return false;
                }
                *raised += 1;
                let _ = self.vcpu.raise(vector);
            }
            Step::Exit => self.vcpu.unrelated_exit(),
            Step::Sti => {
                if self.vcpu.interruptible {
                    return false;
                }
                self.vcpu.sti();
            }
            Step::Guest => return self.instruction(guest),
        }
        true
    }

    fn instruction(&mut self, guest: Guest) -> bool {
        let Some(handler) = self.vcpu.handlers.last().copied() else {
            return false;
        };
        if handler.ended {
            self.vcpu.iret();
            return true;
        }
        let depth = self.vcpu.handlers.len();
        self.read.resize(depth, None);
        if guest == Guest::TwoInstructions {
            match self.read[depth - 1].take() {
                None => {
                    self.read[depth - 1] = Some(self.vcpu.word.byte.get() & 1 != 0);
                    return true;
                }
                Some(true) => {
                    self.vcpu.word.byte.set(0);
                    self.end();
                    return true;
                }
                Some(false) => {}
            }
        }
        self.end();
        if guest == Guest::TwoInstructions || !self.vcpu.test_and_clear() {
            self.vcpu.write_eoi();
        }
        true
    }

    fn end(&mut self) {
        if let Some(handler) = self.vcpu.handlers.last_mut() {
            handler.ended = true;
            self.guest_ended.push(handler.vector);
        }
    }

    /// Returns the key of the state: everything that decides what happens next.
    fn state(&self) -> String {
        let Vcpu {
            lapic,
            pv_eoi,
            word,
            handlers,
            interruptible,
            kicked,
            ..
        } = &self.vcpu;
        let vectors = [LOW, HIGH].map(|v| (lapic.irr.contains(v), lapic.is_in_service(v)));
        let owed = self.guest_ended.len() - self.vcpu.ended.len().min(self.guest_ended.len());
        format!(
            "{vectors:?} {:?} {} {} {handlers:?} {interruptible} {kicked} {:?} {:?} {owed}",
            lapic.newest_in_service(),
            pv_eoi.is_pending(),
            word.byte.get(),
            self.raised,
            self.read,
        )
    }

    /// Returns whether host and guest agree on the EOIs that were done.
    fn is_good(&self) -> bool {
        let ended = &self.vcpu.ended;
        let agrees = self.guest_ended.starts_with(ended);
        let owed = self.guest_ended.len().saturating_sub(ended.len());
        let may_owe = usize::from(self.vcpu.pv_eoi.is_pending() && !self.vcpu.is_armed());
        // A vector that waits for an EOI unknown to the host waits forever, unless a kick is pending.
        let waits = owed != 0 && !self.vcpu.lapic.irr.is_empty();
        let deliverable = self.vcpu.interruptible && self.vcpu.lapic.next_interrupt().is_some();
        agrees && owed == may_owe && (self.vcpu.kicked || !waits && !deliverable)
    }

    /// Runs the guest to the end of all its handlers.
    fn run_to_end(&mut self, guest: Guest) {
        loop {
            self.vcpu.unrelated_exit();
            if !self.instruction(guest) {
                break;
            }
        }
    }
}

fn replay(steps: &[Step], guest: Guest) -> Run {
    let mut run = Run::new();
    for &step in steps {
        run.take(step, guest);
    }
    run
}

/// Visits all states. Returns their number, and the steps to a bad state if it finds one.
fn explore(guest: Guest) -> (usize, Option<Vec<Step>>) {
    let mut seen = HashSet::from([Run::new().state()]);
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        for step in STEPS {
            let mut run = replay(&path, guest);
            if !run.take(step, guest) {
                continue;
            }
            let mut next = path.clone();
            next.push(step);
            if !run.is_good() {
                return (seen.len(), Some(next));
            }
            if seen.insert(run.state()) {
                let mut end = replay(&next, guest);
                end.run_to_end(guest);
                let all = end.vcpu.begun == end.vcpu.accepted
                    && end.vcpu.ended == end.guest_ended
                    && end.vcpu.ended.len() == end.vcpu.begun
                    && end.vcpu.lapic.in_service().is_none();
                if !all {
                    return (seen.len(), Some(next));
                }
                paths.push(next);
            }
        }
    }
    (seen.len(), None)
}

#[test]
fn no_interleaving_loses_or_doubles_an_eoi() {
    let (states, bad) = explore(Guest::OneInstruction);
    assert_eq!(bad, None);
    assert!(
        states > 500,
        "only {states} states: has the walk stopped short?"
    );
}

#[test]
fn test_and_clear_in_two_instructions_is_caught() {
    // The guest reads the bit, an exit clears it, and the guest clears it again: the guest assumes an EOI that the host
    // does not know.
    let (_, bad) = explore(Guest::TwoInstructions);
    assert!(bad.is_some());
}
