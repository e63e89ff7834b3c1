//! The programs: which KVM function each is attached to.
//!
//! If this kernel lacks a metric's function, only that metric fails. Parameters are found by name, and members through
//! BTF, so the programs fit every kernel that has them. `accesses` and `interrupts` generate their code.

use super::builder::{BtfTarget, Builder};
use super::metric::Metric;
use super::record::RecordKind;
use super::syscall::Attach;
use crate::btf::{Btf, BtfError, Function};

/// The CPU's virtualization extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AMD's.
    Svm,
    /// Intel's.
    Vmx,
}

impl Isa {
    /// The extension of the KVM module that is loaded on this host.
    pub(crate) fn of_host() -> Option<Self> {
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

    /// The structure that contains a vCPU's `struct kvm_vcpu`.
    pub(super) const fn vcpu(self) -> &'static str {
        match self {
            Self::Svm => "vcpu_svm",
            Self::Vmx => "vcpu_vmx",
        }
    }
}

/// The types of the KVM module for this CPU.
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

/// KVM's devices: the functions that write to and read from them, and whether they are at ports.
const DEVICES: [(&str, &str, RecordKind); 7] = [
    ("apic_mmio_write", "apic_mmio_read", RecordKind::KvmMmio),
    ("ioapic_mmio_write", "ioapic_mmio_read", RecordKind::KvmMmio),
    ("pit_ioport_write", "pit_ioport_read", RecordKind::KvmPort),
    (
        "speaker_ioport_write",
        "speaker_ioport_read",
        RecordKind::KvmPort,
    ),
    (
        "picdev_master_write",
        "picdev_master_read",
        RecordKind::KvmPort,
    ),
    (
        "picdev_slave_write",
        "picdev_slave_read",
        RecordKind::KvmPort,
    ),
    ("picdev_elcr_write", "picdev_elcr_read", RecordKind::KvmPort),
];

impl Program {
    /// The programs of a metric. `cpu` is what the module for this CPU adds to KVM's types.
    pub(super) fn all(
        metric: Metric,
        btf: &Btf,
        cpu: Option<&Cpu>,
        target: &BtfTarget,
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
            Metric::Lines => {
                let mut all = one(Entry, function(&["kvm_set_irq"]), |builder| builder.lines())?;
                if cfg!(target_arch = "aarch64") {
                    let ioctl = function(&["kvm_vm_ioctl_irq_line"]);
                    all.extend(one(Entry, ioctl, |builder| builder.lines_by_ioctl())?);
                }
                Ok(all)
            }
            // The second function is inlined where the first exists.
            Metric::Kicks => one(
                Entry,
                function(&["__kvm_vcpu_kick", "kvm_vcpu_kick"]),
                |builder| builder.kicks(),
            ),
            Metric::Eois => one(Tracepoint, btf.tracepoint("kvm_eoi"), |builder| {
                builder.eois(RecordKind::Eoi)
            }),
            Metric::PvEois => one(Tracepoint, btf.tracepoint("kvm_pv_eoi"), |builder| {
                builder.eois(RecordKind::PvEoi)
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

    fn by_kvm(btf: &Btf, target: &BtfTarget) -> Result<Vec<Self>> {
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
        target: &BtfTarget,
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
#[cfg(test)]
#[path = "programs_test.rs"]
mod tests;
