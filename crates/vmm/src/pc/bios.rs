//! What a BIOS leaves for boot loaders and operating systems: the reset vector, interrupt vectors with handlers, the
//! BIOS data area, and PICs and a timer that are set up, as with SeaBIOS.
//!
//! The PICs and the timer are in the backend, and only their ports work the same way on every backend. So the vCPU sets
//! them up itself, in a few instructions before the image's entry point.

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use crate::image::LOW_END;
use vmbell_hypervisor::EntryPoint;

/// The word with the segment of the extended BIOS data area.
const EXTENDED: GuestAddress = GuestAddress(0x40e);
/// The word with the size of the RAM below 1 MiB, in KiB.
const BASE_MEMORY: GuestAddress = GuestAddress(0x413);
/// Size of the extended BIOS data area in KiB, which is also its first byte.
const EXTENDED_LEN: u8 = 1;

/// The segment of the handlers, and the address of the code before the image's entry point.
const SEGMENT: u16 = 0xf000;
const START: u32 = (SEGMENT as u32) << 4;

/// Where a guest in real mode jumps to reset the machine: Linux does so if its ACPI is hardware-reduced and it has no EFI.
const RESET_VECTOR: GuestAddress = GuestAddress(0xf_fff0);
/// 16-bit code that resets the machine through port A, and waits for the reset.
const RESET: [u8; 7] = [
    0xb0, 0x01, 0xe6, 0x92, // mov al, 1; out 0x92, al
    0xf4, 0xeb, 0xfd, // hlt; jmp back
];

/// 32-bit code that sets up the first PIC at vector 8 with the timer and the second PIC enabled, the second PIC at
/// vector 0x70 with nothing enabled, and the timer at 18.2 Hz.
const SET_UP: [u8; 46] = [
    0xb0, 0x11, 0xe6, 0x20, 0xe6, 0xa0, // mov al, 0x11; out 0x20, al; out 0xa0, al
    0xb0, 0x08, 0xe6, 0x21, 0xb0, 0x70, 0xe6, 0xa1, // the vectors
    0xb0, 0x04, 0xe6, 0x21, 0xb0, 0x02, 0xe6, 0xa1, // the line between the PICs
    0xb0, 0x01, 0xe6, 0x21, 0xe6, 0xa1, // the mode of an 8086
    0xb0, 0xfa, 0xe6, 0x21, 0xb0, 0xff, 0xe6, 0xa1, // the masks
    0xb0, 0x34, 0xe6, 0x43, 0xb0, 0x00, 0xe6, 0x40, 0xe6, 0x40, // a rate generator, 65536
];

/// The offset in the segment and the 16-bit code of a vector's handler.
type Handler = (u16, &'static [u8]);
/// Counts the tick at 0x46c and ends the interrupt.
const TIMER: Handler = (
    0x80,
    &[
        0x1e, 0x50, 0x31, 0xc0, 0x8e, 0xd8, // push ds; push ax; xor ax, ax; mov ds, ax
        0x66, 0xff, 0x06, 0x6c, 0x04, // inc dword ptr [0x46c]
        0xb0, 0x20, 0xe6, 0x20, 0x58, 0x1f,
        0xcf, // mov al, 0x20; out 0x20, al; pop ax; pop ds; iret
    ],
);
/// The handlers that end an interrupt of the first PIC and of the second PIC.
const FIRST: Handler = (0xa0, &[0x50, 0xb0, 0x20, 0xe6, 0x20, 0x58, 0xcf]);
const SECOND: Handler = (
    0xb0,
    &[0x50, 0xb0, 0x20, 0xe6, 0xa0, 0xe6, 0x20, 0x58, 0xcf],
);
/// Does nothing but return.
const NOTHING: Handler = (0xc0, &[0xcf]);

/// Writes the code at the reset vector.
pub(super) fn write_reset(memory: &GuestMemoryMmap) -> Result<(), GuestMemoryError> {
    memory.write_slice(&RESET, RESET_VECTOR)
}

/// Writes the vectors with their handlers, and both data areas. The extended data area is directly after the RAM that
/// guests may use.
pub(super) fn write(memory: &GuestMemoryMmap) -> Result<(), GuestMemoryError> {
    let mut vectors = Vec::new();
    for vector in 0..=0xff_u8 {
        let (offset, _) = match vector {
            0x08 => TIMER,
            0x09..=0x0f => FIRST,
            0x70..=0x77 => SECOND,
            _ => NOTHING,
        };
        vectors.extend([offset, SEGMENT].map(u16::to_le_bytes).concat());
    }
    memory.write_slice(&vectors, GuestAddress(0))?;
    for (offset, code) in [TIMER, FIRST, SECOND, NOTHING] {
        let address = u64::from(START) + u64::from(offset);
        memory.write_slice(code, GuestAddress(address))?;
    }
    let (segment, kibibytes) = (LOW_END >> 4, LOW_END >> 10);
    let word = |value| u16::try_from(value).unwrap_or(u16::MAX).to_le_bytes();
    memory.write_slice(&word(segment), EXTENDED)?;
    memory.write_slice(&word(kibibytes), BASE_MEMORY)?;
    memory.write_slice(&[EXTENDED_LEN], GuestAddress(LOW_END))
}

/// Writes the code that goes before an image's entry point, and returns the entry point of that code.
pub(super) fn before(
    entry: EntryPoint,
    memory: &GuestMemoryMmap,
) -> Result<EntryPoint, GuestMemoryError> {
    let EntryPoint::Protected { pc, eax, ebx, esi } = entry else {
        return Ok(entry);
    };
    let mut code = SET_UP.to_vec();
    // mov eax, magic; jmp pc, whose operand is the distance from the next instruction.
    code.push(0xb8);
    code.extend(eax.to_le_bytes());
    code.push(0xe9);
    let next = u32::try_from(code.len() + 4).unwrap_or(u32::MAX);
    let distance = pc.wrapping_sub(START.wrapping_add(next));
    code.extend(distance.to_le_bytes());
    memory.write_slice(&code, GuestAddress(START.into()))?;
    Ok(EntryPoint::Protected {
        pc: START,
        eax,
        ebx,
        esi,
    })
}
