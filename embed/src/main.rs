//! A VMM in one file. Its exit loop over KVM asks vmbell which doorbell or device an access is for.
//!
//! Doorbells come first, as in the kernel: a write that rings reaches no device. KVM's ioeventfds cannot express this
//! group: one doorbell for any value and one for a single value. A VMM registers a doorbell that KVM can express with
//! `VmFd::register_ioevent`, and then there is no exit. After the doorbells, the bus finds the device.
//!
//! The loop runs on the vCPU's thread. Neither lookup takes a lock, and another thread may add and remove devices and
//! doorbells meanwhile.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmbell::bus::{Bus, BusDevice, BusRange};
use vmbell::doorbell::{Datamatch, DoorbellSet, IoEventAddress, Sharing};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};

/// The address of the guest's code and only memory.
const CODE: u64 = 0x1000;
const MEMORY: usize = 0x1000;
/// The port that rings.
const BELL: u16 = 0x510;
/// The address of the register, where the guest has no memory.
const REGISTER: u64 = 0x8000;

/// The guest's code, for real mode.
const GUEST: &[u8] = &[
    0xba, 0x10, 0x05, //             mov dx, BELL
    0xb8, 0x06, 0x00, //             mov ax, 6
    0xef, //                         out dx, ax
    0xb8, 0x07, 0x00, //             mov ax, 7
    0xef, //                         out dx, ax
    0xc6, 0x06, 0x00, 0x80, 0x2a, // mov byte [REGISTER], 42
    0xa0, 0x00, 0x80, //             mov al, [REGISTER]
    0xe6, 0x80, //                   out 0x80, al
    0xf4, //                         hlt
];

/// A device with one register.
struct Register(AtomicU8);

impl BusDevice for Register {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(self.0.load(Relaxed));
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        if let [value, ..] = data {
            self.0.store(*value, Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (any, seven) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
    let doorbells = DoorbellSet::new();
    let bell = IoEventAddress::Pio(BELL);
    doorbells.register(&any, bell, Datamatch::U16(None), Sharing::Group)?;
    doorbells.register(&seven, bell, Datamatch::U16(Some(7)), Sharing::Group)?;

    let register = Arc::new(Register(AtomicU8::new(0)));
    let (ports, memory_mapped) = (Bus::new(), Bus::new());
    memory_mapped.insert(BusRange::new(REGISTER, 1)?, Arc::clone(&register) as _)?;
    let code = Arc::new(Register(AtomicU8::new(0)));
    ports.insert(BusRange::new(0x80, 1)?, Arc::clone(&code) as _)?;

    let (vm, memory) = create_vm()?;
    let mut vcpu = vm.create_vcpu(0)?;
    start_at_code(&vcpu)?;
    run(&mut vcpu, &doorbells, &ports, &memory_mapped)?;
    drop((vcpu, vm, memory));

    // Reading an eventfd returns the number of rings and resets it.
    let counts = [any.read()?, seven.read()?];
    println!(
        "rings: {} of any value, {} of the value 7",
        counts[0], counts[1]
    );
    println!(
        "the register has {}, and port 0x80 {}",
        register.0.load(Relaxed),
        code.0.load(Relaxed)
    );
    assert_eq!((counts, code.0.load(Relaxed)), ([2, 1], 42));
    Ok(())
}

/// Runs a vCPU's exit loop.
fn run(
    vcpu: &mut VcpuFd,
    doorbells: &DoorbellSet,
    ports: &Bus,
    memory_mapped: &Bus,
) -> Result<(), Box<dyn Error>> {
    let mut bell = doorbells.bell();
    let (mut ports, mut memory_mapped) = (ports.reader(), memory_mapped.reader());
    loop {
        let exit = vcpu.run()?;
        let is_claimed = match exit {
            VcpuExit::IoOut(port, data) => {
                bell.ring(IoEventAddress::Pio(port), data) || ports.write(port.into(), data)
            }
            VcpuExit::MmioWrite(address, data) => {
                bell.ring(IoEventAddress::Mmio(address), data) || memory_mapped.write(address, data)
            }
            VcpuExit::IoIn(port, data) => ports.read(port.into(), data),
            VcpuExit::MmioRead(address, data) => memory_mapped.read(address, data),
            VcpuExit::Hlt => return Ok(()),
            other => return Err(format!("the guest exits with {other:?}").into()),
        };
        if !is_claimed {
            return Err("the guest accesses what is not there".into());
        }
    }
}

/// Creates a VM with the guest's code in its memory.
fn create_vm() -> Result<(VmFd, GuestMemoryMmap), Box<dyn Error>> {
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(CODE), MEMORY)])?;
    memory.write_slice(GUEST, GuestAddress(CODE))?;
    let vm = Kvm::new()?.create_vm()?;
    let slot = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: CODE,
        memory_size: MEMORY as u64,
        userspace_addr: memory.get_host_address(GuestAddress(CODE))? as u64,
    };
    // SAFETY: `memory` is mapped for longer than the VM and its vCPU are open (see `main`), and the guest alone uses it.
    unsafe { vm.set_user_memory_region(slot)? };
    Ok((vm, memory))
}

/// Puts a vCPU at the guest's code, in real mode with segments that begin at 0.
fn start_at_code(vcpu: &VcpuFd) -> Result<(), Box<dyn Error>> {
    let mut segments = vcpu.get_sregs()?;
    (segments.cs.base, segments.cs.selector) = (0, 0);
    vcpu.set_sregs(&segments)?;
    let mut registers = vcpu.get_regs()?;
    (registers.rip, registers.rflags) = (CODE, 2);
    vcpu.set_regs(&registers)?;
    Ok(())
}
