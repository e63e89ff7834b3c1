//! A level-triggered interrupt through an irqfd with a resamplefd, as VFIO signals a PCI INTx: the device raises the
//! line, the guest's EOI lowers it and notifies the device, and a device that has more work raises it again.
//!
//! The guest is one of the library's own programs in a [`Machine`], which answers its exits.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use vmbell::bus::BusRange;
use vmbell::eventfd::EventFd;
use vmbell::irq::Gsi;
use vmbell_devices::{Hook, Listener};
use vmbell_guest::{CODE, HANDLER, Interrupts, PARAMETERS, Parameters, Results, VECTOR, programs};
use vmbell_hypervisor::{Capability, Hypervisor, IrqTrigger, Irqchip, VmConfig};
use vmbell_vmm::{Deadline, Machine, Stop};

/// The device's pin of the I/O APIC. Initially the GSI with the same number leads to it.
const PIN: u8 = 5;
/// What the guest writes to the pin's redirection entry: level-triggered, to vCPU 0, with this vector.
const ENTRY: u32 = 1 << 15 | VECTOR as u32;
/// The device's port. The guest's handler writes to it when it has done a piece of work, before its EOI.
const PORT: u16 = 0x510;

/// Lets a device interrupt the guest once for each piece of its `work`. Returns how many interrupts the guest took.
pub fn serve(hypervisor: &dyn Hypervisor, work: u32) -> Result<u64, Box<dyn Error>> {
    let machine = Machine::new(hypervisor.create_vm(&VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    })?);
    let entry = programs::interrupt_running().load(machine.vm().memory(), 0)?;
    Parameters {
        count: work.into(), // Interrupts that the program takes before it says that it is done.
        address: PORT.into(),
        ..Parameters::default()
    }
    .write(machine.vm().memory(), PARAMETERS)?;
    Interrupts {
        route: Some((PIN, ENTRY)),
        ..Interrupts::default()
    }
    .write(machine.vm().memory(), PARAMETERS)?;

    // The device on the bus: a write to its port is a piece of work done.
    let left = Arc::new(AtomicU32::new(work));
    let their_left = Arc::clone(&left);
    let done = move || {
        their_left.fetch_sub(1, SeqCst);
    };
    let range = BusRange::new(PORT.into(), 4)?;
    machine.pio.insert(range, Arc::new(Hook(done)))?;

    // The device's thread waits for the resamplefd, which says that the line is down: after an EOI, and perhaps after
    // the guest unmasks the pin. If there is still work, the thread raises the line again.
    let event = Arc::new(EventFd::new(0)?);
    let raise = Arc::clone(&event);
    let their_left = Arc::clone(&left);
    let resampled = move || {
        if their_left.load(SeqCst) > 0 {
            // Fails only if the count is at its limit, and then the line is raised anyway.
            let _ = raise.write(1);
        }
        false
    };
    let device = Listener::start(|| {}, resampled)?;
    let gsi = Gsi::new(PIN.into())?;
    // Dropping the returned value removes the irqfd.
    let irqfd = machine
        .vm()
        .register_irqfd(&event, gsi, Some(device.event()))?;

    let mut vcpu = machine.vm().create_vcpu(0)?;
    vcpu.set_entry_point(entry)?;
    vcpu.set_interrupt_handler(CODE.0 + HANDLER)?;
    // A guest that gets no interrupt would run forever: this kicks it out.
    let limit = Instant::now() + Duration::from_secs(30);
    let _deadline = Deadline::new(limit, vcpu.kick_handle())?;
    irqfd.signal();
    match machine.runner(&mut *vcpu).run()? {
        Stop::Done(_) => Ok(Results::read(machine.vm().memory(), PARAMETERS)?.interrupts),
        stop => Err(format!("the guest got too few interrupts: {stop}").into()),
    }
}

/// Chooses the backend and says what happened.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Not every KVM waits for the guest's EOI, so this capability is required.
    let chosen = vmbell_vmm::choose_backend(&[Capability::Interrupts, Capability::EndOfInterrupt])?;
    let (name, interrupts) = (chosen.hypervisor.name(), serve(&*chosen.hypervisor, 3)?);
    println!("{name}: 3 pieces of work, {interrupts} interrupts");
    Ok(())
}
