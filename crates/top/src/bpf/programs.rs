//! The programs: which function of KVM each is attached to, and what it counts.
//!
//! A metric whose function this kernel does not have is an error of that metric only. Parameters are found by their names, and
//! members of structures by BTF, so the programs fit each kernel that has them.

use super::asm::Reg::{Frame, R0, R1, R2, R3, R7, R8, R9};
use super::asm::{Helper, If, Reg, Size};
use super::builder::{Builder, KEY, SCRATCH, Target, VALUE, offset};
use super::record::{Kind, counter};
use super::syscall::Attach;
use crate::btf::{Btf, BtfError, Function};
use crate::names;

/// Exit reasons of `KVM_RUN` as immediate operands.
const EXIT_IO: i32 = names::EXIT_IO.cast_signed();
const EXIT_MMIO: i32 = names::EXIT_MMIO.cast_signed();
const EXIT_RDMSR: i32 = names::EXIT_RDMSR.cast_signed();
const EXIT_WRMSR: i32 = names::EXIT_WRMSR.cast_signed();
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
    /// All exits of guests, by the CPU's reasons.
    Exits,
    /// Nanoseconds from a return of `KVM_RUN` until the next call.
    VmmTime,
    /// Accesses that a device of KVM answered, or KVM itself for an MSR.
    ByKvm,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ToVmm,
        Self::Rings,
        Self::Irqfds,
        Self::Messages,
        Self::Lines,
        Self::Kicks,
        Self::Eois,
        Self::PvEois,
        Self::Exits,
        Self::VmmTime,
        Self::ByKvm,
    ];

    /// Whether it is counted only if it is asked for, because it slows down VMs further.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Exits | Self::VmmTime | Self::ByKvm)
    }

    /// Whether KVM can tell it on this architecture. On arm64 the GIC ends interrupts without KVM, and the tracepoint of exits does
    /// not say of which vCPU.
    pub const fn exists(self) -> bool {
        match self {
            Self::Eois | Self::PvEois | Self::Exits | Self::ByKvm => cfg!(target_arch = "x86_64"),
            _ => true,
        }
    }

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
            Self::Exits => "exits by reason",
            Self::VmmTime => "time in the VMM",
            Self::ByKvm => "accesses that KVM answers",
        }
    }
}

/// The extension of CPUs by which they run guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AMD's.
    Svm,
    /// Intel's.
    Vmx,
}

impl Isa {
    /// That of the module that is loaded here.
    pub(super) fn of_host() -> Option<Self> {
        let is_there = |isa: &Self| {
            let folder = std::path::Path::new("/sys/module");
            folder.join(isa.module()).exists()
        };
        [Self::Svm, Self::Vmx].into_iter().find(is_there)
    }

    pub(super) const fn module(self) -> &'static str {
        match self {
            Self::Svm => "kvm_amd",
            Self::Vmx => "kvm_intel",
        }
    }

    /// The structure that has a vCPU's `struct kvm_vcpu`.
    const fn vcpu(self) -> &'static str {
        match self {
            Self::Svm => "vcpu_svm",
            Self::Vmx => "vcpu_vmx",
        }
    }
}

/// The types of the module for this CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) isa: Isa,
    pub(super) btf: Btf,
}

/// A program before it is loaded.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) attach: Attach,
    pub(super) function: Function,
    pub(super) code: Vec<u64>,
}

type Result<T> = std::result::Result<T, BtfError>;

/// Devices of KVM: the functions that write to them and read from them, and whether they are on ports.
const DEVICES: [(&str, &str, Kind); 7] = [
    ("apic_mmio_write", "apic_mmio_read", Kind::KvmMmio),
    ("ioapic_mmio_write", "ioapic_mmio_read", Kind::KvmMmio),
    ("pit_ioport_write", "pit_ioport_read", Kind::KvmPort),
    ("speaker_ioport_write", "speaker_ioport_read", Kind::KvmPort),
    ("picdev_master_write", "picdev_master_read", Kind::KvmPort),
    ("picdev_slave_write", "picdev_slave_read", Kind::KvmPort),
    ("picdev_elcr_write", "picdev_elcr_read", Kind::KvmPort),
];

impl Program {
    /// The programs of a metric. `cpu` is what the module for this CPU adds to KVM's types.
    pub(super) fn all(
        metric: Metric,
        btf: &Btf,
        cpu: Option<&Cpu>,
        target: &Target,
    ) -> Result<Vec<Self>> {
        use Attach::{Entry, Exit, Tracepoint};
        let function = |names: &[&str]| btf.function(names);
        let run = || function(&["kvm_arch_vcpu_ioctl_run"]);
        let one = |attach, function: Result<Function>, body: fn(&mut Builder<'_>) -> Result<()>| {
            let program = Self::new(attach, function?, btf, target, body)?;
            Ok(vec![program])
        };
        match metric {
            Metric::ToVmm => one(Exit, run(), |builder| builder.exits_to_vmm()),
            Metric::Rings => one(Exit, function(&["ioeventfd_write"]), |builder| {
                builder.rings()
            }),
            Metric::Irqfds => one(Exit, function(&["kvm_arch_set_irq_inatomic"]), |builder| {
                builder.irqfds()
            }),
            Metric::Messages => one(Entry, function(&["kvm_send_userspace_msi"]), |builder| {
                builder.messages()
            }),
            Metric::Lines => one(Entry, function(&["kvm_set_irq"]), |builder| builder.lines()),
            // The second is inline where the first exists.
            Metric::Kicks => one(
                Entry,
                function(&["__kvm_vcpu_kick", "kvm_vcpu_kick"]),
                |builder| builder.kicks(),
            ),
            Metric::Eois => one(Tracepoint, btf.tracepoint("kvm_eoi"), |builder| {
                builder.eois(Kind::Eoi)
            }),
            Metric::PvEois => one(Tracepoint, btf.tracepoint("kvm_pv_eoi"), |builder| {
                builder.eois(Kind::PvEoi)
            }),
            Metric::Exits => {
                let none = || BtfError::NoFunction("of kvm_amd or kvm_intel".to_owned());
                let cpu = cpu.ok_or_else(none)?;
                let exit = btf.tracepoint("kvm_exit")?;
                let body = |builder: &mut Builder<'_>| builder.exits(cpu);
                Ok(vec![Self::new(Tracepoint, exit, btf, target, body)?])
            }
            Metric::VmmTime => one(Entry, run(), |builder| builder.returns()),
            Metric::ByKvm => Self::by_kvm(btf, target),
        }
    }

    fn by_kvm(btf: &Btf, target: &Target) -> Result<Vec<Self>> {
        let mut programs = Vec::new();
        let mut add = |names: &[&str], body: &dyn Fn(&mut Builder<'_>) -> Result<()>| {
            let function = btf.function(names)?;
            programs.push(Self::new(Attach::Exit, function, btf, target, body)?);
            Ok(())
        };
        for (write, read, kind) in DEVICES {
            add(&[write], &|builder| builder.device(kind, true))?;
            add(&[read], &|builder| builder.device(kind, false))?;
        }
        add(&["kvm_emulate_wrmsr"], &|builder| builder.msr(true))?;
        add(&["kvm_emulate_rdmsr"], &|builder| builder.msr(false))?;
        let fast = ["handle_fastpath_wrmsr", "handle_fastpath_set_msr_irqoff"];
        add(&fast, &|builder| builder.msr(true))?;
        Ok(programs)
    }

    fn new(
        attach: Attach,
        function: Function,
        btf: &Btf,
        target: &Target,
        body: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut builder = Builder::new(btf, &function, target);
        body(&mut builder)?;
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
        self.address(R2);
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
        self.address(R2);
        self.asm.copy(R2, R1);
        self.asm.shift_right(R2, 7);
        self.asm.and(R2, 0xff << 1);
        self.asm.and(R1, 1);
        self.asm.or(R2, R1);
        self.access(R2);
        self.asm.jump(self.count);

        self.asm.bind(mmio);
        self.kind(Kind::Mmio);
        self.field(R1, R7, "kvm_run", "mmio.phys_addr")?;
        self.address(R1);
        self.field(R3, R7, "kvm_run", "mmio.len")?;
        self.field(R1, R7, "kvm_run", "mmio.is_write")?;

        self.asm.shift_left(R3, 1);
        self.asm.or(R3, R1);
        self.access(R3);
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
        if let Some(map) = self.target.away {
            self.asm.bind(self.count);
            self.count = self.asm.label();
            self.leave(map);
        }
        self.finish(|_| Ok(()), true)
    }

    /// `KVM_RUN` begins: the time since it returned was the VMM's.
    fn returns(&mut self) -> Result<()> {
        let none = || BtfError::Malformed("a program without its map");
        let map = self.target.away.ok_or_else(none)?;
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::Other)?;
        self.come_back(map);
        Ok(())
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
        self.access(R1);
        self.argument(R1, &["addr"])?;
        self.address(R1);
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
        self.address(R1);
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
        self.address(R1);
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
        self.address(R1);
        self.finish(|_| Ok(()), false)
    }

    fn kicks(&mut self) -> Result<()> {
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::Kick)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }

    /// Loads the first word of a tracepoint, a pointer.
    fn first_word(&mut self, to: Reg) {
        self.word_at(to, 0, Size::Eight);
        // Some kernels take it for a pointer only once it is known not to be null.
        self.asm.jump_if(to, If::Equal, 0, self.out);
    }

    fn exits(&mut self, cpu: &Cpu) -> Result<()> {
        self.first_word(R7);
        self.vcpu(Kind::Exit)?;
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
                // Linux 6.16 moved it.
                let reason = cpu.btf.member("vcpu_vmx", "exit_reason");
                let moved = |_| cpu.btf.member("vcpu_vmx", "vt.exit_reason");
                let reason = reason.or_else(moved)?;
                self.asm.add(R3, offset(reason)? - offset(vcpu)?);
            }
        }
        self.read(KEY + counter::ADDRESS, 4);
        self.finish(|_| Ok(()), true)
    }

    /// An access to a device of KVM, unless the device has no such address.
    fn device(&mut self, kind: Kind, is_write: bool) -> Result<()> {
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

    /// An access to an MSR, unless it goes to the VMM or is not done yet: the function then returns 0.
    fn msr(&mut self, is_write: bool) -> Result<()> {
        self.result(R9);
        self.asm.jump_if(R9, If::Equal32, 0, self.out);
        self.argument(R7, &["vcpu"])?;
        self.vcpu(Kind::KvmMsr)?;
        self.asm
            .store_number(Size::One, Frame, KEY + counter::ACCESS, is_write.into());
        self.zero_address();
        let registers = self.btf.member("kvm_vcpu", "arch.regs")?;
        // RCX is the second.
        self.load(Size::Four, R1, R7, offset(registers)? + 8);
        self.address(R1);
        self.finish(|_| Ok(()), true)
    }

    fn eois(&mut self, kind: Kind) -> Result<()> {
        // Its local APIC.
        self.first_word(R7);
        self.field(R7, R7, "kvm_lapic", "vcpu")?;
        self.vcpu(kind)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }
}

#[cfg(test)]
#[path = "programs_test.rs"]
mod tests;
