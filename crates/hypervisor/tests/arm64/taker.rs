//! A guest that takes one interrupt repeatedly, and the thread that runs it.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{
    CODE, GicInterrupt, HANDLER, Interrupts, LpiMessage, PARAMETERS, Parameters, offset,
};
use vmbell_hypervisor::{Hypervisor, Irqchip, Vm, VmConfig, VmExit};

use crate::arm64::programs;
use testbed::{AREA, await_that, configured, run_to_done, start};

/// The shared peripheral interrupt of the tests, and the LPI.
pub const PIN: u8 = 17;
pub const INTID: u32 = 32 + PIN as u32;
pub const LPI: u32 = 8192 + 3;
/// The message of the LPI.
pub const MESSAGE: LpiMessage = LpiMessage {
    tables: AREA,
    device: 0x42,
    event: 5,
};

/// A guest with interrupt controllers.
pub fn with_interrupts<H: Hypervisor>(h: &H) -> Arc<dyn Vm> {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    configured(h, config)
}

/// Takes `target` interrupts while `meanwhile` runs, which begins when the guest is ready; returns the guest's exits.
/// If `tell` is not 0, the handler stores the INTID there.
pub fn take(
    vm: &Arc<dyn Vm>,
    kind: (u32, bool),
    tell: u64,
    target: u64,
    meanwhile: impl FnOnce() + Send,
    mut exit: impl FnMut(&VmExit),
) -> Vec<VmExit> {
    let (intid, level) = kind;
    let interrupts = Interrupts {
        gic: Some(GicInterrupt {
            gic: vm.gic().unwrap(),
            intid,
            level,
            message: (intid >= 8192).then_some(MESSAGE),
        }),
        ..Interrupts::default()
    };
    interrupts.write(vm.memory(), PARAMETERS).unwrap();
    set(vm, offset::TARGET, target);
    let parameters = Parameters {
        address: tell,
        ..Parameters::default()
    };
    let mut vcpu = start(vm, programs::taker(), parameters, 0);
    vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            await_that("the guest to be ready", || word(vm, offset::READY) == 1);
            meanwhile();
        });
        let exits = run_to_done(&mut vcpu, |left| {
            exit(left);
            vmbell_hypervisor::VmEntry::Resume
        });
        other.join().unwrap();
        exits
    })
}

pub fn set(vm: &Arc<dyn Vm>, offset: usize, value: u64) {
    let place = GuestAddress(PARAMETERS.0 + offset as u64);
    vm.memory().write_obj(value, place).unwrap();
}

pub fn word(vm: &Arc<dyn Vm>, offset: usize) -> u64 {
    let place = GuestAddress(PARAMETERS.0 + offset as u64);
    vm.memory().read_obj(place).unwrap()
}

/// Returns how many interrupts the guest has taken.
pub fn taken(vm: &Arc<dyn Vm>) -> u64 {
    word(vm, offset::INTERRUPTS)
}
