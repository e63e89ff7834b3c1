//! The guest's registers in the kernel's signal frame (`struct ucontext`, Linux `asm/sigcontext.h`).

/// A signal frame's `ucontext`, as far as the stub uses it.
#[repr(C)]
pub struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    pub r8_to_r15: [u64; 8],
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub flags_register: u64,
    segments: u64,
    pub error: u64,
    pub vector: u64,
    old_mask: u64,
    pub fault_address: u64,
    pub fp_state: u64,
}

/// Register numbers as instructions encode them.
pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;
pub const RSP: u8 = 4;
pub const RSI: u8 = 6;
pub const RDI: u8 = 7;

impl Context {
    /// The general register with this number; numbers beyond 15 wrap.
    pub fn register(&mut self, number: u8) -> &mut u64 {
        match number & 15 {
            RAX => &mut self.rax,
            RCX => &mut self.rcx,
            RDX => &mut self.rdx,
            3 => &mut self.rbx,
            RSP => &mut self.rsp,
            5 => &mut self.rbp,
            RSI => &mut self.rsi,
            RDI => &mut self.rdi,
            high => &mut self.r8_to_r15[usize::from(high & 7)],
        }
    }

    /// Whether the guest ran in 64-bit mode, the only mode that the stub returns to.
    #[inline(always)]
    pub fn is_64_bit(&self) -> bool {
        // `cs` comes first (`struct sigcontext_64`); Linux has one 64-bit code segment for users.
        self.segments & 0xffff == 0x33
    }

    /// Reads `width` bytes of a register; `high` means bits 15:8 (`ah` to `bh`).
    pub fn read(&mut self, number: u8, high: bool, width: u8) -> u64 {
        let value = *self.register(number);
        truncate(if high { value >> 8 } else { value }, width)
    }

    /// Writes `width` bytes of a register the way the processor does: 4 bytes clear the upper half.
    pub fn write(&mut self, number: u8, high: bool, width: u8, value: u64) {
        let register = self.register(number);
        *register = match (width, high) {
            (1, true) => *register & !0xff00 | (value & 0xff) << 8,
            (1, false) => *register & !0xff | value & 0xff,
            (2, _) => *register & !0xffff | value & 0xffff,
            (4, _) => value & 0xffff_ffff,
            _ => value,
        };
    }
}

/// The low `width` bytes.
pub fn truncate(value: u64, width: u8) -> u64 {
    match width {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}
