use std::sync::Arc;

use anyhow::{Context, Result};
use my_vmm::{open, uses_kvm};
use vmbell::bus::BusRange;
use vmbell::memory::{Bytes, GuestAddress};
use vmbell_devices::Output;
use vmbell_devices::virtio::mmio::{Interrupt, Location, VirtioMmio, register};
use vmbell_devices::virtio::{
    Handled, Handler, HandlerError, Notify, Request, VirtioConfig, VirtioDevice,
};
use vmbell_hypervisor::VmConfig;
use vmbell_virtqueue::{Buffer, Features, SplitDriver, SplitLayout};
use vmbell_vmm::{Machine, Pc, PcConfig, Transport};

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

fn main() -> Result<()> {
    let hypervisor = open()?;
    // The thread that writes to QUEUE_NOTIFY serves the queue. The default is an ioeventfd and a thread.
    let config = VirtioConfig {
        notify: Notify::Exit,
        ..VirtioConfig::default()
    };
    let device = VirtioDevice::new(Upper, 1, config);
    if uses_kvm() {
        let pc = Pc::new(&*hypervisor, PcConfig::default(), &Output::stdout()?)?;
        pc.add(device, Transport::Mmio)?;
        drive(pc.machine(), pc.virtio_mmio()[0].address)
    } else {
        let machine = Machine::new(hypervisor.create_vm(&VmConfig::default())?);
        let (memory, backlog) = (machine.vm().memory(), machine.backlog.clone());
        let device = VirtioMmio::new(device, memory, Interrupt::default(), backlog)?;
        let range = BusRange::new(0xd000_0000, Location::LEN)?;
        machine.mmio.insert(range, Arc::new(device))?;
        drive(&machine, range.first())
    }
}

// A type for this queue, so that the compiler refuses a poll token of another queue.
vmbell_virtqueue::queue_brand!(Requests);

/// The ring in guest memory, and the buffers of a request and its answer.
const RING: SplitLayout = SplitLayout::contiguous(0x20_0000, 8);
const REQUEST: GuestAddress = GuestAddress(0x20_1000);
const ANSWER: GuestAddress = GuestAddress(0x20_2000);

/// Does what a guest's driver does: accesses the registers on the bus, and the ring and buffers in guest memory.
fn drive(machine: &Machine, registers: u64) -> Result<()> {
    let mut bus = machine.mmio.reader();
    let mut set = |register, value: u32| {
        let is_found = bus.write(registers + register, &value.to_le_bytes());
        assert!(is_found, "no device has the register {register:#x}");
    };
    let memory = machine.vm().memory();
    let brand = Requests::take().context("the queue has a driver already")?;
    let mut driver = SplitDriver::new(&memory, &RING, Features::default(), brand)?;

    set(register::STATUS, 1 | 2); // ACKNOWLEDGE, DRIVER
    set(register::DRIVER_FEATURES_SEL, 1);
    set(register::DRIVER_FEATURES, 1); // VIRTIO_F_VERSION_1 (bit 32)
    set(register::STATUS, 1 | 2 | 8); // FEATURES_OK
    set(register::QUEUE_SEL, 0);
    set(register::QUEUE_SIZE, RING.size.into());
    set(register::QUEUE_DESC[0], u32::try_from(RING.descriptors)?);
    set(register::QUEUE_DRIVER[0], u32::try_from(RING.avail)?);
    set(register::QUEUE_DEVICE[0], u32::try_from(RING.used)?);
    set(register::QUEUE_READY, 1);
    set(register::STATUS, 1 | 2 | 8 | 4); // DRIVER_OK

    memory.write_slice(b"ring the bell", REQUEST)?;
    driver.add(
        &[Buffer::new(REQUEST.0, 13)],
        &[Buffer::new(ANSWER.0, 64)],
        (),
    )?;
    set(register::QUEUE_NOTIFY, 0);

    let used = driver.get_used()?.context("the device has not answered")?;
    let mut answer = vec![0; used.len as usize];
    memory.read_slice(&mut answer, ANSWER)?;
    println!("the device answers {:?}", String::from_utf8(answer)?);
    Ok(())
}
