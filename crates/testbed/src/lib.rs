//! What the integration tests of several crates share: tests of each backend, guests that play scripts, take interrupts
//! and make jumps, the guests' assembly (`guests/`), sandboxes as the host sees them, and a double of an assigned PCI
//! device.
//!
//! It uses the crates up to vmbell-vmm, so only integration tests can use it: to a crate's own unit tests, its types
//! are different types. Each function runs on the test's thread.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "for the usermode backend")
)]
#![allow(
    clippy::unwrap_used,
    reason = "an error of a test's own doing fails the test"
)]

pub mod assigned;
mod backends;
pub mod bells;
#[cfg(target_arch = "x86_64")]
pub mod jumps;
#[cfg(target_arch = "x86_64")]
pub mod logged;
#[cfg(target_arch = "x86_64")]
pub mod paper;
pub mod process;
pub mod programs;
pub mod script;
#[cfg(target_arch = "x86_64")]
pub mod symbols;
pub mod taker;

pub use backends::bounded;
pub use kit::wait::{HANG, await_that};
pub use vmbell_hypervisor::chain;
pub use vmbell_hypervisor::kvm::Kvm;
#[cfg(target_arch = "x86_64")]
pub use vmbell_usermode::Usermode;
pub use vmbell_vmm::{Deadline, done};

use std::sync::Arc;
use std::time::Instant;

use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::IoEventAddress;
use vmbell_guest::{CODE, PARAMETERS, Parameters, Program, STACK_TOP};
use vmbell_hypervisor::{
    Capability, EntryPoint, Error, Hypervisor, Kick, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Free RAM for a guest's data, 1 MiB from the start of RAM.
pub const AREA: u64 = PARAMETERS.0 + 0x10_0000;

/// A hole in guest memory.
pub const HOLE: u64 = 0xd000_0000;

/// How often a test repeats something to hit a race: a quarter of `native` in the lab, where an exit takes a hundred
/// times as long.
pub fn rounds(native: u64) -> u64 {
    // The lab sets this for the programs that it runs.
    let is_emulated = std::env::var_os("VMBELL_TIMING").is_some();
    if is_emulated { native / 4 } else { native }
}

/// Whether this backend can have doorbells at this kind of place.
pub fn has_doorbells_at<H: Hypervisor>(hypervisor: &H, place: IoEventAddress) -> bool {
    let capability = match place {
        IoEventAddress::Pio(_) => Capability::PioDoorbell,
        IoEventAddress::Mmio(_) => Capability::MmioDoorbell,
        IoEventAddress::Hypercall(_) => Capability::HypercallDoorbell,
    };
    hypervisor.support(capability).is_yes()
}

/// Creates a guest with the default configuration.
pub fn plain<H: Hypervisor>(hypervisor: &H) -> Arc<dyn Vm> {
    configured(hypervisor, VmConfig::default())
}

/// Creates a guest with this configuration.
pub fn configured<H: Hypervisor>(hypervisor: &H, config: VmConfig) -> Arc<dyn Vm> {
    hypervisor
        .create_vm(&config)
        .unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Creates an eventfd that does not block, as registrations require.
pub fn event() -> Arc<EventFd> {
    Arc::new(EventFd::new(EFD_NONBLOCK).unwrap())
}

/// Reads, and thereby resets, the count of an eventfd that does not block.
pub fn count(event: &EventFd) -> u64 {
    match event.read() {
        Ok(count) => count,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

/// Creates a vCPU that begins with a program.
pub fn start(
    vm: &Arc<dyn Vm>,
    program: Program,
    parameters: Parameters,
    index: u32,
) -> Box<dyn Vcpu> {
    vm.memory().write_slice(program.code, CODE).unwrap();
    parameters.write(vm.memory(), PARAMETERS).unwrap();
    begin(vm, index)
}

/// Creates a vCPU that begins with the program that is loaded.
pub fn begin(vm: &Arc<dyn Vm>, index: u32) -> Box<dyn Vcpu> {
    begin_at(vm, index, PARAMETERS)
}

/// Creates a vCPU that begins with the program that is loaded, and has its own page of parameters.
pub fn begin_at(vm: &Arc<dyn Vm>, index: u32, page: GuestAddress) -> Box<dyn Vcpu> {
    let mut vcpu = vm.create_vcpu(index).unwrap();
    let sp = STACK_TOP.0 + 0x1_0000 * u64::from(index);
    vcpu.set_entry_point(EntryPoint::Program {
        pc: CODE.0,
        sp,
        arguments: [page.0, index.into()],
    })
    .unwrap();
    vcpu
}

/// Kicks a vCPU whose guest has hung, until the returned value is dropped.
pub fn kick_if_hung(kick: Arc<dyn Kick>) -> Deadline {
    Deadline::new(Instant::now() + HANG, kick).unwrap()
}

/// Runs a vCPU once. If the guest hangs, the exit is a kick.
pub fn step(vcpu: &mut Box<dyn Vcpu>, entry: VmEntry) -> Result<VmExit, Error> {
    let _unless_done = kick_if_hung(vcpu.kick_handle());
    vcpu.run(entry)
}

/// Runs a vCPU until it says that it is done, and returns the exits before that. `answer` answers reads.
pub fn run_to_done(
    vcpu: &mut Box<dyn Vcpu>,
    mut answer: impl FnMut(&VmExit) -> VmEntry,
) -> Vec<VmExit> {
    let _unless_done = kick_if_hung(vcpu.kick_handle());
    let mut exits = Vec::new();
    let mut entry = VmEntry::Resume;
    loop {
        let exit = vcpu
            .run(entry)
            .unwrap_or_else(|error| panic!("{}, after {exits:x?}", chain(&error)));
        match exit {
            exit if done(&exit).is_some() => return exits,
            VmExit::Fault(fault) => panic!("{fault}, after {exits:x?}"),
            VmExit::Kicked => panic!("the guest hangs, after {} exits", exits.len()),
            exit => {
                entry = answer(&exit);
                exits.push(exit);
            }
        }
    }
}

/// [`run_to_done`] for guests that read nothing.
pub fn run(vcpu: &mut Box<dyn Vcpu>) -> Vec<VmExit> {
    run_to_done(vcpu, |_| VmEntry::Resume)
}

/// Runs a vCPU until it ends in a fault, and returns the fault.
pub fn fault(vcpu: &mut Box<dyn Vcpu>) -> vmbell_hypervisor::Fault {
    match step(vcpu, VmEntry::Resume) {
        Ok(VmExit::Fault(fault)) => *fault,
        Ok(exit) => panic!("no fault but {exit:x?}"),
        Err(error) => panic!("no fault but {}", chain(&error)),
    }
}
