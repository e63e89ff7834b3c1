//! What the programs of this VMM share: the backend, a guest with one vCPU, and the exit loop.

use std::sync::Arc;

use anyhow::{Result, bail};
use vmbell_guest::Program;
use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::x86_64::DONE_PORT;
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, Vm, VmConfig, VmEntry, VmExit};
use vmbell_usermode::Usermode;

/// Creates a guest with 16 MiB of RAM and interrupt controllers, whose vCPU will run `program`.
pub fn create(program: Program) -> Result<(Arc<dyn Vm>, Box<dyn Vcpu>)> {
    let hypervisor: Box<dyn Hypervisor> = match std::env::args().nth(1).as_deref() {
        Some("kvm") => Box::new(Kvm::open()?),
        _ => Box::new(Usermode),
    };
    let vm = hypervisor.create_vm(&VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    })?;
    let mut vcpu = vm.create_vcpu(0)?;
    vcpu.set_entry_point(program.load(vm.memory(), 0)?)?;
    Ok((vm, vcpu))
}

/// Runs the vCPU until the guest writes to DONE_PORT. Prints each write that exits to the VMM.
pub fn run(vcpu: &mut dyn Vcpu) -> Result<()> {
    loop {
        match vcpu.run(VmEntry::Resume)? {
            VmExit::PioOut {
                port: DONE_PORT, ..
            } => return Ok(()),
            VmExit::PioOut { port, data, .. } => {
                println!("exit: write of {data:#x} to port {port:#x}");
            }
            VmExit::MmioWrite { address, data, .. } => {
                println!("exit: write of {data:#x} to address {address:#x}");
            }
            VmExit::Fault(fault) => bail!("the guest has a fault: {fault}"),
            exit => bail!("cannot answer: {exit}"),
        }
    }
}
