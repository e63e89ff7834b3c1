//! A guest that takes interrupts and counts them by vector.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, VolatileMemory};
use vmbell::guest::{DONE_PORT, Parameters};
use vmbell::hypervisor::{Irqchip, Vcpu, Vm, VmConfig, VmEntry, VmExit};
use vmbell::irq::Msi;
use vmbell::machine::CODE;

use super::{AREA, LIMIT, begin_at, chain, programs};

/// What the guest does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Spins = 0,
    Halts = 1,
    Writes = 2,
    Stores = 3,
    Calls = 4,
    Masks = 5,
}

/// PV EOI.
pub const PV_EOI: u64 = 1;
/// The red zone is looked after.
pub const RED_ZONE: u64 = 4;

/// Each interrupt takes one piece of work.
pub const WORK: u64 = 8;
/// And says so on a port.
pub const SAY_SO: u64 = 16;
/// The I/O APIC has a level pin, 4, and an edge pin, 5.
pub const PINS: u64 = 32;

/// The level pin's vector.
pub const LEVEL: u8 = 0x60;
/// The edge pin's vector.
pub const EDGE: u8 = 0x61;
/// The port on which an interrupt says that it took its work.
pub const SAID: u16 = 0x78;

const COUNTS: u64 = 0x800;
const SPARED: u64 = 0x7f0;
const RINGS: u64 = vmbell::guest::offset::RINGS as u64;

/// A guest with local APICs.
pub fn with_interrupts(vcpus: u32) -> VmConfig {
    VmConfig {
        irqchip: Irqchip::Full,
        vcpus,
        ..VmConfig::default()
    }
}

/// Where a vCPU's parameters and counts are.
pub fn page(index: u32) -> GuestAddress {
    GuestAddress(AREA + 0x1000 * u64::from(index))
}

/// Takes a vCPU and lets it begin.
pub fn take<V: Vm>(vm: &V, index: u32, doing: Doing, address: u64, flags: u64) -> V::Vcpu {
    vm.memory()
        .write_slice(programs::interrupts().code, CODE)
        .unwrap();
    let parameters = Parameters {
        count: flags,
        address,
        value: doing as u64,
        pause: 0,
    };
    parameters.write(vm.memory(), page(index)).unwrap();
    let mut vcpu = begin_at(vm, index, page(index));
    vcpu.set_interrupt_handler(CODE.0 + 16).unwrap();
    vcpu
}

/// A message for one vCPU.
pub fn msi(vcpu: u8, vector: u8) -> Msi {
    Msi::fixed(vcpu, vector)
}

/// How often a vCPU has taken a vector.
pub fn taken<V: Vm>(vm: &V, index: u32, vector: u8) -> u64 {
    word(vm, index, COUNTS + 8 * u64::from(vector))
}

/// How many EOIs a vCPU was spared.
pub fn spared<V: Vm>(vm: &V, index: u32) -> u64 {
    word(vm, index, SPARED)
}

/// How much work waits for a vCPU.
pub fn work<V: Vm>(vm: &V, index: u32) -> u64 {
    word(vm, index, 0x7d0)
}

/// Gives a vCPU one more piece of work.
pub fn add_work<V: Vm>(vm: &V, index: u32) {
    let place = GuestAddress(page(index).0 + 0x7d0);
    let slice = vm.memory().get_slice(place, 8).unwrap();
    let word = slice.get_atomic_ref::<AtomicU64>(0).unwrap();
    word.fetch_add(1, SeqCst);
}

/// How many interrupts found none.
pub fn spurious<V: Vm>(vm: &V, index: u32) -> u64 {
    word(vm, index, 0x7c8)
}

/// How many rounds a vCPU has made.
pub fn rounds<V: Vm>(vm: &V, index: u32) -> u64 {
    word(vm, index, RINGS)
}

pub fn word<V: Vm>(vm: &V, index: u32, offset: u64) -> u64 {
    let place = GuestAddress(page(index).0 + offset);
    vm.memory().load(place, SeqCst).unwrap()
}

/// Waits for something to become true.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT / 3;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Tells a vCPU to end.
pub fn stop<V: Vm>(vm: &V, index: u32) {
    let place = GuestAddress(page(index).0 + vmbell::guest::offset::PAUSE as u64);
    vm.memory().write_obj(1_u64, place).unwrap();
}

/// Runs a vCPU to its end, tells `see` of each exit before that, and fails if a register changed.
pub fn run_to_end<C: Vcpu>(vcpu: &mut C, see: &(impl Fn(&VmExit) + Sync)) {
    loop {
        match vcpu.run(VmEntry::Resume) {
            Ok(VmExit::PioOut {
                port: DONE_PORT,
                data,
                ..
            }) => {
                assert_eq!(data, 0, "a register changed");
                return;
            }
            Ok(VmExit::Fault(fault)) => panic!("{fault}"),
            Ok(exit) => see(&exit),
            Err(error) => panic!("{}", chain(&error)),
        }
    }
}

/// Runs vCPUs on threads of their own while `meanwhile` does its part; then tells them to end.
pub fn while_running<V: Vm>(vm: &V, vcpus: Vec<V::Vcpu>, meanwhile: impl FnOnce()) {
    while_running_and_seeing(vm, vcpus, &|_| {}, meanwhile);
}

/// The same, and `see` is told of each exit.
pub fn while_running_and_seeing<V: Vm>(
    vm: &V,
    vcpus: Vec<V::Vcpu>,
    see: &(impl Fn(&VmExit) + Sync),
    meanwhile: impl FnOnce(),
) {
    let count = u32::try_from(vcpus.len()).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = vcpus
            .into_iter()
            .map(|mut vcpu| scope.spawn(move || run_to_end(&mut vcpu, see)))
            .collect();
        for (index, thread) in (0..count).zip(&threads) {
            await_that("the guest's first round", || {
                rounds(vm, index) > 0 || thread.is_finished() || is_halted_at_start(vm, index)
            });
        }
        // Whatever happens there, the guests end.
        let result = catch_unwind(AssertUnwindSafe(meanwhile));
        for index in 0..count {
            stop(vm, index);
            // A halted one looks when it is woken.
            vm.signal_msi(msi(u8::try_from(index).unwrap(), LAST))
                .unwrap();
        }
        for thread in threads {
            if result.is_ok() {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        }
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    });
}

/// The vector that wakes halted vCPUs at the end.
pub const LAST: u8 = 0xfe;

/// A guest that halts makes no round before its first interrupt.
fn is_halted_at_start<V: Vm>(vm: &V, index: u32) -> bool {
    let doing = word(vm, index, vmbell::guest::offset::VALUE as u64);
    if doing == Doing::Halts as u64 {
        std::thread::sleep(Duration::from_millis(5));
        return vm
            .signal_msi(msi(u8::try_from(index).unwrap(), LAST))
            .unwrap();
    }
    false
}
