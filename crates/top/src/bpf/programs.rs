//! The programs: which function of KVM each is attached to, and what it counts.
//!
//! A metric whose function this kernel does not have is an error of that metric only. Parameters are found by their names, and
//! members of structures by BTF, so the programs fit each kernel that has them.

use super::asm::Reg::{Frame, R0, R1, R2, R3, R7, R8, R9};
use super::asm::{Helper, If, Size};
use super::builder::{Builder, KEY, SCRATCH, Target, VALUE, offset};
use super::record::{Kind, counter};
use super::syscall::Attach;
use crate::btf::{Btf, BtfError, Function};

/// Exit reasons of `KVM_RUN`, from Linux' `include/uapi/linux/kvm.h`.
const EXIT_IO: i32 = 2;
const EXIT_MMIO: i32 = 6;
const EXIT_RDMSR: i32 = 29;
const EXIT_WRMSR: i32 = 30;
const EWOULDBLOCK: i32 = 11;
/// The first member of the union in `kvm_run`.
const FIRST: &str = "hw.hardware_exit_reason";

/// What a program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Returns of `KVM_RUN` to the VMM.
    ToVmm,
    /// Writes that signalled an ioeventfd.
    Rings,
    /// Interrupts by irqfds.
    Irqfds,
    /// Messages by `KVM_SIGNAL_MSI`.
    Messages,
    /// Lines raised.
    Lines,
    /// vCPUs woken or interrupted.
    Kicks,
    /// Ends of interrupts.
    Eois,
    /// Those of them that were a bit in memory.
    PvEois,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ToVmm,
        Self::Rings,
        Self::Irqfds,
        Self::Messages,
        Self::Lines,
        Self::Kicks,
        Self::Eois,
        Self::PvEois,
    ];

    /// What is counted, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToVmm => "exits to the VMM",
            Self::Rings => "ioeventfds",
            Self::Irqfds => "irqfds",
            Self::Messages => "MSIs by ioctl",
            Self::Lines => "lines",
            Self::Kicks => "kicks",
            Self::Eois => "EOIs",
            Self::PvEois => "EOIs by PV EOI",
        }
    }
}

/// A program before it is loaded.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) attach: Attach,
    pub(super) function: Function,
    pub(super) code: Vec<u64>,
}

type Result<T> = std::result::Result<T, BtfError>;

impl Program {
    pub(super) fn new(metric: Metric, btf: &Btf, target: &Target) -> Result<Self> {
        use Attach::{Entry, Exit, Tracepoint};
        let (attach, function) = match metric {
            Metric::ToVmm => (Exit, btf.function(&["kvm_arch_vcpu_ioctl_run"])?),
            Metric::Rings => (Exit, btf.function(&["ioeventfd_write"])?),
            Metric::Irqfds => (Exit, btf.function(&["kvm_arch_set_irq_inatomic"])?),
            Metric::Messages => (Entry, btf.function(&["kvm_send_userspace_msi"])?),
            Metric::Lines => (Entry, btf.function(&["kvm_set_irq"])?),
            // The second is inline where the first exists.
            Metric::Kicks => (Entry, btf.function(&["__kvm_vcpu_kick", "kvm_vcpu_kick"])?),
            Metric::Eois => (Tracepoint, btf.tracepoint("kvm_eoi")?),
            Metric::PvEois => (Tracepoint, btf.tracepoint("kvm_pv_eoi")?),
        };
        let mut builder = Builder::new(btf, &function, target);
        match metric {
            Metric::ToVmm => builder.exits_to_vmm(),
            Metric::Rings => builder.rings(),
            Metric::Irqfds => builder.irqfds(),
            Metric::Messages => builder.messages(),
            Metric::Lines => builder.lines(),
            Metric::Kicks => builder.kicks(),
            Metric::Eois => builder.eois(Kind::Eoi),
            Metric::PvEois => builder.eois(Kind::PvEoi),
        }?;
        let code = builder.asm.finish();
        let code = code.ok_or(BtfError::Malformed("a program whose jumps are too long"))?;
        Ok(Self {
            attach,
            function,
            code,
        })
    }
}

impl Builder<'_> {
    fn exits_to_vmm(&mut self) -> Result<()> {
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::Other)?;
        self.result(R9);
        self.zero_address();
        let answered = self.asm.label();
        self.asm.jump_if(R9, If::NotLess32, 0, answered);
        // An error, such as EINTR after a signal, as a positive number.
        self.kind(Kind::Failed);
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
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R2);
        self.asm.jump(self.count);

        // The union's first member has the direction, the size and the port in its bytes.
        self.asm.bind(io);
        self.kind(Kind::Port);
        self.same_place("io.direction", 0)?;
        self.same_place("io.size", 1)?;
        self.same_place("io.port", 2)?;
        self.field(R1, R7, "kvm_run", FIRST)?;
        self.asm.copy(R2, R1);
        self.asm.shift_right(R2, 16);
        self.asm.and(R2, 0xffff);
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R2);
        self.asm.copy(R2, R1);
        self.asm.shift_right(R2, 7);
        self.asm.and(R2, 0xff << 1);
        self.asm.and(R1, 1);
        self.asm.or(R2, R1);
        self.asm.store(Size::One, Frame, KEY + counter::ACCESS, R2);
        self.asm.jump(self.count);

        self.asm.bind(mmio);
        self.kind(Kind::Mmio);
        self.field(R1, R7, "kvm_run", "mmio.phys_addr")?;
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R1);
        self.field(R3, R7, "kvm_run", "mmio.len")?;
        self.field(R1, R7, "kvm_run", "mmio.is_write")?;

        self.asm.shift_left(R3, 1);
        self.asm.or(R3, R1);
        self.asm.store(Size::One, Frame, KEY + counter::ACCESS, R3);
        self.asm.jump(self.count);

        // The verifier follows unions by their first member only, so this one is read by its address.
        self.asm.bind(msr);
        self.kind(Kind::Msr);
        self.asm.and(R2, 1);
        // RDMSR is odd, and a read.
        let read = self.asm.label();
        self.asm.jump_if(R2, If::Equal, 1, read);
        self.asm
            .store_number(Size::One, Frame, KEY + counter::ACCESS, 1);
        self.asm.bind(read);
        let index = self.btf.member("kvm_run", "msr.index")?;
        self.asm.copy(R3, R7);
        self.asm.add(R3, offset(index)?);
        self.read(KEY + counter::ADDRESS, 4);
        self.finish(|_| Ok(()), true)
    }

    /// Checks that a member of `kvm_run` is this many bytes after the union's start.
    fn same_place(&self, path: &str, after: u32) -> Result<()> {
        let [first, member] = [FIRST, path].map(|path| self.btf.member("kvm_run", path));
        match member?.offset == first?.offset + after {
            true => Ok(()),
            false => Err(BtfError::NoMember(format!("kvm_run.{path} where it was"))),
        }
    }

    fn rings(&mut self) -> Result<()> {
        self.result(R9);
        // The write was for another ioeventfd, or for none.
        self.asm.jump_if(R9, If::NotEqual32, 0, self.out);
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::Ring)?;
        let length = self.function.parameter(&["len"])?;
        self.word(R1, length);
        self.asm.shift_left(R1, 1);
        self.asm.store(Size::One, Frame, KEY + counter::ACCESS, R1);
        self.argument(R1, &["addr"])?;
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R1);
        self.argument(R3, &["this"])?;
        // They are aligned to words.
        self.distance(R3, 3);
        self.asm.store(Size::Four, Frame, KEY + counter::DEVICE, R1);
        self.finish(Self::eventfd_and_bus, true)
    }

    /// The number of the eventfd that `/proc/PID/fdinfo` shows, and in the upper half the bus.
    fn eventfd_and_bus(&mut self) -> Result<()> {
        let device = offset(self.btf.member("_ioeventfd", "dev")?)?;
        for (member, to) in [("eventfd", SCRATCH), ("bus_idx", VALUE + 12)] {
            let member = self.btf.member("_ioeventfd", member)?;
            self.argument(R3, &["this"])?;
            self.asm.add(R3, offset(member)? - device);
            // The bus is a byte.
            self.read(to, member.size.cast_signed());
        }
        let id = self.btf.member("eventfd_ctx", "id")?;
        self.asm.load(Size::Eight, R3, Frame, SCRATCH);
        self.asm.add(R3, offset(id)?);
        self.read(VALUE + 8, 4);
        Ok(())
    }

    fn irqfds(&mut self) -> Result<()> {
        self.argument(R8, &["kvm"])?;
        self.vm(Kind::Irqfd)?;
        self.argument(R1, &["e", "irq"])?;
        self.field(R1, R1, "kvm_kernel_irq_routing_entry", "gsi")?;
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R1);
        self.result(R1);
        let at_once = self.count;
        self.asm.jump_if(R1, If::NotEqual32, -EWOULDBLOCK, at_once);
        // A worker of the kernel raises it later.
        self.asm
            .store_number(Size::One, Frame, KEY + counter::ACCESS, 1);
        self.finish(
            |builder| {
                builder.asm.call(Helper::PidTgid);
                builder.asm.store(Size::Eight, Frame, VALUE + 8, R0);
                Ok(())
            },
            false,
        )
    }

    fn messages(&mut self) -> Result<()> {
        self.argument(R8, &["kvm"])?;
        self.vm(Kind::Message)?;
        self.argument(R1, &["msi"])?;
        self.field(R1, R1, "kvm_msi", "data")?;
        // The vector; the rest says how it is delivered.
        self.asm.and(R1, 0xff);
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R1);
        self.finish(|_| Ok(()), false)
    }

    fn lines(&mut self) -> Result<()> {
        let level = self.function.parameter(&["level"])?;
        self.word(R1, level);
        let raised = self.asm.label();
        self.asm.jump_if(R1, If::NotEqual32, 0, raised);
        self.asm.jump(self.out);
        self.asm.bind(raised);
        self.argument(R8, &["kvm"])?;
        self.vm(Kind::Line)?;
        let gsi = self.function.parameter(&["irq"])?;
        self.word(R1, gsi);
        self.asm
            .store(Size::Eight, Frame, KEY + counter::ADDRESS, R1);
        self.finish(|_| Ok(()), false)
    }

    fn kicks(&mut self) -> Result<()> {
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::Kick)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }

    fn eois(&mut self, kind: Kind) -> Result<()> {
        // The first word of a tracepoint is its local APIC.
        self.word_at(R7, 0, Size::Eight);
        // Some kernels take a word of a tracepoint for a pointer only once it is known not to be null.
        self.asm.jump_if(R7, If::Equal, 0, self.out);
        self.field(R7, R7, "kvm_lapic", "vcpu")?;
        self.vcpu(kind)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }
}

#[cfg(test)]
#[path = "programs_test.rs"]
mod tests;
