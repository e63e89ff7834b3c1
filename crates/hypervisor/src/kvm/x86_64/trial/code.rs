//! The code of the guests of trials. All of them report to the same port.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dx, eax, ecx, edx, mm0};

/// Code that has not been placed at an address yet.
pub type Code = Result<CodeAssembler, IcedError>;

/// The port that the guest reports to.
const PORT: i32 = 0x80;
/// The port that the guest rings, and how often.
pub const BELL: u16 = 0xc050;
pub const RINGS: u32 = 64;

/// The vector of the trial, and its bit in its word of the in-service register.
const VECTOR: i32 = 0x51;
pub const IN_SERVICE: u32 = 1 << (VECTOR % 32);
/// The MSRs of that word and of other registers of the local APIC in x2APIC mode (Intel SDM vol. 3, 13.12.1.2).
const SERVICE_WORD: i32 = 0x810 + VECTOR / 32;
const APIC_BASE: i32 = 0x1b;
const SPURIOUS: i32 = 0x80f;
const SELF_IPI: i32 = 0x83f;

/// Guest code: an unknown hypercall, then a byte to a port.
pub fn hypercall(vmmcall: bool) -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(eax, -1)?;
    if vmmcall {
        code.vmmcall()?;
    } else {
        code.vmcall()?;
    }
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}

/// Guest code: the vCPU interrupts itself and waits.
pub fn interrupt() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(ecx, APIC_BASE)?;
    code.rdmsr()?;
    // Enables the local APIC in x2APIC mode.
    code.or(eax, 0xc00)?;
    code.wrmsr()?;
    code.mov(edx, 0)?;
    for (register, value) in [(SPURIOUS, 0x1ff), (SELF_IPI, VECTOR)] {
        code.mov(ecx, register)?;
        code.mov(eax, value)?;
        code.wrmsr()?;
    }
    code.sti()?;
    let mut again = code.create_label();
    code.set_label(&mut again)?;
    code.pause()?;
    code.jmp(again)?;
    Ok(code)
}

/// Guest code: the handler, which writes its word of the in-service register to a port.
pub fn handler() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(ecx, SERVICE_WORD)?;
    code.rdmsr()?;
    code.mov(edx, PORT)?;
    code.out(dx, eax)?;
    Ok(code)
}

/// Guest code: writes to the doorbell's port, then a byte to a port.
pub fn rings() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(edx, i32::from(BELL))?;
    code.mov(ecx, RINGS)?;
    let mut again = code.create_label();
    code.set_label(&mut again)?;
    code.out(dx, al)?;
    code.dec(ecx)?;
    code.jnz(again)?;
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}

/// Guest code: an addition of MMX, which every x86-64 CPU has and Linux's `arch/x86/kvm/emulate.c` does not, then a
/// byte to a port.
pub fn unknown_to_emulators() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.paddd(mm0, mm0)?;
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}
