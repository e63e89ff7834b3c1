//! Guests that jump anywhere into the stub, with registers of all kinds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stub::layout::{
    CONTROL_BASE, Control, FD_BASE, PATCH_BASE, SHARED_BASE, SLOT_BASE, SLOT_SIZE, STUB_BASE,
    SharedState,
};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_core::addresses::{HYPERCALL_PAGE, INTERRUPT_RETURN};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Irqchip, Vm};

use crate::attack::batch::Attack;
use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, run_until};
use crate::attack::watch::Watch;
use testbed::jumps::{FREE, Jump, RSP, SIZE, base, landing, take};
use testbed::process::tasks;
use testbed::symbols::{code, symbol, syscalls};
use testbed::{HOLE, event, programs, start};

#[test]
fn jumps_into_the_stub_harm_nobody() {
    Attack {
        name: "attack::jumps::jumps_into_the_stub_harm_nobody",
        rounds: 25,
        full: 1500,
        round,
    }
    .run();
}

/// What a guest can know of its sandbox.
struct World {
    /// Of all code.
    boundaries: Vec<u64>,
    gadgets: Vec<u64>,
    /// Of process and threads.
    numbers: Vec<u64>,
}

impl World {
    fn new(sandbox: i32) -> Self {
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
            // The gadget itself, or what leads to it.
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

    fn word(&self, random: &mut Random) -> u64 {
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

    fn jump(&self, random: &mut Random, index: u32) -> Jump {
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

    /// A system call that the stub makes itself, or any.
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

/// What a stack or a structure holds.
fn fill(vm: &Arc<dyn Vm>, world: &World, random: &mut Random) {
    for index in 0..2 {
        let bytes: Vec<u8> = (0..1024)
            .flat_map(|_| world.word(random).to_le_bytes())
            .collect();
        let place = base(index) + FREE + (random.below(SIZE - FREE - 0x2000) & !7);
        vm.memory()
            .write_slice(&bytes, GuestAddress(place))
            .unwrap();
    }
}

fn round(watch: &'static Watch, random: &mut Random) {
    let irqchips = [Irqchip::None, Irqchip::Split, Irqchip::Full];
    let config = config(random, &irqchips);
    let (vm, sandbox) = create(watch, &config);
    let world = World::new(sandbox);
    fill(&vm, &world, random);
    let staying = [0x501, 0x502].map(|port| {
        let (port, any) = (IoEventAddress::Pio(port), Datamatch::AnyLength);
        vm.register_ioevent(&event(), port, any, Sharing::Exclusive)
            .unwrap()
    });
    let mut vcpus = Vec::new();
    for index in 0..config.vcpus {
        if index == 1 && random.once_in(3) {
            vcpus.push(start(&vm, programs::spin(), Parameters::default(), index));
            continue;
        }
        let count = 1 + random.below(12);
        let jumps: Vec<_> = (0..count).map(|_| world.jump(random, index)).collect();
        // Only a stack in RAM can be made to lead back.
        let lead = |jump: &Jump| {
            (base(index) + FREE..base(index) + SIZE - 0x200).contains(&jump.registers[RSP])
        };
        let back = if jumps.iter().all(lead) { 48 } else { 0 };
        vcpus.push(take(&vm, index, &jumps, back));
    }
    let over = Instant::now() + Duration::from_millis(3) + random.time(Duration::from_millis(60));
    let (mut first, mut second) = (random.fork(), random.fork());
    let kicks: Vec<_> = vcpus.iter().map(|vcpu| vcpu.kick_handle()).collect();
    let removed = std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        if config.irqchip != Irqchip::None && first.once_in(2) {
            scope.spawn(|| raise(watch, &vm, &mut first, Duration::from_millis(5), over));
        }
        let removed = come_and_go(watch, &vm, &mut second, Duration::from_millis(5), over);
        for kick in kicks {
            watch.call("kick", || kick.kick());
        }
        removed
    });
    // No vCPU runs any more, or the sandbox is gone: both must work.
    for doorbell in staying {
        bells::remove(watch, doorbell);
    }
    pause(Duration::from_micros(200));
    removed.check();
    end(watch, vm, vcpus, sandbox);
}
