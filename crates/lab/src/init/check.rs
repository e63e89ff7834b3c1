//! Runs one guest that exits: a machine that was just saved has to be able to do this. Process 1 runs this before the
//! host gives the saved state its name.
#![allow(unsafe_code)]

use std::io;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// How many exits the guest has to make.
const EXITS: usize = 100;
const MEMORY: usize = 64 << 10;

/// `again: out 0x10, al; jmp again`, in real mode.
#[cfg(target_arch = "x86_64")]
const GUEST: [u8; 4] = [0xe6, 0x10, 0xeb, 0xfc];
/// `mov x1, #0x10000000; again: str wzr, [x1]; b again`. There is no memory at that address.
#[cfg(target_arch = "aarch64")]
const GUEST: [u8; 12] = [
    0x01, 0x00, 0xa2, 0xd2, 0x3f, 0x00, 0x00, 0xb9, 0xff, 0xff, 0xff, 0x17,
];

/// Runs the guest; the error says what failed.
pub fn run() -> io::Result<()> {
    let kvm = Kvm::new()?;
    let vm = kvm.create_vm()?;
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), MEMORY)])
        .map_err(io::Error::other)?;
    let host = memory.get_host_address(GuestAddress(0));
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: host.map_err(io::Error::other)? as u64,
    };
    // SAFETY: `memory` owns the mapping, and lives until after the last use of `vm`.
    unsafe { vm.set_user_memory_region(region) }?;
    memory
        .write_slice(&GUEST, GuestAddress(0))
        .map_err(io::Error::other)?;
    let mut vcpu = vm.create_vcpu(0)?;
    start_at_zero(&vm, &mut vcpu)?;
    for _ in 0..EXITS {
        match vcpu.run()? {
            VcpuExit::IoOut(0x10, _) | VcpuExit::MmioWrite(0x1000_0000, _) => {}
            other => {
                return Err(io::Error::other(format!("the guest's exit is {other:?}")));
            }
        }
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn start_at_zero(_: &VmFd, vcpu: &mut VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut special = vcpu.get_sregs()?;
    (special.cs.base, special.cs.selector) = (0, 0);
    vcpu.set_sregs(&special)?;
    let mut registers = vcpu.get_regs()?;
    registers.rip = 0;
    vcpu.set_regs(&registers)
}

#[cfg(target_arch = "aarch64")]
fn start_at_zero(vm: &VmFd, vcpu: &mut VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut target = kvm_bindings::kvm_vcpu_init::default();
    vm.get_preferred_target(&mut target)?;
    // The vCPU then starts at address 0.
    vcpu.vcpu_init(&target)
}
