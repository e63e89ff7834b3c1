use std::sync::Arc;

use anyhow::Result;
use my_vmm::{create, run};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};

vmbell_guest::guest_programs! {
    guest = "doorbell.S";
}

fn main() -> Result<()> {
    let (vm, mut vcpu) = create(guest())?;

    // A four-byte write of 7 signals the eventfd. Dropping the returned value removes the doorbell.
    let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let address = IoEventAddress::Mmio(0xd000_0000);
    let _doorbell =
        vm.register_ioevent(&event, address, Datamatch::U32(Some(7)), Sharing::Exclusive)?;

    run(&mut *vcpu)?;
    println!("the eventfd counted {} signals", event.read()?);
    Ok(())
}
