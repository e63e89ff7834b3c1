//! Guests that jump anywhere into the stub, with all kinds of registers, and guests with any stack pointer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stub::layout::{SHARED_BASE, SLOT_BASE, SLOT_SIZE};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{DONE_PORT, Parameters};
use vmbell_hypervisor::{Hypervisor, Irqchip, PatchMode, Vm, VmConfig, VmEntry, VmExit};

use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, run_until};
use crate::attack::watch::Watch;
use crate::attack::world::World;
use testbed::jumps::{self, FREE, Jump, RSP, SIZE, base, take};
use testbed::process::{await_gone, with_sandbox};
use testbed::programs::OUTPUTS;
use testbed::symbols::{code, symbol, syscalls};
use testbed::{AREA, Deadline, HANG, HOLE, chain, configured, count, event, programs, start, step};

/// Fills what a stack or a structure may hold.
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

pub fn jumps_into_the_stub_harm_nobody(watch: &'static Watch, random: &mut Random) {
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
        // Only a stack in RAM can be set up to lead back.
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
    // No vCPU runs any more, or the sandbox is gone: removals must work in both cases.
    for doorbell in staying {
        bells::remove(watch, doorbell);
    }
    pause(Duration::from_micros(200));
    removed.check();
    end(watch, vm, vcpus, sandbox);
}

/// Makes a guest jump, and kicks it if it has not ended after some time; returns how it ended.
fn make<H: Hypervisor>(h: &H, jump: Jump, kicked_after: Duration) -> Result<VmExit, String> {
    let (vm, sandbox) = with_sandbox(h, &VmConfig::default());
    let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
    let deadline = Deadline::new(Instant::now() + kicked_after, vcpu.kick_handle()).unwrap();
    let result = vcpu.run(VmEntry::Resume).map_err(|error| chain(&error));
    drop(deadline);
    drop(vcpu);
    drop(vm);
    await_gone(sandbox);
    result
}

pub fn the_stubs_own_system_calls_are_no_way_out<H: Hypervisor>(h: &H) {
    let calls = [
        ("openat", (257, [100_u64.wrapping_neg(), AREA, 0, 0])),
        ("write to standard output", (1, [1, AREA, 8, 0])),
        ("write of 9 bytes", (1, [16, AREA, 9, 0])),
        ("write beyond the limit", (1, [0xffff_ffff, AREA, 8, 0])),
        ("mmap", (9, [0, 4096, 7, 0x22])),
        ("futex elsewhere", (202, [AREA, 1, 1, 0])),
        ("futex requeue", (202, [stub::layout::SHARED_BASE, 3, 1, 0])),
        ("kill", (62, [1, 9, 0, 0])),
        ("rt_sigreturn", (15, [0; 4])),
        ("openat of x32", (257 | 1 << 30, [0; 4])),
    ];
    let gadgets = syscalls();
    assert!(gadgets.len() > 3, "{gadgets:x?}");
    // Tries every gadget for one call, and every call for one gadget.
    let all_gadgets = gadgets.iter().map(|gadget| (calls[0], *gadget));
    for ((name, (number, arguments)), gadget) in
        all_gadgets.chain(calls.into_iter().map(|call| (call, gadgets[0])))
    {
        let end = make(h, Jump::call(gadget, number, arguments), HANG).expect_err(name);
        assert!(end.contains("SIGSYS"), "{name} at {gadget:#x}: {end}");
    }
}

pub fn a_jump_to_the_stubs_exit_is_an_end_with_its_code<H: Hypervisor>(h: &H) {
    let end = make(h, Jump::call(syscalls()[0], 231, [42, 0, 0, 0]), HANG).expect_err("an end");
    assert!(end.contains("exit code 42"), "{end}");
    // Exits with the code of a failed start step, long after the start.
    let end = make(h, Jump::call(syscalls()[0], 231, [86, 0, 0, 0]), HANG).expect_err("an end");
    assert!(end.contains("exit code 86; the guest jumped"), "{end}");
}

/// From the middle of the exit sequence a guest may return to itself, fault or end the sandbox, but it must not block
/// or harm the monitor.
pub fn a_jump_into_the_exit_sequence_ends_somehow<H: Hypervisor>(h: &H) {
    let (begin, end) = (symbol("stub_entry"), symbol("stub_restorer"));
    let (base, bytes) = code();
    let skip = usize::try_from(begin - base).unwrap();
    let instructions: Vec<u64> = iced_x86::Decoder::with_ip(64, &bytes[skip..], begin, 0)
        .into_iter()
        .map(|instruction| instruction.ip())
        .take_while(|ip| *ip < end)
        .collect();
    assert!(instructions.len() > 50, "{instructions:x?}");
    for (index, target) in instructions.into_iter().enumerate() {
        let stack = [
            AREA + 0x8000,
            SLOT_BASE + SLOT_SIZE - 0x2000,
            0,
            SLOT_BASE + 0x1100,
        ][index % 4];
        let mut registers = [AREA + 0x4000; 16];
        registers[1] = SLOT_BASE;
        registers[4] = stack;
        // What ends the guest, if anything, depends on what the registers mean at that place.
        let _ = make(h, Jump { registers, target }, Duration::from_millis(100));
    }
}

const CODE: u64 = AREA + 0x1_0000;

pub fn a_trap_needs_no_stack<H: Hypervisor>(h: &H) {
    let slot = SLOT_BASE;
    let stacks = [
        0,
        8,
        1 << 63,
        u64::MAX,
        HOLE,
        0x10_0000,
        SHARED_BASE,
        slot,
        slot + 0x800,
        slot + SLOT_SIZE - 0x1000,
        slot + SLOT_SIZE - 0x4000,
        slot + SLOT_SIZE,
        slot + SLOT_SIZE + 0x8000,
    ];
    for (patch, rsp) in [PatchMode::Off, PatchMode::Int3]
        .into_iter()
        .flat_map(|patch| stacks.map(|rsp| (patch, rsp)))
    {
        let vm = configured(
            h,
            VmConfig {
                patch,
                ..VmConfig::default()
            },
        );
        let mut registers = [0x55_u64; 16];
        registers[4] = rsp;
        vm.memory()
            .write_slice(programs::trapper().code, GuestAddress(CODE))
            .unwrap();
        let jump = Jump {
            registers,
            target: CODE,
        };
        let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
        let mut next = || {
            step(&mut vcpu, VmEntry::Data(0x66)).unwrap_or_else(|error| panic!("{rsp:#x}: {error}"))
        };
        assert_eq!(
            next(),
            VmExit::PioOut {
                port: 0x77,
                len: 1,
                data: 0x55
            },
            "{rsp:#x}"
        );
        assert_eq!(next(), VmExit::PioIn { port: 0x77, len: 1 }, "{rsp:#x}");
        assert_eq!(
            next(),
            VmExit::PioOut {
                port: DONE_PORT,
                len: 4,
                data: 0x66
            },
            "{rsp:#x}"
        );
        match next() {
            VmExit::Fault(fault) => assert_eq!(fault.bytes[0], 0x50, "{rsp:#x}: {fault}"),
            // The guest had written over the backend's own memory.
            VmExit::Halt => assert!(rsp > SHARED_BASE, "{rsp:#x}"),
            exit => panic!("{rsp:#x}: {exit:x?}"),
        }
    }
}

/// Reports its stack pointer on [`DONE_PORT`], and halts.
const END: [u8; 9] = [
    0x89,
    0xe0, // mov eax, esp
    0xba,
    (DONE_PORT & 0xff) as u8,
    (DONE_PORT >> 8) as u8,
    0,
    0,    // mov edx, the port
    0xef, // out dx, eax
    0xf4, // hlt
];

pub fn a_jump_needs_no_stack<H: Hypervisor>(h: &H) {
    const RAM: u64 = 0x10_0000;
    // The last bounds have room for only a part of the frames of direct code.
    let bounds = [
        128, 136, 144, 176, 184, 200, 208, 264, 464, 465, 472, 0x1000,
    ];
    let stacks = [0, 8, 1 << 63, u64::MAX, HOLE, HOLE + 0x2000];
    let stacks = stacks.into_iter().chain(bounds.map(|bytes| RAM + bytes));
    // The same with `mov [rbx], al` instead of the `out`.
    let mut stores = OUTPUTS;
    stores[5..7].copy_from_slice(&[0x88, 0x03]);
    let ways = [
        (OUTPUTS, IoEventAddress::Pio(0x42)),
        (stores, IoEventAddress::Mmio(HOLE)),
    ];
    let ways = ways.into_iter().flat_map(|way| [(1, way), (2, way)]);
    for ((vcpus, (rings, address)), rsp) in
        ways.flat_map(|way| stacks.clone().map(move |rsp| (way, rsp)))
    {
        let vm = configured(
            h,
            VmConfig {
                patch: PatchMode::Jmp,
                vcpus,
                ..VmConfig::default()
            },
        );
        let event = event();
        let _doorbell = vm
            .register_ioevent(&event, address, Datamatch::AnyLength, Sharing::Exclusive)
            .unwrap();
        let mut registers = [0x55_u64; 16];
        registers[3] = HOLE;
        registers[4] = rsp;
        let code = [&rings[..], &END].concat();
        vm.memory().write_slice(&code, GuestAddress(CODE)).unwrap();
        let jump = Jump {
            registers,
            target: CODE,
        };
        let mut vcpu = jumps::take(&vm, 0, &[jump], 0);
        let exit =
            step(&mut vcpu, VmEntry::Resume).unwrap_or_else(|error| panic!("{rsp:#x}: {error}"));
        let done = VmExit::PioOut {
            port: DONE_PORT,
            len: 4,
            data: (rsp & 0xffff_ffff) as u32,
        };
        assert_eq!(
            (exit, count(&event)),
            (done, 40),
            "{address}, {vcpus} vcpus, {rsp:#x}"
        );
    }
}
