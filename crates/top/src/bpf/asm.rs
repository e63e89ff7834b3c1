//! An assembler of BPF programs: instructions as bytes, and jumps to labels.
//!
//! The programs have a few dozen instructions each, and their offsets are known only on the host that they run on. So
//! they are assembled when they are loaded, and a user needs neither a compiler nor libbpf. The instruction set is in
//! Linux' `Documentation/bpf/standardization/instruction-set.rst`.

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    /// The result of a call and of the program.
    R0,
    /// The first argument of a call; at the program's start, its context. A call changes R0 to R5.
    R1,
    R2,
    R3,
    R4,
    /// A call preserves R6 to R9.
    R6,
    R7,
    R8,
    R9,
    /// The end of the stack's 512 bytes.
    Frame,
}

/// How many bytes a load or a store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    One,
    Two,
    Four,
    Eight,
}

/// What a jump depends on: a register and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    /// All 64 bits are equal.
    Equal,
    /// The lower 32 bits are equal.
    Equal32,
    /// The lower 32 bits differ.
    NotEqual32,
    /// The lower 32 bits are not negative.
    NotLess32,
}

/// A kernel function that programs may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    /// `bpf_map_lookup_elem(map, key)`: the value's address, or 0.
    Lookup = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`: 0, or an error.
    Update = 2,
    /// `bpf_ktime_get_ns()`: time since boot, without time in suspend.
    Time = 5,
    /// `bpf_get_current_pid_tgid()`: the process and, in the lower half, the thread.
    PidTgid = 14,
    /// `bpf_probe_read_kernel(to, bytes, from)`: zeros `to` if the address is invalid.
    ReadKernel = 113,
}

/// A jump target, which may be bound later.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsmLabel(usize);

/// A program that is being assembled.
#[derive(Debug, Default)]
pub(super) struct Asm {
    code: Vec<u64>,
    jumps: Vec<(usize, AsmLabel)>,
    places: Vec<Option<usize>>,
}

impl Asm {
    fn put(&mut self, code: u8, to: Reg, from: u8, offset: i16, number: i32) {
        let registers = to.number() | from << 4;
        let [o0, o1] = offset.to_le_bytes();
        let [n0, n1, n2, n3] = number.to_le_bytes();
        let bytes = [code, registers, o0, o1, n0, n1, n2, n3];
        self.code.push(u64::from_le_bytes(bytes));
    }

    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.put(0xbf, to, from.number(), 0, 0);
    }

    pub(super) fn set(&mut self, to: Reg, number: i32) {
        self.put(0xb7, to, 0, 0, number);
    }

    pub(super) fn add(&mut self, to: Reg, number: i32) {
        self.put(0x07, to, 0, 0, number);
    }

    pub(super) fn subtract(&mut self, from: Reg, subtrahend: Reg) {
        self.put(0x1f, from, subtrahend.number(), 0, 0);
    }

    pub(super) fn and(&mut self, to: Reg, number: i32) {
        self.put(0x57, to, 0, 0, number);
    }

    pub(super) fn or(&mut self, to: Reg, from: Reg) {
        self.put(0x4f, to, from.number(), 0, 0);
    }

    pub(super) fn shift_left(&mut self, to: Reg, bits: i32) {
        self.put(0x67, to, 0, 0, bits);
    }

    pub(super) fn shift_right(&mut self, to: Reg, bits: i32) {
        self.put(0x77, to, 0, 0, bits);
    }

    pub(super) fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.put(0x61 | size.code(), to, from.number(), offset, 0);
    }

    pub(super) fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.put(0x63 | size.code(), to, from.number(), offset, 0);
    }

    pub(super) fn store_number(&mut self, size: Size, to: Reg, offset: i16, number: i32) {
        self.put(0x62 | size.code(), to, 0, offset, number);
    }

    /// Adds the register to eight bytes of memory atomically, so that no other CPU's addition is lost.
    pub(super) fn add_to(&mut self, to: Reg, offset: i16, from: Reg) {
        self.put(0xdb, to, from.number(), offset, 0);
    }

    /// Sets the register to a map, given by its descriptor.
    pub(super) fn map(&mut self, to: Reg, fd: i32) {
        self.put(0x18, to, 1, 0, fd);
        self.code.push(0);
    }

    /// Sets the register to the address of the first value of an array.
    pub(super) fn value_of(&mut self, to: Reg, fd: i32) {
        self.put(0x18, to, 2, 0, fd);
        self.code.push(0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.put(0x85, Reg::R0, 0, 0, helper as i32);
    }

    pub(super) fn label(&mut self) -> AsmLabel {
        self.places.push(None);
        AsmLabel(self.places.len() - 1)
    }

    /// Binds the label to this place.
    pub(super) fn bind(&mut self, label: AsmLabel) {
        self.places[label.0] = Some(self.code.len());
    }

    pub(super) fn jump(&mut self, to: AsmLabel) {
        self.jumps.push((self.code.len(), to));
        self.put(0x05, Reg::R0, 0, 0, 0);
    }

    pub(super) fn jump_if(&mut self, reg: Reg, condition: If, number: i32, to: AsmLabel) {
        self.jumps.push((self.code.len(), to));
        self.put(condition.code(), reg, 0, 0, number);
    }

    /// Ends the program with 0, which tracing programs must return.
    pub(super) fn exit(&mut self) {
        self.set(Reg::R0, 0);
        self.put(0x95, Reg::R0, 0, 0, 0);
    }

    /// The instructions; `None` if a label has no place or is too far away.
    pub(super) fn finish(mut self) -> Option<Vec<u64>> {
        for (at, label) in self.jumps {
            let place = i64::try_from(self.places[label.0]?).ok()?;
            let distance = place - i64::try_from(at).ok()? - 1;
            let distance = u16::from_le_bytes(i16::try_from(distance).ok()?.to_le_bytes());
            self.code[at] |= u64::from(distance) << 16;
        }
        Some(self.code)
    }
}

impl Reg {
    const fn number(self) -> u8 {
        match self {
            Self::R0 => 0,
            Self::R1 => 1,
            Self::R2 => 2,
            Self::R3 => 3,
            Self::R4 => 4,
            Self::R6 => 6,
            Self::R7 => 7,
            Self::R8 => 8,
            Self::R9 => 9,
            Self::Frame => 10,
        }
    }
}

impl Size {
    /// The operand size for a size that BTF gives.
    pub(super) const fn of(bytes: u32) -> Option<Self> {
        match bytes {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Four => 0x00,
            Self::Two => 0x08,
            Self::One => 0x10,
            Self::Eight => 0x18,
        }
    }
}

impl If {
    const fn code(self) -> u8 {
        match self {
            Self::Equal => 0x15,
            Self::Equal32 => 0x16,
            Self::NotEqual32 => 0x56,
            Self::NotLess32 => 0x76,
        }
    }
}

#[cfg(test)]
#[path = "asm_test.rs"]
mod tests;
