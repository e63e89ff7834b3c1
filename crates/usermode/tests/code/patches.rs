//! A vCPU that traps continues with the instruction that trapped, wherever the sandbox is stopped in the meantime to
//! patch that instruction for another vCPU.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use stub::decode::{Instruction, decode};
use stub::layout::PATCH_BASE;
use stub::patches::{Fetched, INT3, Patches};
use stub::trampoline::{INVALID, JMP, ROOM, STEPS};

const SITE: u64 = 0x30_0000;
/// The bytes of code that a vCPU can read: a jump, and an instruction that begins in it.
const CODE: usize = 19;
/// A jump whose distance consists of invalid opcodes.
const JUMP: [u8; 5] = [JMP, INVALID[0], INVALID[0], INVALID[0], INVALID[0]];

/// A site, and the other instructions that the jump overwrites.
struct Case {
    code: &'static [u8],
    overwritten: &'static [u64],
    /// The first byte after the jump was undone.
    restored: u8,
}

const CASES: [Case; 3] = [
    // mov [rbx], al; mov [rcx], eax; jne
    Case {
        code: &[0x88, 0x03, 0x89, 0x01, 0x75, 0xf2],
        overwritten: &[2, 4],
        restored: 0x88,
    },
    // mov dword ptr [rbx + 8], 1
    Case {
        code: &[0xc7, 0x43, 0x08, 1, 0, 0, 0],
        overwritten: &[],
        restored: 0xc7,
    },
    // out dx, al; out 0x10, eax; dec ecx
    Case {
        code: &[0xee, 0xe7, 0x10, 0xff, 0xc9],
        overwritten: &[1, 3],
        restored: INT3,
    },
];

/// What a vCPU does at an address.
enum Step {
    /// The vCPU has executed the instruction that was at this offset before any jump.
    Executed(u64),
    InvalidOpcode,
    /// The instruction traps. If `int3` has replaced its first byte, this is the original byte.
    Trap(Option<u8>),
}

/// A guest with one vCPU, and a monitor that writes and undoes the jump in turn, each at a given stop of the sandbox.
/// The sandbox can be stopped before each instruction, before each handler, and whenever a handler reads a byte of
/// code.
struct Guest<'a> {
    case: &'a Case,
    patches: Patches,
    code: RefCell<[u8; CODE]>,
    stops: Cell<usize>,
    changes: RefCell<Vec<usize>>,
    changed: Cell<u64>,
}

impl Guest<'_> {
    fn new(case: &Case, changes: Vec<usize>) -> Guest<'_> {
        let mut code = [0x90; CODE];
        code[..case.code.len()].copy_from_slice(case.code);
        Guest {
            case,
            patches: Patches::default(),
            code: RefCell::new(code),
            stops: Cell::new(0),
            changes: RefCell::new(changes),
            changed: Cell::new(0),
        }
    }

    /// Makes the monitor's changes for this stop.
    fn stop(&self) {
        let now = self.stops.replace(self.stops.get() + 1);
        while self.changes.borrow().first() == Some(&now) {
            self.changes.borrow_mut().remove(0);
            self.change();
        }
    }

    fn change(&self) {
        let changed = self.changed.replace(self.changed.get() + 1);
        let mut code = self.code.borrow_mut();
        if changed.is_multiple_of(2) {
            // Each jump has its own trampoline.
            let trampoline = PATCH_BASE + changed * ROOM;
            for offset in self.case.overwritten.iter().chain([&0]) {
                let copy = trampoline + offset;
                assert!(self.patches.redirects.insert(SITE + offset, copy));
            }
            code[..5].copy_from_slice(&JUMP);
        } else {
            let first = self.case.code[0].into();
            assert!(self.patches.int3_sites.insert(SITE, first));
            code[..5].copy_from_slice(&self.case.code[..5]);
            code[0] = self.case.restored;
        }
        self.patches.count.fetch_add(1, SeqCst);
    }

    fn read(&self, address: u64) -> u8 {
        self.stop();
        self.code.borrow()[usize::try_from(address - SITE).unwrap()]
    }

    fn execute(&self, rip: u64) -> Step {
        self.stop();
        if rip >= PATCH_BASE {
            return Step::Executed((rip - PATCH_BASE) % ROOM);
        }
        let offset = rip - SITE;
        match self.code.borrow()[usize::try_from(offset).unwrap()] {
            JMP => {
                assert_eq!(offset, 0);
                Step::Executed(0)
            }
            INT3 => {
                let first = self.patches.int3_sites.get(rip).unwrap();
                Step::Trap(Some(u8::try_from(first).unwrap()))
            }
            byte if INVALID.contains(&byte) => Step::InvalidOpcode,
            _ if self.original(offset).is_none() => Step::Executed(offset),
            _ => Step::Trap(None),
        }
    }

    /// Decodes the instruction that was at this offset before any jump; `None` if it does not trap.
    fn original(&self, offset: u64) -> Option<Instruction> {
        let from = usize::try_from(offset).unwrap();
        decode(|place| self.case.code[from + usize::from(place)])
    }

    /// Runs the vCPU from an offset until it has executed an instruction, and returns the offset of that instruction;
    /// `None` if the handler reports a fault.
    fn run(&self, offset: u64) -> Option<u64> {
        let undone = AtomicU32::new(0);
        let mut rip = SITE + offset;
        loop {
            assert!(self.stops.get() < 100, "the vCPU goes round");
            match self.execute(rip) {
                Step::Executed(offset) => return Some(offset),
                Step::InvalidOpcode => {
                    self.stop();
                    match self.patches.redirect(rip, |address| self.read(address)) {
                        Some(copy) => rip = copy,
                        None if self.patches.is_undone(rip, &undone) => {}
                        None => return None,
                    }
                }
                Step::Trap(first_byte) => {
                    self.stop();
                    let read = |address| self.read(address);
                    match self.patches.fetch(rip, first_byte, read) {
                        Fetched::Instruction(found) => {
                            let offset = rip - SITE;
                            return (Some(found) == self.original(offset)).then_some(offset);
                        }
                        Fetched::Patched(address) => rip = address,
                        Fetched::Other => return None,
                    }
                }
            }
        }
    }
}

/// Returns all choices of `left` changes among the first stops, in ascending order, from stop `first` on.
fn places(left: usize, first: usize) -> Vec<Vec<usize>> {
    const STOPS: usize = 16;
    if left == 0 {
        return vec![Vec::new()];
    }
    let with = |place| {
        places(left - 1, place)
            .into_iter()
            .map(move |rest| [vec![place], rest].concat())
    };
    (first..STOPS).flat_map(with).collect()
}

#[test]
fn a_trap_at_any_moment_of_a_patch_leads_to_the_instruction() {
    for (number, case) in CASES.iter().enumerate() {
        // Once an `out` has become `int3`, it stays `int3`.
        let most = if case.restored == INT3 { 2 } else { 4 };
        for changes in (0..=most).flat_map(|count| places(count, 0)) {
            for offset in case.overwritten.iter().chain([&0]) {
                let guest = Guest::new(case, changes.clone());
                let executed = guest.run(*offset);
                assert_eq!(
                    executed,
                    Some(*offset),
                    "case {number}, changes at the stops {changes:?}, code {:x?}",
                    guest.code.borrow()
                );
            }
        }
    }
}

#[test]
fn a_trampoline_is_known_while_another_jump_is_over_its_site() {
    let patches = Patches::default();
    let (own, other) = (PATCH_BASE, PATCH_BASE + ROOM);
    assert!(patches.trampolines.insert(own, SITE));
    assert!(patches.trampolines.insert(other, SITE - 2));
    assert!(patches.redirects.insert(SITE, other + 80));
    for rip in own - 1..own + ROOM {
        let step = STEPS.iter().find(|(step, _)| own + step == rip);
        let begun = patches.begun_trampoline(rip);
        assert_eq!(begun, step.map(|(_, moved)| (SITE, *moved)), "{rip:#x}");
    }
}
