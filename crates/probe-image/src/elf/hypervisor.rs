//! The hypervisor's name, from CPUID.

use super::cpu::cpuid;

/// The first CPUID leaf that names a hypervisor.
const FIRST_LEAF: u32 = 0x4000_0000;
const KVM: [u8; 12] = *b"KVMKVMKVM\0\0\0";

/// The CPU and the hypervisor.
pub struct Cpu {
    vendor: [u8; 12],
    brand: [u8; 48],
    hypervisor: Option<[u8; 12]>,
    /// KVM's feature bits (Linux, `Documentation/virt/kvm/x86/cpuid.rst`), if the hypervisor is KVM.
    pub kvm_features: Option<u32>,
    /// Leaf 1, ECX.
    pub features: u32,
    /// Leaf 1, EDX.
    features_edx: u32,
}

fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0);
    core::str::from_utf8(&bytes[..end.unwrap_or(bytes.len())])
        .unwrap_or("")
        .trim()
}

fn twelve(words: [u32; 3]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Cpu {
    /// Reads CPUID.
    pub fn new() -> Self {
        let [_, b, c, d] = cpuid(0, 0);
        let [_, _, features, features_edx] = cpuid(1, 0);
        let signature = |leaf| {
            let [_, b, c, d] = cpuid(leaf, 0);
            twelve([b, c, d])
        };
        let under = features >> 31 != 0;
        let kvm_leaf = (0..4)
            .map(|place| FIRST_LEAF + 0x100 * place)
            .find(|leaf| under && signature(*leaf) == KVM);
        Self {
            vendor: twelve([b, d, c]),
            brand: brand(),
            hypervisor: under.then(|| signature(FIRST_LEAF)),
            kvm_features: kvm_leaf.map(|leaf| cpuid(leaf + 1, 0)[0]),
            features,
            features_edx,
        }
    }

    /// The CPU's vendor, such as `GenuineIntel`.
    pub fn vendor(&self) -> &str {
        text(&self.vendor)
    }

    /// The CPU model's name, which may be empty.
    pub fn brand(&self) -> &str {
        text(&self.brand)
    }

    /// The hypervisor's signature, if a hypervisor announces itself.
    pub fn hypervisor(&self) -> Option<&str> {
        self.hypervisor.as_ref().map(|bytes| text(bytes))
    }

    /// Returns whether the CPU calls a hypervisor by `vmmcall`.
    pub fn is_amd(&self) -> bool {
        matches!(self.vendor(), "AuthenticAMD" | "HygonGenuine")
    }

    /// Whether there is a local APIC.
    pub fn has_apic(&self) -> bool {
        self.features_edx >> 9 & 1 != 0
    }

    /// Whether the local APIC has an x2APIC mode.
    pub fn has_x2apic(&self) -> bool {
        self.features >> 21 & 1 != 0
    }

    /// Whether the local APIC's timer supports TSC-deadline mode.
    pub fn has_tsc_deadline(&self) -> bool {
        self.features >> 24 & 1 != 0
    }

    /// Whether KVM offers paravirtual EOI.
    pub fn has_pv_eoi(&self) -> bool {
        self.kvm_features.is_some_and(|bits| bits >> 6 & 1 != 0)
    }
}

fn brand() -> [u8; 48] {
    let mut brand = [0; 48];
    if cpuid(0x8000_0000, 0)[0] >= 0x8000_0004 {
        for (leaf, place) in (0x8000_0002..).zip(brand.chunks_exact_mut(16)) {
            for (word, bytes) in cpuid(leaf, 0).iter().zip(place.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    brand
}
