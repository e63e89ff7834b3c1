//! A VMM of a few lines: a guest rings a doorbell, and the host reads the eventfd.
//!
//! `cargo run -p vmbell-vmm --example doorbell` uses KVM if it can, otherwise the usermode backend.

use std::error::Error;
use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Capability, EntryPoint, Hypervisor, VmConfig, VmEntry, VmExit};

/// The device's register: any address without RAM, so that an access leaves the guest.
const NOTIFY: u64 = 0xd000_0000;

/// The guest's code, for 64-bit mode: it stores 7 to the register, then 8, and halts.
const PROGRAM: [u8; 18] = [
    0xbf, 0x00, 0x00, 0x00, 0xd0, // mov edi, 0xd0000000
    0xc7, 0x07, 7, 0, 0, 0, // mov dword ptr [rdi], 7
    0xc7, 0x07, 8, 0, 0, 0,    // mov dword ptr [rdi], 8
    0xf4, // hlt
];

/// Runs the guest on one backend. Returns the count of the eventfd and the stored values that reached the VMM.
pub fn ring(hypervisor: &dyn Hypervisor) -> Result<(u64, Vec<u64>), Box<dyn Error>> {
    // A guest with one vCPU and 16 MiB of RAM, which begins at 1 MiB.
    let config = VmConfig::default();
    let vm = hypervisor.create_vm(&config)?;
    let start = GuestAddress(config.ram_base);
    vm.memory().write_slice(&PROGRAM, start)?;

    // A four-byte store of 7 signals this eventfd: the vCPU continues at once, and the VMM is not involved. The
    // doorbell is removed when the returned value is dropped.
    let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let doorbell = vm.register_ioevent(
        &event,
        IoEventAddress::Mmio(NOTIFY),
        Datamatch::U32(Some(7)),
        Sharing::Exclusive,
    )?;

    let mut vcpu = vm.create_vcpu(0)?;
    vcpu.set_entry_point(EntryPoint::Program {
        pc: start.0,
        sp: start.0 + config.ram_size,
        arguments: [0, 0],
    })?;
    // The exit loop: each return is an access or an event that the VMM has to answer.
    let mut stores = Vec::new();
    loop {
        match vcpu.run(VmEntry::Resume)? {
            VmExit::MmioWrite { data, .. } => stores.push(data),
            VmExit::Halt => break,
            exit => return Err(format!("the guest left with {exit:?}").into()),
        }
    }
    Ok((doorbell.event().read()?, stores))
}

/// Chooses the backend and says what happened.
pub fn main() -> Result<(), Box<dyn Error>> {
    let chosen = vmbell_vmm::choose_backend(&[Capability::Run, Capability::MmioDoorbell])?;
    let (rings, stores) = ring(&*chosen.hypervisor)?;
    println!(
        "{}: the doorbell rang {rings} time",
        chosen.hypervisor.name()
    );
    println!("stores that no doorbell took: {stores:?}");
    Ok(())
}
