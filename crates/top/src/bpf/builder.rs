//! What all programs have in common: they find the VM of an event, and count it.
//!
//! Each program adds 1 to a value in one map. The key holds the VM, the vCPU, what happened, and the address. Only for
//! a new key does it do more: look up what stays the same, such as an eventfd's number, and note the vCPU's thread. So
//! an event costs a hash table lookup and an addition. A program returns at once if the VM is not watched.

use super::asm::Reg::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use super::asm::{Asm, AsmLabel, Helper, If, Reg, Size};
use super::record::{RecordKind, away, counted, counter, vcpu};
use crate::btf::{Btf, BtfError, Function, Member};

/// Stack offset of the counter's key.
pub(super) const KEY: i16 = -24;
/// Stack offset of a new counter's value.
pub(super) const VALUE: i16 = -56;
/// Stack offset of a vCPU's key.
const VCPU: i16 = -72;
/// Stack offset of a scratch word, for values that a helper writes to an address.
pub(super) const SCRATCH: i16 = -80;
/// Stack offset of the record of a vCPU that is in the VMM.
const AWAY: i16 = -112;

const EEXIST: i32 = 17;
const NOEXIST: i32 = 1;

type Result<T> = std::result::Result<T, BtfError>;

/// The maps' descriptors, and the VMs to watch.
#[derive(Clone, Debug)]
pub(super) struct BtfTarget {
    pub(super) counters: i32,
    pub(super) vcpus: i32,
    pub(super) lost: i32,
    /// The map of vCPUs that are in the VMM, if that time is counted.
    pub(super) away: Option<i32>,
    /// The threads that created the VMs to watch; empty to watch all VMs.
    pub(super) creators: Vec<u32>,
}

/// A program that is being made. R6 is its context, R7 the vCPU and R8 the VM.
pub(super) struct Builder<'a> {
    pub(super) asm: Asm,
    pub(super) btf: &'a Btf,
    pub(super) function: &'a Function,
    pub(super) target: &'a BtfTarget,
    pub(super) out: AsmLabel,
    pub(super) count: AsmLabel,
}

impl<'a> Builder<'a> {
    pub(super) fn new(btf: &'a Btf, function: &'a Function, target: &'a BtfTarget) -> Self {
        let mut asm = Asm::default();
        asm.copy(R6, R1);
        let (out, count) = (asm.label(), asm.label());
        Self {
            asm,
            btf,
            function,
            target,
            out,
            count,
        }
    }

    /// Loads a parameter of the function: a pointer or eight bytes.
    pub(super) fn argument(&mut self, to: Reg, names: &[&str]) -> Result<()> {
        let place = self.function.parameter(names)?;
        self.word_at(to, place, Size::Eight);
        Ok(())
    }

    /// Loads the lower half of a parameter whose upper half is undefined.
    pub(super) fn word(&mut self, to: Reg, place: usize) {
        self.word_at(to, place, Size::Eight);
        // The context can be loaded only in whole words.
        self.asm.shift_left(to, 32);
        self.asm.shift_right(to, 32);
    }

    pub(super) fn word_at(&mut self, to: Reg, place: usize, size: Size) {
        // Functions have at most six parameters in registers.
        let offset = i16::try_from(place * 8).unwrap_or(i16::MAX);
        self.asm.load(size, to, R6, offset);
    }

    /// Loads the first word of a tracepoint, a pointer.
    pub(super) fn first_word(&mut self, to: Reg) {
        self.word_at(to, 0, Size::Eight);
        // Some kernels' verifiers accept the value as a pointer only after a comparison with null.
        self.asm.jump_if(to, If::Equal, 0, self.out);
    }

    /// Loads what the function returned.
    pub(super) fn result(&mut self, to: Reg) {
        self.word_at(to, self.function.parameters.len(), Size::Eight);
    }

    /// Loads a member of the structure that a register points to.
    pub(super) fn field(&mut self, to: Reg, from: Reg, structure: &str, path: &str) -> Result<()> {
        let member = self.btf.member(structure, path)?;
        let none = || BtfError::NoMember(format!("{structure}.{path} of a number's size"));
        let size = Size::of(member.size).ok_or_else(none)?;
        self.load(size, to, from, offset(member)?);
        Ok(())
    }

    /// Loads bytes at an offset from a pointer.
    pub(super) fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i32) {
        match i16::try_from(offset) {
            Ok(offset) => self.asm.load(size, to, from, offset),
            // The offset is too large for a load: Linux 6.1 has a hash table of 32 KiB in `struct kvm`.
            Err(_) => {
                self.asm.copy(to, from);
                self.asm.add(to, offset);
                self.asm.load(size, to, to, 0);
            }
        }
    }

    /// Reads bytes from the address in R3 to the stack at `to`.
    pub(super) fn read(&mut self, to: i16, bytes: i32) {
        self.asm.copy(R1, Frame);
        self.asm.add(R1, to.into());
        self.asm.set(R2, bytes);
        self.asm.call(Helper::ReadKernel);
    }

    /// Writes the VM of R7's vCPU, and the vCPU, to the key.
    pub(super) fn vcpu(&mut self, kind: RecordKind) -> Result<()> {
        self.field(R8, R7, "kvm_vcpu", "kvm")?;
        self.vm(kind)?;
        self.field(R1, R7, "kvm_vcpu", "vcpu_id")?;
        self.asm.store(Size::Two, Frame, KEY + counter::VCPU, R1);
        Ok(())
    }

    /// Writes R8's VM and a kind to the key, or leaves the program if the VM is not watched.
    pub(super) fn vm(&mut self, kind: RecordKind) -> Result<()> {
        self.field(R1, R8, "kvm", "userspace_pid")?;
        if !self.target.creators.is_empty() {
            let watched = self.asm.label();
            for creator in &self.target.creators {
                self.asm
                    .jump_if(R1, If::Equal, creator.cast_signed(), watched);
            }
            self.asm.jump(self.out);
            self.asm.bind(watched);
        }
        self.asm
            .store(Size::Four, Frame, KEY + counter::CREATOR, R1);
        // Each VM has its own pages.
        self.distance(R8, 12);
        self.asm.store(Size::Four, Frame, KEY + counter::VM, R1);
        self.asm
            .store_number(Size::Four, Frame, KEY + counter::DEVICE, 0);
        // Clears the neighbouring fields as well: the vCPU before the kind, and the access after it.
        self.asm
            .store_number(Size::Four, Frame, KEY + counter::VCPU, (kind as i32) << 16);
        Ok(())
    }

    /// Sets R1 to a number for a pointer: its distance from an address that never changes, in units of 2^`bits` bytes.
    /// The verifier allows no other pointer arithmetic.
    pub(super) fn distance(&mut self, pointer: Reg, bits: i32) {
        self.asm.copy(R1, pointer);
        self.asm.value_of(R2, self.target.lost);
        self.asm.subtract(R1, R2);
        self.asm.shift_right(R1, bits);
    }

    pub(super) fn address(&mut self, from: Reg) {
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, from);
    }

    /// Writes the size and the direction of an access to the key.
    pub(super) fn access(&mut self, from: Reg) {
        self.asm
            .store(Size::One, Frame, KEY + counter::ACCESS, from);
    }

    pub(super) fn zero_address(&mut self) {
        self.asm
            .store_number(Size::Eight, Frame, KEY + counter::ADDRESS, 0);
    }

    /// Replaces the kind in the key.
    pub(super) fn kind(&mut self, kind: RecordKind) {
        self.asm
            .store_number(Size::One, Frame, KEY + counter::KIND, kind as i32);
    }

    /// Adds 1 to the key's value. If the key is new, `detail` writes the value's second half, and the vCPU's thread is
    /// noted if the program runs on that thread.
    pub(super) fn finish(
        &mut self,
        detail: impl FnOnce(&mut Self) -> Result<()>,
        is_on_vcpu: bool,
    ) -> Result<()> {
        let (add, lost) = (self.asm.label(), self.asm.label());
        let (key, value) = (KEY, VALUE);
        self.asm.bind(self.count);
        self.call_with_key(self.target.counters, key, Helper::Lookup);
        let new = self.asm.label();
        self.asm.jump_if(R0, If::Equal, 0, new);
        self.asm.bind(add);
        self.asm.set(R1, 1);
        self.asm.add_to(R0, 0, R1);
        self.asm.bind(self.out);
        self.asm.exit();

        self.asm.bind(new);
        for (at, number) in [
            (counted::COUNT, 1),
            (counted::DETAIL, 0),
            (counted::NANOSECONDS, 0),
            (counted::WAITER, 0),
        ] {
            self.asm
                .store_number(Size::Eight, Frame, value + at, number);
        }
        detail(self)?;
        self.set_arguments(self.target.counters, key, value, NOEXIST);
        self.asm.call(Helper::Update);
        let thread = self.asm.label();
        self.asm.jump_if(R0, If::Equal, 0, thread);
        self.asm.jump_if(R0, If::NotEqual32, -EEXIST, lost);
        // Another CPU has just inserted the key.
        self.call_with_key(self.target.counters, key, Helper::Lookup);
        self.asm.jump_if(R0, If::Equal, 0, lost);
        self.asm.jump(add);

        self.asm.bind(thread);
        if is_on_vcpu {
            self.vcpu_key();
            self.asm.call(Helper::PidTgid);
            self.asm.store(Size::Eight, Frame, value, R0);
            self.set_arguments(self.target.vcpus, VCPU, value, 0);
            self.asm.call(Helper::Update);
            self.asm.jump_if(R0, If::NotEqual32, 0, lost);
        }
        self.asm.exit();

        self.asm.bind(lost);
        self.asm.value_of(R0, self.target.lost);
        self.asm.jump(add);
        Ok(())
    }

    /// Writes the key of the vCPU that the counter's key contains.
    fn vcpu_key(&mut self) {
        self.asm.load(Size::Four, R1, Frame, KEY + counter::VM);
        self.asm.store(Size::Four, Frame, VCPU + vcpu::VM, R1);
        self.asm.load(Size::Four, R1, Frame, KEY + counter::CREATOR);
        self.asm.store(Size::Four, Frame, VCPU + vcpu::CREATOR, R1);
        self.asm.load(Size::Two, R1, Frame, KEY + counter::VCPU);
        self.asm.store(Size::Four, Frame, VCPU + vcpu::ID, R1);
    }

    /// Stores the time and the counter's key until the vCPU is back.
    pub(super) fn leave(&mut self, map: i32) {
        let (new, end) = (self.asm.label(), self.asm.label());
        self.vcpu_key();
        self.asm.call(Helper::Time);
        self.asm.copy(R9, R0);
        self.call_with_key(map, VCPU, Helper::Lookup);
        self.asm.jump_if(R0, If::Equal, 0, new);
        self.keep(R0, 0);
        self.asm.jump(end);
        self.asm.bind(new);
        self.keep(Frame, AWAY);
        self.set_arguments(map, VCPU, AWAY, 0);
        self.asm.call(Helper::Update);
        self.asm.bind(end);
    }

    /// Writes the time in R9 and the counter's key.
    fn keep(&mut self, to: Reg, at: i16) {
        self.asm.store(Size::Eight, to, at + away::SINCE, R9);
        for word in [0, 8, 16] {
            self.asm.load(Size::Eight, R1, Frame, KEY + word);
            self.asm.store(Size::Eight, to, at + away::KEY + word, R1);
        }
    }

    /// Adds the time since the vCPU left to the counter of its exit, and ends the program.
    pub(super) fn come_back(&mut self, map: i32) {
        self.vcpu_key();
        self.call_with_key(map, VCPU, Helper::Lookup);
        self.asm.jump_if(R0, If::Equal, 0, self.out);
        self.asm.copy(R7, R0);
        self.asm.load(Size::Eight, R8, R7, away::SINCE);
        self.asm.jump_if(R8, If::Equal, 0, self.out);
        self.asm.store_number(Size::Eight, R7, away::SINCE, 0);
        for word in [0, 8, 16] {
            self.asm.load(Size::Eight, R1, R7, away::KEY + word);
            self.asm.store(Size::Eight, Frame, KEY + word, R1);
        }
        self.asm.call(Helper::Time);
        self.asm.copy(R9, R0);
        self.asm.subtract(R9, R8);
        self.call_with_key(self.target.counters, KEY, Helper::Lookup);
        // The exit itself was not counted.
        self.asm.jump_if(R0, If::Equal, 0, self.out);
        self.asm.add_to(R0, counted::NANOSECONDS, R9);
        self.asm.bind(self.out);
        self.asm.exit();
    }

    pub(super) fn call_with_key(&mut self, map: i32, key: i16, helper: Helper) {
        self.asm.map(R1, map);
        self.asm.copy(R2, Frame);
        self.asm.add(R2, key.into());
        self.asm.call(helper);
    }

    pub(super) fn set_arguments(&mut self, map: i32, key: i16, value: i16, flags: i32) {
        self.asm.map(R1, map);
        self.asm.copy(R2, Frame);
        self.asm.add(R2, key.into());
        self.asm.copy(R3, Frame);
        self.asm.add(R3, value.into());
        self.asm.set(R4, flags);
    }
}

/// Returns the offset as an operand of an addition.
pub(super) fn offset(member: Member) -> Result<i32> {
    let too_far = |_| BtfError::Malformed("a member at the end of all memory");
    i32::try_from(member.offset).map_err(too_far)
}
