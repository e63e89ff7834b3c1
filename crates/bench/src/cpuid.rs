//! Uses CPUID for what `/proc/cpuinfo` does not say: whether the time stamp counter is invariant, which hypervisor this
//! host runs under, and whether the CPU itself is emulated.

/// The registers that a leaf returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidRegisters {
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// The leaf that contains the hypervisor's signature.
const HYPERVISOR: u32 = 0x4000_0000;

/// Reads a leaf, with subleaf 0; `None` if the CPU does not have it.
#[cfg(target_arch = "x86_64")]
#[allow(
    unused_unsafe,
    unsafe_code,
    reason = "CPUID; a safe function in newer toolchains"
)]
pub fn leaf(number: u32) -> Option<CpuidRegisters> {
    use std::arch::x86_64::__cpuid;
    // Leaf 0 does not say where the hypervisor's range of leaves ends, so that range is not checked.
    if number != HYPERVISOR {
        // SAFETY: every x86-64 CPU has CPUID, and it touches no memory.
        let highest = unsafe { __cpuid(number & 0x8000_0000) }.eax;
        if number > highest {
            return None;
        }
    }
    // SAFETY: as above.
    let regs = unsafe { __cpuid(number) };
    Some(CpuidRegisters {
        ebx: regs.ebx,
        ecx: regs.ecx,
        edx: regs.edx,
    })
}

/// Always `None`: this architecture has no CPUID.
#[cfg(not(target_arch = "x86_64"))]
pub fn leaf(_number: u32) -> Option<CpuidRegisters> {
    None
}

/// Whether this CPU's hypercall instruction is `vmmcall`, as on AMD and compatible CPUs.
pub fn is_amd() -> bool {
    leaf(0).is_some_and(|regs| {
        let vendor: Vec<u8> = [regs.ebx, regs.edx, regs.ecx]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        vendor == b"AuthenticAMD" || vendor == b"HygonGenuine"
    })
}

/// The hypervisor that this host runs under: its common name, or its signature if it has none; `None` on a real
/// machine.
pub fn hypervisor() -> Option<String> {
    const NAMES: [(&str, &str); 6] = [
        ("KVMKVMKVM", "KVM"),
        ("MicrosoftHv", "Hyper-V"),
        ("VMwareVMware", "VMware"),
        ("XenVMMXenVMM", "Xen"),
        ("TCGTCGTCGTCG", "QEMU without acceleration"),
        ("bhyvebhyve", "bhyve"),
    ];
    let signature = signature()?;
    let known = NAMES.iter().find(|(known, _)| *known == signature);
    Some(known.map_or(signature, |(_, name)| (*name).to_owned()))
}

fn signature() -> Option<String> {
    const PRESENT: u32 = 1 << 31;
    leaf(1).filter(|regs| regs.ecx & PRESENT != 0)?;
    let regs = leaf(HYPERVISOR)?;
    let bytes: Vec<u8> = [regs.ebx, regs.ecx, regs.edx]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .filter(u8::is_ascii_graphic)
        .collect();
    String::from_utf8(bytes).ok()
}

/// Whether the CPU is emulated instruction by instruction (QEMU's TCG), so that times say nothing about
/// hardware.
pub fn is_emulated() -> bool {
    signature().is_some_and(|name| name.starts_with("TCG"))
}
