use std::sync::Arc;
use std::thread;

use anyhow::Result;
use my_vmm::{create, run};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::irq::{Gsi, Msi, Route, Target};
use vmbell_guest::{CODE, HANDLER};

vmbell_guest::guest_programs! {
    guest = "apic.S" "interrupt.S";
}

fn main() -> Result<()> {
    let (vm, mut vcpu) = create(guest())?;
    vcpu.set_interrupt_handler(CODE.0 + HANDLER)?;

    // Guest to host: any write of four bytes signals `rung`. A read of `rung` blocks until then.
    let rung = Arc::new(EventFd::new(0)?);
    let address = IoEventAddress::Mmio(0xd000_0000);
    let _doorbell =
        vm.register_ioevent(&rung, address, Datamatch::U32(None), Sharing::Exclusive)?;

    // Host to guest: `irqfd` raises GSI 24, which is routed to vector 0x51 of vCPU 0.
    let gsi = Gsi::new(24)?;
    let target = Target::Msi(Msi::fixed(0, 0x51));
    vm.set_routing(&[Route { gsi, target }])?;
    let irqfd = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let _registered = vm.register_irqfd(&irqfd, gsi, None)?;

    // The device: answers the doorbell with an interrupt.
    let device = thread::spawn(move || {
        let signals = rung.read()?;
        println!("device: {signals} signal, so it interrupts the guest");
        irqfd.write(1)
    });
    run(&mut *vcpu)?;
    device.join().expect("the device does not panic")?;
    Ok(())
}
