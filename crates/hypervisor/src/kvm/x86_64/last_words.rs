//! Describes the fault of a guest program from what the guest's exception handler has left in memory.
//!
//! A fault in a guest program ends in a triple fault. Before that, the handler has pushed the CPU's exception frame on
//! its own stack (see `boot/`). The guest can also write to that stack and so forge the description. It is only
//! reported; nothing depends on it. Runs on the vCPU's thread.

use kvm_bindings::{KVM_INTERNAL_ERROR_EMULATION, kvm_regs};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::super::guest::KvmGuest;
use super::super::run_page::Exit;
use super::boot;
use crate::x86_64::{PAGE_FAULT, exception};
use crate::{Error, Fault, VmExit};

/// The words that are read from the handler's stack.
#[derive(Clone, Copy, Debug)]
struct LastWords {
    cr2: u64,
    vector: u64,
    rip: u64,
}

/// The length of the longest x86 instruction, in bytes.
const INSTRUCTION: usize = 15;

/// Returns the exit of a guest that cannot continue; `None` if the reason is unknown.
pub fn end(guest: &KvmGuest, fd: &VcpuFd, index: u32, exit: Exit) -> Result<Option<VmExit>, Error> {
    let fault = match exit {
        Exit::Shutdown => fault(guest.boot_area.as_ref(), &guest.ram, index),
        Exit::InternalError {
            suberror: KVM_INTERNAL_ERROR_EMULATION,
        } => {
            let registers = fd.get_regs();
            let registers = registers.map_err(Error::system("read the vcpu's registers"))?;
            not_emulated(&guest.ram, &registers)
        }
        _ => return Ok(None),
    };
    Ok(Some(VmExit::Fault(Box::new(fault))))
}

/// Returns the fault of a vCPU that has shut down.
fn fault(area: Option<&GuestMemoryMmap>, ram: &GuestMemoryMmap, index: u32) -> Fault {
    let words = area.and_then(|area| read(area, index));
    let Some(words) = words else {
        return Fault {
            exception: exception(8),
            pc: None,
            address: None,
            bytes: Vec::new(),
            reason: Fault::SHUT_DOWN,
        };
    };
    let vector = (words.vector & 0xff) as u8;
    Fault {
        exception: exception(vector),
        pc: Some(words.rip),
        address: (vector == PAGE_FAULT).then_some(words.cr2),
        bytes: bytes_at(ram, words.rip),
        reason: reason(vector),
    }
}

/// Returns the fault of a vCPU at an instruction that the kernel cannot emulate.
fn not_emulated(ram: &GuestMemoryMmap, registers: &kvm_regs) -> Fault {
    Fault {
        exception: exception(6),
        pc: Some(registers.rip),
        address: None,
        bytes: bytes_at(ram, registers.rip),
        reason: "kvm cannot emulate the instruction",
    }
}

/// Returns the bytes of the instruction at `rip` that are in RAM.
fn bytes_at(ram: &GuestMemoryMmap, rip: u64) -> Vec<u8> {
    let mut bytes = vec![0; INSTRUCTION];
    let read = ram.read(&mut bytes, GuestAddress(rip)).unwrap_or_default();
    bytes.truncate(read);
    bytes
}

fn read(area: &GuestMemoryMmap, index: u32) -> Option<LastWords> {
    let word = |below: u64| {
        let address = boot::stack_top(index) - 8 * below;
        area.read_obj::<u64>(GuestAddress(address)).ok()
    };
    let words = LastWords {
        cr2: word(9)?,
        vector: word(7)?,
        rip: word(5)?,
    };
    // The area is zero until a handler pushes something, and the stack segment in an exception frame is never 0.
    (word(1)? != 0).then_some(words)
}

const fn reason(vector: u8) -> &'static str {
    match vector {
        0 => "division",
        1 => "debug trap",
        3 => "breakpoint",
        6 => "invalid instruction",
        7 | 16 | 19 => "floating point",
        12 => "stack fault",
        13 => "a privileged or malformed operation",
        14 => "no memory is mapped there",
        17 => "unaligned access",
        _ => "unhandled exception",
    }
}
