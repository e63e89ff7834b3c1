//! Guests that write over the memory that they share with the monitor, while it raises interrupts, registers and
//! removes.

use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stub::layout::{Counters, MAX_VCPUS, RunPage, SHARED_BASE, SharedState, VcpuInterrupts};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{EntryPoint, Irqchip, Vcpu, Vm, VmConfig};

use crate::attack::batch::Attack;
use crate::attack::bells::{self, come_and_go, raise};
use crate::attack::random::{Random, pause};
use crate::attack::vcpus::{config, create, end, run_until};
use crate::attack::watch::Watch;
use testbed::jumps::base;
use testbed::taker::{self, Doing};
use testbed::{HOLE, event, programs};

#[test]
fn a_guest_may_write_over_all_that_it_shares() {
    Attack {
        name: "attack::scatter::a_guest_may_write_over_all_that_it_shares",
        rounds: 5,
        full: 300,
        round,
    }
    .run();
}

const CODE: u64 = 0x1000;
const WORDS: u64 = 0x2000;

/// Takes a vCPU that writes all over `size` bytes at `address`, these words among others.
pub fn take(
    vm: &Arc<dyn Vm>,
    index: u32,
    random: &mut Random,
    address: u64,
    size: u64,
    words: &[u64],
) -> Box<dyn Vcpu> {
    let at = |offset| GuestAddress(base(index) + offset);
    let mut all = words.to_vec();
    all.extend([
        0,
        1,
        2,
        4,
        7,
        u64::MAX,
        1 << 32,
        0xffff_ffff,
        random.below(64),
        random.word(),
        SHARED_BASE + random.below(size_of::<SharedState>() as u64),
        base(index),
        // Where the choices begin: anything but 0.
        random.word() | 1,
    ]);
    let bytes: Vec<u8> = all.iter().copied().flat_map(u64::to_le_bytes).collect();
    vm.memory().write_slice(&bytes, at(WORDS)).unwrap();
    vm.memory()
        .write_slice(programs::scatter().code, at(CODE))
        .unwrap();
    let parameters = Parameters {
        count: size,
        address,
        value: all.len() as u64 - 1,
        pause: base(index) + WORDS,
    };
    parameters.write(vm.memory(), at(0)).unwrap();
    let mut vcpu = vm.create_vcpu(index).unwrap();
    let entry = EntryPoint::Program {
        pc: base(index) + CODE,
        sp: base(index) + CODE,
        arguments: [base(index), 0],
    };
    vcpu.set_entry_point(entry).unwrap();
    vcpu
}

/// A part of the shared memory: its place and its size.
fn part(random: &mut Random) -> (u64, u64) {
    let run = offset_of!(SharedState, runs);
    let page = size_of::<RunPage>();
    let lapics = offset_of!(SharedState, lapics);
    let interrupts = run + offset_of!(RunPage, interrupts);
    let parts = [
        (0, size_of::<SharedState>()),
        (0, lapics),
        (lapics, (run - lapics) / MAX_VCPUS * 2),
        (run, 2 * page),
        (run, page),
        (run, offset_of!(RunPage, exit)),
        (run + offset_of!(RunPage, exit), 64),
        (interrupts, size_of::<VcpuInterrupts>()),
        (interrupts + offset_of!(VcpuInterrupts, mode), 8),
        (
            interrupts + offset_of!(VcpuInterrupts, pv_eoi),
            offset_of!(VcpuInterrupts, interrupt_handler),
        ),
        (run + offset_of!(RunPage, counters), size_of::<Counters>()),
        (run + offset_of!(RunPage, thread_id), 8),
    ];
    let (offset, size) = random.pick(&parts);
    (SHARED_BASE + offset as u64, size as u64)
}

fn round(watch: &'static Watch, random: &mut Random) {
    let config = VmConfig {
        vcpus: 2,
        patch: vmbell_hypervisor::PatchMode::Off,
        ..config(random, &[Irqchip::Full, Irqchip::Split])
    };
    let (vm, sandbox) = create(watch, &config);
    let port = IoEventAddress::Pio(0x501);
    let staying = vm
        .register_ioevent(&event(), port, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    let (doing, address) = random.pick(&[
        (Doing::Halts, 0),
        (Doing::Spins, 0),
        (Doing::Masks, 0),
        (Doing::Writes, 0x500),
        (Doing::Writes, 0x77),
        (Doing::Stores, HOLE),
        (Doing::Calls, 7),
    ]);
    let pins = if config.irqchip == Irqchip::Full {
        taker::PINS
    } else {
        0
    };
    let (address_of_part, size) = part(random);
    let mut vcpus = vec![
        taker::take(&vm, 0, doing, address, taker::PV_EOI | pins),
        take(&vm, 1, random, address_of_part, size, &[]),
    ];
    let over = Instant::now() + Duration::from_millis(50) + random.time(Duration::from_millis(300));
    let pauses = random.pick(&[Duration::from_micros(20), Duration::from_millis(2)]);
    let (mut first, mut second) = (random.fork(), random.fork());
    let removed = std::thread::scope(|scope| {
        for vcpu in &mut vcpus {
            scope.spawn(|| run_until(watch, vcpu, over));
        }
        scope.spawn(|| raise(watch, &vm, &mut first, pauses, over));
        come_and_go(watch, &vm, &mut second, pauses, over)
    });
    watch.call("exit_counts", || vm.measure().exit_counts());
    bells::remove(watch, staying);
    pause(Duration::from_micros(200));
    removed.check();
    end(watch, vm, vcpus, sandbox);
}
