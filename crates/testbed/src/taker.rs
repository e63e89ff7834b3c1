//! A guest that takes interrupts and counts them by vector.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, VolatileMemory};
use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell_guest::{CODE, Parameters};
use vmbell_hypervisor::{
    Capability, Error, Hypervisor, Irqchip, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};

use crate::{AREA, await_that, begin_at, bells, chain, configured, done, programs};

/// What the guest does while it takes interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Counts rounds.
    Spins = 0,
    /// Halts in each round.
    Halts = 1,
    /// Writes to a bell.
    Writes = 2,
    /// Stores at an address.
    Stores = 3,
    /// Makes a hypercall.
    Calls = 4,
    /// Masks interrupts for a while.
    Masks = 5,
}

/// The guest uses PV EOI, which only x86-64 has: on arm64 this flag is 0.
pub const PV_EOI: u64 = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
/// The guest checks the red zone.
pub const RED_ZONE: u64 = 4;

/// Each interrupt takes one piece of work.
pub const WORK: u64 = 8;
/// Each interrupt that takes work writes to a bell.
pub const SAY_SO: u64 = 16;
/// GSI 4 is level-triggered and GSI 5 is edge-triggered. They are pins of the I/O APIC on x86-64, and SPIs on arm64,
/// which has them without this option too.
pub const PINS: u64 = 32;

/// The vector of the level-triggered line.
pub const LEVEL: u8 = 0x60;
/// The vector of the edge.
pub const EDGE: u8 = 0x61;
/// The bell on which an interrupt says that it took its work.
pub const SAID: u16 = 0x78;

const COUNTS: u64 = 0x800;
const SPARED: u64 = 0x7f0;
const RINGS: u64 = vmbell_guest::offset::RINGS as u64;

/// A guest with interrupt controllers.
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
pub fn take(vm: &Arc<dyn Vm>, index: u32, doing: Doing, address: u64, flags: u64) -> Box<dyn Vcpu> {
    vm.memory()
        .write_slice(programs::interrupts().code, CODE)
        .unwrap();
    let parameters = Parameters {
        count: flags,
        address: match doing {
            Doing::Writes => bells::number(address.try_into().unwrap()),
            _ => address,
        },
        value: doing as u64,
        pause: 0,
    };
    parameters.write(vm.memory(), page(index)).unwrap();
    here::prepare(vm, page(index));
    let mut vcpu = begin_at(vm, index, page(index));
    vcpu.set_interrupt_handler(CODE.0 + 16).unwrap();
    vcpu
}

/// A message for one vCPU.
pub fn msi(vcpu: u8, vector: u8) -> Msi {
    here::msi(vcpu, vector)
}

/// Whether messages interrupt a guest. Where they do not, sent messages and routes to messages are refused.
pub fn has_messages<H: Hypervisor>(h: &H) -> bool {
    let Support::No(reason) = h.support(Capability::Messages) else {
        return true;
    };
    assert!(reason.contains("has no ITS"), "{reason}");
    let vm = configured(h, with_interrupts(1));
    let message = msi(0, 0x40);
    let route = Route {
        gsi: Gsi::new(100).unwrap(),
        target: Target::Msi(message),
    };
    let sent = vm.signal_msi(message).map(drop);
    for error in [sent, vm.set_routing(&[route])].map(Result::unwrap_err) {
        let is_told = matches!(error, Error::Irq(IrqError::NoIts));
        assert!(is_told, "{}", chain(&error));
    }
    false
}

#[cfg(target_arch = "x86_64")]
mod here {
    use super::*;

    pub fn prepare(_: &Arc<dyn Vm>, _: GuestAddress) {}

    pub fn msi(vcpu: u8, vector: u8) -> Msi {
        Msi::fixed(vcpu, vector)
    }

    /// Interrupts a halted vCPU with [`LAST`]. Returns whether the vCPU takes the interrupt, now or later.
    pub fn wake(vm: &Arc<dyn Vm>, index: u32) -> bool {
        vm.signal_msi(msi(u8::try_from(index).unwrap(), LAST))
            .unwrap()
    }
}

#[cfg(target_arch = "aarch64")]
mod here {
    use super::*;
    use vmbell::irq::Gic;
    use vmbell_guest::{GicInterrupt, Interrupts, LpiMessage, offset};
    use vmbell_hypervisor::aarch64::ITS;

    /// Where the guest has its tables of messages.
    const TABLES: u64 = AREA + 0x10_0000;
    /// The first LPI.
    const LPI: u32 = 8192;
    /// The GSI that wakes vCPU 0; the GSIs of the other vCPUs follow. It is an SPI, which each GIC has.
    const WAKE: u32 = 8;

    /// Tells the guest which interrupt controllers it has, and where its bell is.
    pub fn prepare(vm: &Arc<dyn Vm>, page: GuestAddress) {
        let gic = vm.gic().unwrap();
        let message = LpiMessage {
            tables: TABLES,
            device: 0,
            event: 0,
        };
        let interrupts = Interrupts {
            gic: Some(GicInterrupt {
                gic,
                intid: LPI,
                level: false,
                message: (gic == Gic::V3).then_some(message),
            }),
            ..Interrupts::default()
        };
        interrupts.write(vm.memory(), page).unwrap();
        let place = GuestAddress(page.0 + offset::PIN as u64);
        vm.memory().write_obj(bells::number(SAID), place).unwrap();
    }

    /// The message's device is the vCPU's number, and its event is the vector.
    pub fn msi(vcpu: u8, vector: u8) -> Msi {
        Msi {
            address: ITS + 0x1_0040,
            data: vector.into(),
            device: Some(vcpu.into()),
        }
    }

    /// Interrupts a vCPU with [`LAST`]. It is not known whether the vCPU takes it.
    pub fn wake(vm: &Arc<dyn Vm>, index: u32) -> bool {
        let gsi = Gsi::new(WAKE + index).unwrap();
        vm.set_line(gsi, true).unwrap();
        vm.set_line(gsi, false).unwrap();
        false
    }
}

/// Returns how often a vCPU has taken a vector.
pub fn taken(vm: &Arc<dyn Vm>, index: u32, vector: u8) -> u64 {
    word(vm, index, COUNTS + 8 * u64::from(vector))
}

/// Returns how many EOIs a vCPU was spared.
pub fn spared(vm: &Arc<dyn Vm>, index: u32) -> u64 {
    word(vm, index, SPARED)
}

/// Returns how much work waits for a vCPU.
pub fn work(vm: &Arc<dyn Vm>, index: u32) -> u64 {
    word(vm, index, 0x7d0)
}

/// Waits until a vCPU has done all its work, with a separate wait for each piece.
pub fn await_all_work(vm: &Arc<dyn Vm>, index: u32) {
    let mut left = work(vm, index);
    while left > 0 {
        await_that("a piece of work", || work(vm, index) < left);
        left = work(vm, index);
    }
}

/// Gives a vCPU one more piece of work.
pub fn add_work(vm: &Arc<dyn Vm>, index: u32) {
    let place = GuestAddress(page(index).0 + 0x7d0);
    let slice = vm.memory().get_slice(place, 8).unwrap();
    let word = slice.get_atomic_ref::<AtomicU64>(0).unwrap();
    word.fetch_add(1, SeqCst);
}

/// Returns how many interrupts found no work.
pub fn spurious(vm: &Arc<dyn Vm>, index: u32) -> u64 {
    word(vm, index, 0x7c8)
}

/// Returns how many rounds a vCPU has made.
pub fn rounds(vm: &Arc<dyn Vm>, index: u32) -> u64 {
    word(vm, index, RINGS)
}

/// A word of a vCPU's page.
pub fn word(vm: &Arc<dyn Vm>, index: u32, offset: u64) -> u64 {
    let place = GuestAddress(page(index).0 + offset);
    vm.memory().load(place, SeqCst).unwrap()
}

/// Tells a vCPU to end.
pub fn stop(vm: &Arc<dyn Vm>, index: u32) {
    let place = GuestAddress(page(index).0 + vmbell_guest::offset::PAUSE as u64);
    vm.memory().write_obj(1_u64, place).unwrap();
}

/// Runs a vCPU until it is done, and calls `see` at each exit before that. Fails if a register changed.
pub fn run_to_end(vcpu: &mut Box<dyn Vcpu>, see: &(impl Fn(&VmExit) + Sync)) {
    loop {
        match vcpu.run(VmEntry::Resume) {
            Ok(exit) if done(&exit).is_some() => {
                assert_eq!(done(&exit), Some(0), "a register changed");
                return;
            }
            Ok(VmExit::Fault(fault)) => panic!("{fault}"),
            Ok(exit) => see(&exit),
            Err(error) => panic!("{}", chain(&error)),
        }
    }
}

/// Runs each vCPU on its own thread while `meanwhile` runs, then ends the vCPUs.
pub fn while_running(vm: &Arc<dyn Vm>, vcpus: Vec<Box<dyn Vcpu>>, meanwhile: impl FnOnce()) {
    while_running_and_seeing(vm, vcpus, &|_| {}, meanwhile);
}

/// Like [`while_running`], and calls `see` at each exit.
pub fn while_running_and_seeing(
    vm: &Arc<dyn Vm>,
    vcpus: Vec<Box<dyn Vcpu>>,
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
        // The guests are ended even if `meanwhile` panics.
        let result = catch_unwind(AssertUnwindSafe(meanwhile));
        for index in 0..count {
            stop(vm, index);
            // A halted vCPU sees the request when it is woken.
            here::wake(vm, index);
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

/// Wakes a guest that halts, which makes no round before its first interrupt. Returns whether it did.
fn is_halted_at_start(vm: &Arc<dyn Vm>, index: u32) -> bool {
    let doing = word(vm, index, vmbell_guest::offset::VALUE as u64);
    if doing == Doing::Halts as u64 {
        std::thread::sleep(Duration::from_millis(5));
        return here::wake(vm, index);
    }
    false
}
