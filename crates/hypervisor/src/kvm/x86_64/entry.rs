//! A vCPU's creation, and its initial registers, set by the thread that owns the vCPU before its first run. KVM has no
//! ioctl for a reset, which sets the registers that the vCPU was created with ([`state`](super::state)).

use kvm_bindings::{
    CpuId, KVM_MP_STATE_RUNNABLE, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, kvm_dtable, kvm_fpu,
    kvm_mp_state, kvm_regs, kvm_segment, kvm_sregs, kvm_xcr, kvm_xcrs,
};
use kvm_ioctls::VcpuFd;
use vmbell::irq::Irqchip;

use super::super::guest::KvmGuest;
use super::topology::Topology;
use super::{boot, cpuid, ioctl};
use crate::{EntryPoint, Error};

const CR0_PE: u64 = 1;
const CR0_MP: u64 = 1 << 1;
const CR0_ET: u64 = 1 << 4;
const CR0_NE: u64 = 1 << 5;
const CR0_WP: u64 = 1 << 16;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const CR4_OSFXSR: u64 = 1 << 9;
const CR4_OSXMMEXCPT: u64 = 1 << 10;
const CR4_FSGSBASE: u64 = 1 << 16;
const CR4_OSXSAVE: u64 = 1 << 18;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;
/// `IA32_APIC_BASE`: x2APIC mode, next to the bit that enables the APIC.
const APIC_BASE_X2APIC: u64 = 1 << 10;
const RFLAGS_RESERVED: u64 = 2;
/// The minimum number of banks that KVM accepts. Linux writes several registers of each bank at boot, and the banks
/// never report an error.
const MCE_BANKS: u8 = 1;

/// Creates a vCPU, and sets its CPUID.
pub fn vcpu(guest: &KvmGuest, index: u32) -> Result<VcpuFd, Error> {
    let fd = guest
        .vm()
        .create_vcpu(index.into())
        .map_err(Error::system("create a vcpu"))?;
    let offer = cpuid::Offer {
        topology: Topology {
            index,
            vcpus: guest.vcpus,
        },
        irqchip: guest.irqchip,
        pv_eoi: guest.parts.pv_eoi,
        hidden: guest.parts.hidden,
    };
    cpuid::set(&fd, &guest.system.host.cpuid, offer)?;
    ioctl::set_mce_banks(&fd, MCE_BANKS).map_err(Error::system(
        "set the vcpu's banks for machine checks (KVM_X86_SETUP_MCE)",
    ))?;
    if guest.parts.x2apic {
        enter_x2apic_mode(&fd)?;
    }
    Ok(fd)
}

/// Sets the registers of a vCPU for its entry point. Refuses a SIPI for the first vCPU and in a guest without
/// interrupt controllers.
pub fn set(vcpu: &VcpuFd, guest: &KvmGuest, index: u32, entry: EntryPoint) -> Result<(), Error> {
    let (cpuid, irqchip) = (&guest.system.host.cpuid, guest.irqchip);
    match entry {
        EntryPoint::Program { pc, sp, arguments } => {
            set_system(vcpu, |sregs| long(sregs, cpuid, index))?;
            set_extended(vcpu, cpuid)?;
            share_clock(vcpu)?;
            let registers = kvm_regs {
                rip: pc,
                rsp: sp,
                rdi: arguments[0],
                rsi: arguments[1],
                rflags: RFLAGS_RESERVED,
                ..kvm_regs::default()
            };
            set_general(vcpu, &registers)?;
            make_runnable(vcpu, irqchip)
        }
        EntryPoint::Protected { pc, eax, ebx, esi } => {
            set_system(vcpu, protected)?;
            let registers = kvm_regs {
                rip: pc.into(),
                rax: eax.into(),
                rbx: ebx.into(),
                rsi: esi.into(),
                rflags: RFLAGS_RESERVED,
                ..kvm_regs::default()
            };
            set_general(vcpu, &registers)?;
            make_runnable(vcpu, irqchip)
        }
        EntryPoint::RealMode { segment, offset } => {
            set_system(vcpu, |sregs| {
                sregs.cs.selector = segment;
                sregs.cs.base = u64::from(segment) << 4;
            })?;
            let registers = kvm_regs {
                rip: offset.into(),
                rflags: RFLAGS_RESERVED,
                ..kvm_regs::default()
            };
            set_general(vcpu, &registers)?;
            make_runnable(vcpu, irqchip)
        }
        EntryPoint::MmuOff { .. } => Err(Error::Entry {
            entry: "arm64's mmu off",
            guest: "x86-64 vcpus",
        }),
        EntryPoint::Secondary if irqchip == Irqchip::None => Err(Error::Entry {
            entry: "a SIPI",
            guest: "no interrupt controllers",
        }),
        // By default all vCPUs except the first wait in KVM for a SIPI.
        EntryPoint::Secondary if index == 0 => Err(Error::Entry {
            entry: "a SIPI",
            guest: "this vcpu as its first",
        }),
        EntryPoint::Secondary => Ok(()),
    }
}

fn set_general(vcpu: &VcpuFd, registers: &kvm_regs) -> Result<(), Error> {
    vcpu.set_regs(registers)
        .map_err(Error::system("set the vcpu's registers"))
}

fn set_system(vcpu: &VcpuFd, change: impl FnOnce(&mut kvm_sregs)) -> Result<(), Error> {
    let mut sregs = vcpu
        .get_sregs()
        .map_err(Error::system("read the vcpu's system registers"))?;
    change(&mut sregs);
    vcpu.set_sregs(&sregs)
        .map_err(Error::system("set the vcpu's system registers"))
}

/// Switches the local APIC of a new vCPU to x2APIC mode, which a SIPI keeps (Intel SDM 3A, 11.12.5.1).
fn enter_x2apic_mode(vcpu: &VcpuFd) -> Result<(), Error> {
    set_system(vcpu, |sregs| sregs.apic_base |= APIC_BASE_X2APIC)
}

fn long(sregs: &mut kvm_sregs, cpuid: &CpuId, index: u32) {
    let code = kvm_segment {
        limit: u32::MAX,
        selector: boot::CODE_SELECTOR,
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..kvm_segment::default()
    };
    let data = kvm_segment {
        selector: boot::DATA_SELECTOR,
        type_: 3,
        l: 0,
        db: 1,
        ..code
    };
    sregs.cs = code;
    for segment in [
        &mut sregs.ds,
        &mut sregs.es,
        &mut sregs.fs,
        &mut sregs.gs,
        &mut sregs.ss,
    ] {
        *segment = data;
    }
    sregs.tr = kvm_segment {
        base: boot::TSS + boot::TSS_SIZE as u64 * u64::from(index),
        limit: 103,
        type_: 11,
        present: 1,
        ..kvm_segment::default()
    };
    sregs.gdt = table(boot::GDT, boot::GDT_SIZE);
    sregs.idt = table(boot::gates(index), boot::IDT_SIZE);
    sregs.cr3 = boot::PML4;
    sregs.cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT;
    if cpuid::register(cpuid, 7, |leaf| leaf[1]) & cpuid::FSGSBASE != 0 {
        sregs.cr4 |= CR4_FSGSBASE;
    }
    if has_xsave(cpuid) {
        sregs.cr4 |= CR4_OSXSAVE;
    }
    sregs.efer = EFER_LME | EFER_LMA;
    sregs.cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
}

/// Sets the state in which loaders leave the CPU (Multiboot 0.6.96, 3.2; Linux `Documentation/arch/x86/boot.rst`): flat
/// segments, protected mode on, paging and interrupts off.
fn protected(sregs: &mut kvm_sregs) {
    let code = kvm_segment {
        limit: u32::MAX,
        selector: boot::CODE_SELECTOR,
        type_: 11,
        present: 1,
        s: 1,
        db: 1,
        g: 1,
        ..kvm_segment::default()
    };
    let data = kvm_segment {
        selector: boot::DATA_SELECTOR,
        type_: 3,
        ..code
    };
    sregs.cs = code;
    for segment in [
        &mut sregs.ds,
        &mut sregs.es,
        &mut sregs.fs,
        &mut sregs.gs,
        &mut sregs.ss,
    ] {
        *segment = data;
    }
    sregs.cr0 = CR0_PE | CR0_ET;
}

fn table(base: u64, size: u16) -> kvm_dtable {
    kvm_dtable {
        base,
        limit: size - 1,
        ..kvm_dtable::default()
    }
}

fn has_xsave(cpuid: &CpuId) -> bool {
    cpuid::register(cpuid, 1, |leaf| leaf[2]) & cpuid::XSAVE != 0
}

/// Enables all vector state of the CPU, for guest programs that use it, and sets the FPU as `fninit` does.
fn set_extended(vcpu: &VcpuFd, cpuid: &CpuId) -> Result<(), Error> {
    if has_xsave(cpuid) {
        let low = cpuid::register(cpuid, 0xd, |leaf| leaf[0]);
        let high = cpuid::register(cpuid, 0xd, |leaf| leaf[3]);
        let mut xcrs = kvm_xcrs {
            nr_xcrs: 1,
            ..kvm_xcrs::default()
        };
        xcrs.xcrs[0] = kvm_xcr {
            xcr: 0,
            value: u64::from(high) << 32 | u64::from(low),
            ..kvm_xcr::default()
        };
        vcpu.set_xcrs(&xcrs)
            .map_err(Error::system("set the vcpu's xcr0"))?;
    }
    let fpu = kvm_fpu {
        fcw: 0x37f,
        mxcsr: 0x1f80,
        ..kvm_fpu::default()
    };
    vcpu.set_fpu(&fpu)
        .map_err(Error::system("set the vcpu's fpu"))
}

/// Makes the vCPU start at once: with local APICs, all vCPUs except the first otherwise wait for a SIPI.
fn make_runnable(vcpu: &VcpuFd, irqchip: Irqchip) -> Result<(), Error> {
    if irqchip == Irqchip::None {
        return Ok(());
    }
    let state = kvm_mp_state {
        mp_state: KVM_MP_STATE_RUNNABLE,
    };
    vcpu.set_mp_state(state)
        .map_err(Error::system("make the vcpu runnable"))
}

/// Makes the guest's time stamp counter equal to the host's, so that both read one clock (Linux
/// Documentation/virt/kvm/devices/vcpu.rst, 4.1).
fn share_clock(vcpu: &VcpuFd) -> Result<(), Error> {
    ioctl::set_vcpu_attribute(vcpu, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, 0).map_err(
        Error::system(
            "give the vcpu the host's time stamp counter (KVM_VCPU_TSC_OFFSET, Linux 5.16)",
        ),
    )
}
