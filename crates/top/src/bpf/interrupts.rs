//! The programs for when an interrupt is raised, a vCPU is woken, or an interrupt ends.

use super::asm::Reg::{Frame, R0, R1, R7, R8};
use super::asm::{Helper, If, Size};
use super::builder::{Builder, KEY, VALUE};
use super::record::{RecordKind, counter};
use crate::btf::BtfError;

const EWOULDBLOCK: i32 = 11;

type Result<T> = std::result::Result<T, BtfError>;

impl Builder<'_> {
    pub(super) fn irqfds(&mut self) -> Result<()> {
        self.argument(R8, &["kvm"])?;
        self.vm(RecordKind::Irqfd)?;
        self.argument(R1, &["e", "irq"])?;
        self.field(R1, R1, "kvm_kernel_irq_routing_entry", "gsi")?;
        self.address(R1);
        self.result(R1);
        let at_once = self.count;
        self.asm.jump_if(R1, If::NotEqual32, -EWOULDBLOCK, at_once);
        // A kernel worker raises the interrupt later.
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

    pub(super) fn messages(&mut self) -> Result<()> {
        self.argument(R8, &["kvm"])?;
        self.vm(RecordKind::Message)?;
        self.argument(R1, &["msi"])?;
        self.field(R1, R1, "kvm_msi", "data")?;
        // The vector; the other bits say how it is delivered.
        self.asm.and(R1, 0xff);
        self.address(R1);
        self.finish(|_| Ok(()), false)
    }

    pub(super) fn lines(&mut self) -> Result<()> {
        let level = self.function.parameter(&["level"])?;
        self.word(R1, level);
        let raised = self.asm.label();
        self.asm.jump_if(R1, If::NotEqual32, 0, raised);
        self.asm.jump(self.out);
        self.asm.bind(raised);
        self.argument(R8, &["kvm"])?;
        self.vm(RecordKind::Line)?;
        let gsi = self.function.parameter(&["irq"])?;
        self.word(R1, gsi);
        self.address(R1);
        self.finish(|_| Ok(()), false)
    }

    /// Counts a line that `KVM_IRQ_LINE` raises on arm64, which does not call the function that x86-64 calls.
    pub(super) fn lines_by_ioctl(&mut self) -> Result<()> {
        self.argument(R7, &["irq_level"])?;
        self.field(R1, R7, "kvm_irq_level", "level")?;
        self.asm.jump_if(R1, If::Equal32, 0, self.out);
        self.argument(R8, &["kvm"])?;
        self.vm(RecordKind::Line)?;
        self.field(R1, R7, "kvm_irq_level", "irq")?;
        // The upper half is the type of the interrupt.
        self.asm.and(R1, 0xffff);
        self.address(R1);
        self.finish(|_| Ok(()), false)
    }

    pub(super) fn kicks(&mut self) -> Result<()> {
        self.argument(R7, &["vcpu"])?;
        self.vcpu(RecordKind::Kick)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }

    pub(super) fn eois(&mut self, kind: RecordKind) -> Result<()> {
        // The vCPU's local APIC.
        self.first_word(R7);
        self.field(R7, R7, "kvm_lapic", "vcpu")?;
        self.vcpu(kind)?;
        self.zero_address();
        self.finish(|_| Ok(()), false)
    }
}
