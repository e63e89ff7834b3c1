//! Describes why a guest ended: a fault, from what its exception vectors have left in memory, or a request to the
//! firmware.
//!
//! A vector writes the CPU's syndrome to the words of its vCPU and then makes an access that KVM cannot emulate (see
//! `boot/`). The guest can also write to these words, and so forge the description. It is only reported; nothing
//! depends on it. Runs on the vCPU's thread.

use kvm_bindings::{KVM_SYSTEM_EVENT_RESET, KVM_SYSTEM_EVENT_SHUTDOWN};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::super::guest::KvmGuest;
use super::super::run_page::Exit;
use super::{boot, register};
use crate::aarch64::{SERROR, exception, has_address};
use crate::{Error, Fault, VmExit};

/// The length of an instruction, in bytes.
const INSTRUCTION: usize = 4;

/// Returns the exit of a guest that cannot continue; `None` if the reason is unknown.
pub fn end(guest: &KvmGuest, fd: &VcpuFd, index: u32, exit: Exit) -> Result<Option<VmExit>, Error> {
    let fault = match exit {
        Exit::SystemEvent { kind } => {
            return Ok(match kind {
                KVM_SYSTEM_EVENT_SHUTDOWN => Some(VmExit::Shutdown),
                KVM_SYSTEM_EVENT_RESET => Some(VmExit::Reset),
                _ => None,
            });
        }
        Exit::NotEmulated { address } => match recorded(guest, index) {
            Some(fault) => fault,
            None => not_emulated(&guest.ram, register::get(fd, register::PC)?, address),
        },
        _ => return Ok(None),
    };
    Ok(Some(VmExit::Fault(Box::new(fault))))
}

/// Returns the fault that the vectors of a vCPU have recorded.
fn recorded(guest: &KvmGuest, index: u32) -> Option<Fault> {
    /// Of the four kinds of exceptions in a group of vectors, the first is synchronous and the last is SError.
    const KINDS: u64 = 4;
    let area = guest.boot_area.as_ref()?;
    let words: [u64; 4] = area.read_obj(GuestAddress(boot::words(index))).ok()?;
    let [kind, syndrome, pc, address] = words;
    let kind = kind.checked_sub(1)? % KINDS;
    let class = (syndrome >> 26 & 0x3f) as u8;
    let (exception, reason) = match kind {
        0 => exception(class),
        1 => ("IRQ", "an interrupt arrived, but there is no handler"),
        2 => ("FIQ", "a fast interrupt arrived, but there is no handler"),
        _ => exception(SERROR),
    };
    Some(Fault {
        exception,
        pc: Some(pc),
        address: (kind == 0 && has_address(class)).then_some(address),
        bytes: bytes_at(&guest.ram, pc),
        reason,
    })
}

/// Returns the fault of a vCPU that made an access which the kernel cannot emulate.
fn not_emulated(ram: &GuestMemoryMmap, pc: u64, address: u64) -> Fault {
    let (exception, _) = exception(0x25);
    Fault {
        exception,
        pc: Some(pc),
        address: Some(address),
        bytes: bytes_at(ram, pc),
        reason: "kvm cannot emulate the instruction",
    }
}

/// Returns the bytes of the instruction at `pc`, if it is in RAM.
fn bytes_at(ram: &GuestMemoryMmap, pc: u64) -> Vec<u8> {
    let mut bytes = vec![0; INSTRUCTION];
    let read = ram.read(&mut bytes, GuestAddress(pc)).unwrap_or_default();
    bytes.truncate(read);
    bytes
}
