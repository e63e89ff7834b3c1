//! Emulates loads and stores to holes in the guest's memory, on the vCPU's thread.

use crate::decode::{Instruction, Operation, Source};
use crate::elf::entry::{Context, truncate};
use crate::elf::exit::{heavy_exit, in_ram, report, ring};
use crate::elf::fetch::fetch;
use crate::elf::interrupt;
use crate::elf::percpu::PerCpu;
use crate::elf::pio::count_site_trap;
use crate::layout::{GUEST_END, fault, reason};
use crate::patches::Fetched;
use vmbell_core::addresses::PAGE;
use vmbell_core::event::Event;
use vmbell_core::table::Kind;

/// Bit of a page fault's error code (Intel SDM volume 3, 4.7).
const INSTRUCTION_FETCH: u64 = 1 << 4;

/// Emulates the instruction at `frame.rip`, which faulted on `frame.fault_address`.
pub fn emulate(frame: &mut Context, cpu: &PerCpu) {
    let (rip, address) = (frame.rip, frame.fault_address);
    if address >= GUEST_END {
        report(frame, cpu, fault::ABOVE_GUEST_END);
    }
    if frame.error & INSTRUCTION_FETCH != 0 {
        report(frame, cpu, fault::FETCH);
    }
    let Instruction {
        operation,
        memory,
        len,
    } = match fetch(frame, None) {
        Fetched::Instruction(instruction) => instruction,
        Fetched::Patched(address) => {
            frame.rip = address;
            return;
        }
        Fetched::Other => report(frame, cpu, fault::UNDECODED),
    };
    let next = rip.wrapping_add(u64::from(len));
    // The processor reports the first byte that it could not access, which may not be the first byte of the access.
    if memory
        .address(|number| *frame.register(number), next)
        .is_some_and(|start| start != address)
    {
        report(frame, cpu, fault::STRADDLE);
    }
    let mut rings = false;
    match operation {
        Operation::Store { width, source } => {
            let value = match source {
                Source::Register(register) => frame.read(register.number, register.high, width),
                Source::Immediate(value) => truncate(value, width),
            };
            for (part, start, len) in fragments(frame, cpu, width) {
                interrupt::count(cpu, Event::Mmio);
                let piece = truncate_bytes(value >> (8 * part), len);
                if interrupt::is_lapic_address(cpu, start) {
                    interrupt::store_lapic(cpu, start, len, piece);
                } else if ring(cpu, Kind::Mmio, start, len, piece) {
                    rings = true;
                } else {
                    heavy_exit(cpu, reason::MMIO_WRITE, rip, start, len, piece);
                }
            }
        }
        Operation::Load {
            width,
            target,
            target_width,
            sign,
        } => {
            let mut value = 0;
            for (part, start, len) in fragments(frame, cpu, width) {
                interrupt::count(cpu, Event::Mmio);
                let piece = if interrupt::is_lapic_address(cpu, start) {
                    interrupt::load_lapic(cpu, start, len)
                } else {
                    heavy_exit(cpu, reason::MMIO_READ, rip, start, len, 0)
                };
                value |= truncate_bytes(piece, len) << (8 * part);
            }
            if sign {
                let unused = 64 - 8 * u32::from(width);
                value = ((value << unused).cast_signed() >> unused).cast_unsigned();
            }
            frame.write(target.number, target.high, target_width, value);
        }
        _ => report(frame, cpu, fault::UNDECODED),
    }
    frame.rip = next;
    // A patch saves the trap only if a doorbell rings.
    if rings {
        count_site_trap(cpu, rip);
    }
}

/// The pieces of an access as offset, address and length: one piece, or two if the access crosses a page boundary
/// (Linux `arch/x86/kvm/x86.c`, emulator_read_write).
fn fragments(
    frame: &Context,
    cpu: &PerCpu,
    width: u8,
) -> impl Iterator<Item = (u8, u64, u8)> + use<> {
    let address = frame.fault_address;
    let room = PAGE - address % PAGE;
    let first = if u64::from(width) > room {
        (room & 0xff) as u8
    } else {
        width
    };
    let second = width - first;
    let beyond = address + u64::from(first);
    if second != 0 && (beyond >= GUEST_END || in_ram(beyond, 1)) {
        report(frame, cpu, fault::STRADDLE);
    }
    [(0, address, first), (first, beyond, second)]
        .into_iter()
        .filter(|(_, _, len)| *len != 0)
}

/// The low `len` bytes of a value; `len` may be any length up to 8.
fn truncate_bytes(value: u64, len: u8) -> u64 {
    if len >= 8 {
        value
    } else {
        value & ((1 << (8 * len)) - 1)
    }
}
