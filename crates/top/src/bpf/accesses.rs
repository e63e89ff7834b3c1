//! The programs for exits of a guest: to the VMM, to an ioeventfd, or answered by KVM itself.

use super::asm::Reg::{Frame, R1, R2, R3, R7, R9};
use super::asm::{If, Size};
use super::builder::{Builder, KEY, SCRATCH, VALUE, offset};
use super::programs::{Cpu, Isa};
use super::record::{RecordKind, counted, counter};
use crate::btf::BtfError;
use crate::names;

type Result<T> = std::result::Result<T, BtfError>;

/// Exit reasons of `KVM_RUN` as immediate operands.
const EXIT_IO: i32 = names::EXIT_IO.cast_signed();
const EXIT_MMIO: i32 = names::EXIT_MMIO.cast_signed();
const EXIT_RDMSR: i32 = names::EXIT_RDMSR.cast_signed();
const EXIT_WRMSR: i32 = names::EXIT_WRMSR.cast_signed();
/// The first member of the union in `kvm_run`.
const FIRST: &str = "hw.hardware_exit_reason";
impl Builder<'_> {
    pub(super) fn exits_to_vmm(&mut self) -> Result<()> {
        self.argument(R7, &["vcpu"])?;
        self.vcpu(RecordKind::Other)?;
        self.result(R9);
        self.zero_address();
        let answered = self.asm.label();
        self.asm.jump_if(R9, If::NotLess32, 0, answered);
        // An error, such as EINTR after a signal, as a positive number.
        self.kind(RecordKind::Failed);
        self.asm
            .store(Size::Four, Frame, KEY + counter::ADDRESS, R9);
        self.asm.jump(self.count);

        self.asm.bind(answered);
        self.field(R7, R7, "kvm_vcpu", "run")?;
        self.field(R2, R7, "kvm_run", "exit_reason")?;
        let (io, mmio, msr) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.jump_if(R2, If::Equal, EXIT_IO, io);
        self.asm.jump_if(R2, If::Equal, EXIT_MMIO, mmio);
        self.asm.jump_if(R2, If::Equal, EXIT_RDMSR, msr);
        self.asm.jump_if(R2, If::Equal, EXIT_WRMSR, msr);
        self.address(R2);
        self.asm.jump(self.count);

        // The union's first member has the direction, the size and the port in its bytes.
        self.asm.bind(io);
        self.kind(RecordKind::Port);
        self.same_place("io.direction", 0)?;
        self.same_place("io.size", 1)?;
        self.same_place("io.port", 2)?;
        self.field(R1, R7, "kvm_run", FIRST)?;
        self.asm.copy(R2, R1);
        self.asm.shift_right(R2, 16);
        self.asm.and(R2, 0xffff);
        self.address(R2);
        self.asm.copy(R2, R1);
        self.asm.shift_right(R2, 7);
        self.asm.and(R2, 0xff << 1);
        self.asm.and(R1, 1);
        self.asm.or(R2, R1);
        self.access(R2);
        self.asm.jump(self.count);

        self.asm.bind(mmio);
        self.kind(RecordKind::Mmio);
        self.field(R1, R7, "kvm_run", "mmio.phys_addr")?;
        self.address(R1);
        self.field(R3, R7, "kvm_run", "mmio.len")?;
        self.field(R1, R7, "kvm_run", "mmio.is_write")?;

        self.asm.shift_left(R3, 1);
        self.asm.or(R3, R1);
        self.access(R3);
        self.asm.jump(self.count);

        // The verifier accepts only a union's first member, so this member is read by its address.
        self.asm.bind(msr);
        self.kind(RecordKind::Msr);
        self.asm.and(R2, 1);
        // KVM_EXIT_X86_RDMSR is odd, and is a read.
        let read = self.asm.label();
        self.asm.jump_if(R2, If::Equal, 1, read);
        self.asm
            .store_number(Size::One, Frame, KEY + counter::ACCESS, 1);
        self.asm.bind(read);
        let index = self.btf.member("kvm_run", "msr.index")?;
        self.asm.copy(R3, R7);
        self.asm.add(R3, offset(index)?);
        self.read(KEY + counter::ADDRESS, 4);
        if let Some(map) = self.target.away {
            self.asm.bind(self.count);
            self.count = self.asm.label();
            self.leave(map);
        }
        self.finish(|_| Ok(()), true)
    }

    /// At the start of `KVM_RUN`: adds the time since its last return to the VMM's time.
    pub(super) fn returns(&mut self) -> Result<()> {
        let none = || BtfError::Malformed("a program without its map");
        let map = self.target.away.ok_or_else(none)?;
        self.argument(R7, &["vcpu"])?;
        self.vcpu(RecordKind::Other)?;
        self.come_back(map);
        Ok(())
    }

    /// Checks that a member of `kvm_run` is this number of bytes after the union's start.
    fn same_place(&self, path: &str, after: u32) -> Result<()> {
        let [first, member] = [FIRST, path].map(|path| self.btf.member("kvm_run", path));
        match member?.offset == first?.offset + after {
            true => Ok(()),
            false => Err(BtfError::NoMember(format!("kvm_run.{path} where it was"))),
        }
    }

    pub(super) fn rings(&mut self) -> Result<()> {
        self.result(R9);
        // The write was not for this ioeventfd.
        self.asm.jump_if(R9, If::NotEqual32, 0, self.out);
        self.argument(R7, &["vcpu"])?;
        self.vcpu(RecordKind::Ring)?;
        let length = self.function.parameter(&["len"])?;
        self.word(R1, length);
        self.asm.shift_left(R1, 1);
        self.access(R1);
        self.argument(R1, &["addr"])?;
        self.address(R1);
        self.argument(R3, &["this"])?;
        // The structures are aligned to words.
        self.distance(R3, 3);
        self.asm.store(Size::Four, Frame, KEY + counter::DEVICE, R1);
        let detail = |builder: &mut Self| {
            builder.eventfd_and_bus()?;
            builder.waiter()
        };
        self.finish(detail, true)
    }

    /// Reads the number of the eventfd that `/proc/PID/fdinfo` shows; the upper half is the bus.
    fn eventfd_and_bus(&mut self) -> Result<()> {
        let device = offset(self.btf.member("_ioeventfd", "dev")?)?;
        for (member, to) in [
            ("eventfd", SCRATCH),
            ("bus_idx", VALUE + counted::DETAIL + 4),
        ] {
            let member = self.btf.member("_ioeventfd", member)?;
            self.argument(R3, &["this"])?;
            self.asm.add(R3, offset(member)? - device);
            // Each member is read with its own size: `bus_idx` is a single byte.
            self.read(to, member.size.cast_signed());
        }
        let id = self.btf.member("eventfd_ctx", "id")?;
        self.asm.load(Size::Eight, R3, Frame, SCRATCH);
        self.asm.add(R3, offset(id)?);
        self.read(VALUE + counted::DETAIL, 4);
        Ok(())
    }

    /// Reads the function of the first entry in the eventfd's wait queue. No lock is held, so the entry may be gone.
    fn waiter(&mut self) -> Result<()> {
        let head = self.btf.member("eventfd_ctx", "wqh.head")?;
        let entry = |member| self.btf.member("wait_queue_entry", member);
        let from_entry = offset(entry("func")?)? - offset(entry("entry")?)?;
        self.asm.load(Size::Eight, R9, Frame, SCRATCH);
        self.asm.add(R9, offset(head)?);
        self.asm.copy(R3, R9);
        self.read(SCRATCH, 8);
        self.asm.load(Size::Eight, R3, Frame, SCRATCH);
        // In an empty list, the head points to itself.
        let empty = self.asm.label();
        self.asm.copy(R1, R3);
        self.asm.subtract(R1, R9);
        self.asm.jump_if(R1, If::Equal, 0, empty);
        self.asm.add(R3, from_entry);
        self.read(VALUE + counted::WAITER, 8);
        self.asm.bind(empty);
        Ok(())
    }

    pub(super) fn exits(&mut self, cpu: &Cpu) -> Result<()> {
        self.first_word(R7);
        self.vcpu(RecordKind::Exit)?;
        self.zero_address();
        let vcpu = cpu.btf.member(cpu.isa.vcpu(), "vcpu")?;
        self.asm.copy(R3, R7);
        match cpu.isa {
            Isa::Svm => {
                let vmcb = cpu.btf.member("vcpu_svm", "vmcb")?;
                self.asm.add(R3, offset(vmcb)? - offset(vcpu)?);
                self.read(SCRATCH, 8);
                self.asm.load(Size::Eight, R3, Frame, SCRATCH);
                let control = cpu.btf.member("vmcb", "control")?;
                let code = cpu.btf.member("vmcb_control_area", "exit_code")?;
                self.asm.add(R3, offset(control)? + offset(code)?);
            }
            Isa::Vmx => {
                // Linux 6.16 moved this member.
                let reason = cpu.btf.member("vcpu_vmx", "exit_reason");
                let moved = |_| cpu.btf.member("vcpu_vmx", "vt.exit_reason");
                let reason = reason.or_else(moved)?;
                self.asm.add(R3, offset(reason)? - offset(vcpu)?);
            }
        }
        self.read(KEY + counter::ADDRESS, 4);
        self.finish(|_| Ok(()), true)
    }

    /// Counts an access to a device of KVM, unless the device has no such address.
    pub(super) fn device(&mut self, kind: RecordKind, is_write: bool) -> Result<()> {
        self.result(R9);
        self.asm.jump_if(R9, If::NotEqual32, 0, self.out);
        self.argument(R7, &["vcpu"])?;
        self.vcpu(kind)?;
        let length = self.function.parameter(&["len"])?;
        self.word(R1, length);
        self.asm.shift_left(R1, 1);
        self.asm.add(R1, is_write.into());
        self.access(R1);
        self.argument(R1, &["addr", "address"])?;
        self.address(R1);
        self.finish(|_| Ok(()), true)
    }

    /// Counts an access to an MSR, unless it goes to the VMM or is not complete yet: in both cases KVM's function
    /// returns 0.
    pub(super) fn msr(&mut self, is_write: bool) -> Result<()> {
        self.result(R9);
        self.asm.jump_if(R9, If::Equal32, 0, self.out);
        self.argument(R7, &["vcpu"])?;
        self.vcpu(RecordKind::KvmMsr)?;
        self.asm
            .store_number(Size::One, Frame, KEY + counter::ACCESS, is_write.into());
        self.zero_address();
        let registers = self.btf.member("kvm_vcpu", "arch.regs")?;
        // RCX is the second register.
        self.load(Size::Four, R1, R7, offset(registers)? + 8);
        self.address(R1);
        self.finish(|_| Ok(()), true)
    }
}
