use std::sync::Arc;

use anyhow::{Result, bail};
use my_vmm::create;
use vmbell::bus::BusRange;
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::irq::{Gsi, Msi, Route, Target};
use vmbell::memory::{Bytes, GuestAddress};
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{Handled, Handler, HandlerError, Request, VirtioConfig, VirtioDevice};
use vmbell_guest::{CODE, HANDLER};
use vmbell_vmm::{Machine, Stop};

/// Answers each request with its text in upper case, up to 256 bytes.
struct Upper;

impl Handler for Upper {
    const DEVICE_ID: u32 = 0xfffe; // not assigned by the virtio specification
    const NAME: &'static str = "virtio-upper";

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let mut text = [0; 256];
        let read = request.readable().read(&mut text);
        text.make_ascii_uppercase();
        let written = request.writable().write(&text[..read]);
        Ok(request.complete(written))
    }
}

/// Plugs the device into the machine.
fn plug(machine: &Machine) -> Result<()> {
    let (address, gsi) = (0xd000_0000, Gsi::new(24)?);
    let target = Target::Msi(Msi::fixed(0, 0x51));
    machine.vm().set_routing(&[Route { gsi, target }])?;
    let irqfd = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let irqfd = machine.vm().register_irqfd(&irqfd, gsi, None)?;

    let device = VirtioDevice::new(Upper, 1, VirtioConfig::default());
    let (memory, backlog) = (machine.vm().memory(), machine.backlog.clone());
    let mut device = VirtioMmio::new(device, memory, Interrupt::new(Box::new(irqfd)), backlog)?;
    device.register_doorbells(&**machine.vm(), address)?;
    let range = BusRange::new(address, register::LEN)?;
    Ok(machine.mmio.insert(range, Arc::new(device))?)
}

vmbell_guest::guest_programs! {
    guest = "apic.S" "device.S";
}

fn main() -> Result<()> {
    let (vm, mut vcpu) = create(guest())?;
    vcpu.set_interrupt_handler(CODE.0 + HANDLER)?;
    let machine = Machine::new(vm);
    plug(&machine)?;
    let Stop::Done(len) = machine.runner(&mut *vcpu).run()? else {
        bail!("the guest stopped before it was done");
    };
    let mut answer = vec![0; len as usize];
    let memory = machine.vm().memory();
    memory.read_slice(&mut answer, GuestAddress(0x20_1000))?;
    println!("the guest has {:?}", String::from_utf8(answer)?);
    Ok(())
}
