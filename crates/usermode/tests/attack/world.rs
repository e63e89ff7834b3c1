//! What a guest can know of its sandbox, and jumps that use this.

use stub::layout::{
    CONTROL_BASE, Control, FD_BASE, PATCH_BASE, SHARED_BASE, SLOT_BASE, SLOT_SIZE, STUB_BASE,
    SharedState,
};
use vmbell_core::addresses::{HYPERCALL_PAGE, INTERRUPT_RETURN};

use crate::attack::random::Random;
use testbed::HOLE;
use testbed::jumps::{FREE, Jump, RSP, SIZE, base, landing};
use testbed::process::tasks;
use testbed::symbols::{code, symbol, syscalls};

/// What a guest can know of its sandbox.
pub struct World {
    /// The instruction boundaries of all code.
    boundaries: Vec<u64>,
    gadgets: Vec<u64>,
    /// The ids of the process and its threads.
    numbers: Vec<u64>,
}

impl World {
    pub fn new(sandbox: i32) -> Self {
        let (address, bytes) = code();
        let decoder = iced_x86::Decoder::with_ip(64, bytes, address, 0);
        Self {
            boundaries: decoder.into_iter().map(|each| each.ip()).collect(),
            gadgets: syscalls(),
            numbers: tasks(sandbox)
                .iter()
                .map(|id| u64::from(id.cast_unsigned()))
                .collect(),
        }
    }

    fn target(&self, random: &mut Random) -> u64 {
        let (address, bytes) = code();
        let within = |random: &mut Random, begin: &str, end: &str| {
            let (begin, end) = (symbol(begin), symbol(end));
            begin + random.below(end - begin)
        };
        match random.below(9) {
            0 | 1 => address + random.below(bytes.len() as u64),
            2 | 3 => random.pick(&self.boundaries),
            4 => within(random, "stub_direct_section", "stub_direct_section_end"),
            5 => within(random, "stub_entry", "stub_restorer"),
            // The gadget itself, or the code before it.
            6 => {
                let gadget = random.pick(&self.gadgets);
                let place = self.boundaries.partition_point(|each| *each < gadget);
                self.boundaries[place.saturating_sub(usize::try_from(random.below(5)).unwrap())]
            }
            7 => random.pick(&self.gadgets),
            _ => random.pick(&[
                HYPERCALL_PAGE,
                INTERRUPT_RETURN,
                STUB_BASE,
                STUB_BASE + 64,
                STUB_BASE + 128,
                STUB_BASE + 192,
                symbol("stub_entry"),
                symbol("stub_exit_begin"),
                symbol("stub_resume"),
                symbol("stub_start"),
            ]),
        }
    }

    pub fn word(&self, random: &mut Random) -> u64 {
        let aligned = |random: &mut Random, begin: u64, size: u64| {
            begin + (random.below(size) & random.pick(&[!0, !7, !63, !0xfff]))
        };
        match random.below(10) {
            0 => random.word(),
            1 => random.below(64),
            2 => aligned(random, base(0), 2 * SIZE),
            3 => self.target(random),
            4 => aligned(random, SLOT_BASE, 3 * SLOT_SIZE),
            5 => aligned(random, SHARED_BASE, size_of::<SharedState>() as u64),
            6 => aligned(random, CONTROL_BASE, size_of::<Control>() as u64),
            7 => random.pick(&self.numbers),
            8 => system_call(random),
            _ => random.pick(&[
                0,
                u64::MAX,
                1 << 63,
                HOLE,
                PATCH_BASE,
                landing(0),
                landing(1),
            ]),
        }
    }

    fn stack(&self, random: &mut Random, index: u32) -> u64 {
        match random.below(6) {
            0..3 => base(index) + FREE + (random.below(SIZE - FREE) & !7),
            3 => SLOT_BASE + random.below(3 * SLOT_SIZE),
            4 => SLOT_BASE + u64::from(index) * SLOT_SIZE + 0x7f00,
            _ => self.word(random),
        }
    }

    pub fn jump(&self, random: &mut Random, index: u32) -> Jump {
        let mut registers = [(); 16].map(|()| self.word(random));
        let mut target = self.target(random);
        if random.once_in(3) {
            let (number, arguments) = self.arguments(random);
            registers = Jump::call(0, number, arguments).registers;
            for register in &mut registers {
                if *register == 0 && random.once_in(2) {
                    *register = self.word(random);
                }
            }
            target = random.pick(&self.gadgets);
        }
        registers[RSP] = self.stack(random, index);
        Jump { registers, target }
    }

    /// Returns a system call that the stub itself makes, or any other.
    fn arguments(&self, random: &mut Random) -> (u64, [u64; 4]) {
        let shared = SHARED_BASE + (random.below(size_of::<SharedState>() as u64) & !3);
        match random.below(6) {
            0 => (
                1,
                [
                    u64::from(FD_BASE) + random.below(24),
                    self.word(random),
                    8,
                    0,
                ],
            ),
            1 => (202, [shared, random.below(2), random.below(3), 0]),
            2 | 3 => {
                let thread = random.pick(&self.numbers);
                (
                    234,
                    [
                        self.numbers[0],
                        thread,
                        random.pick(&[12, 12, 12, 10, 9]),
                        0,
                    ],
                )
            }
            4 => (231, [random.below(256), 0, 0, 0]),
            _ => (system_call(random), [(); 4].map(|()| self.word(random))),
        }
    }
}

fn system_call(random: &mut Random) -> u64 {
    let known = [
        0, 1, 3, 9, 10, 11, 13, 14, 15, 34, 39, 56, 62, 131, 186, 202, 231, 234, 317,
    ];
    if random.once_in(3) {
        random.below(470)
    } else {
        random.pick(&known)
    }
}
