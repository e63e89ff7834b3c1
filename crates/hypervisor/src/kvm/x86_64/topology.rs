//! The topology in a guest's `cpuid`: one package with a core for each vCPU, and one thread in each core (Intel SDM 2A,
//! CPUID; AMD APM 3, appendix E). KVM reports no topology, or parts of the host's.

use kvm_bindings::{CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};

/// The leaf with the number of IDs, the APIC ID, and in EDX whether there are several IDs.
const FEATURES: u32 = 1;
const SEVERAL: u32 = 1 << 28;
/// The caches on Intel CPUs, one subleaf each, and on AMD CPUs. The last subleaf has type 0.
const CACHES: u32 = 4;
const AMD_CACHES: u32 = 0x8000_001d;
/// The levels of the topology, one subleaf each. Both leaves describe the same topology.
const LEVELS: [u32; 2] = [0xb, 0x1f];
/// The number of cores on AMD CPUs, and the number of this core.
const AMD_FEATURES: u32 = 0x8000_0001;
const AMD_SEVERAL: u32 = 1 << 1;
const AMD_SIZES: u32 = 0x8000_0008;
const AMD_CORE: u32 = 0x8000_001e;
/// The levels on newer AMD CPUs. The guest does not get this leaf: the other leaves describe the whole topology.
const AMD_LEVELS: u32 = 0x8000_0026;

/// A level's number and type, in the format of ECX.
const THREADS: u32 = 1 << 8;
const CORES: u32 = 2 << 8 | 1;
const END: u32 = 2;

/// All cores share the caches of this level and above.
const SHARED_CACHE: u32 = 3;

/// A vCPU's place in its guest.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// The index of the vCPU, which is also its APIC ID.
    pub index: u32,
    /// The number of vCPUs of the guest.
    pub vcpus: u32,
}

impl Topology {
    /// Returns the number of bits of an APIC ID.
    const fn bits(self) -> u32 {
        self.vcpus.next_power_of_two().trailing_zeros()
    }

    /// Sets all existing leaves of the topology. The leaves of the levels are added anew.
    ///
    /// # Errors
    ///
    /// Fails if there is no room for the leaves.
    pub fn set(self, cpuid: &mut CpuId, is_amd: bool) -> Result<(), vmm_sys_util::fam::Error> {
        let last = cpuid.as_slice().iter().map(|entry| entry.function);
        let last = last.filter(|function| *function < 0x4000_0000).max();
        cpuid.retain(|entry| !LEVELS.contains(&entry.function) && entry.function != AMD_LEVELS);
        for entry in cpuid.as_mut_slice() {
            self.set_entry(entry, is_amd);
        }
        for function in LEVELS.into_iter().filter(|leaf| last >= Some(*leaf)) {
            for entry in self.levels(function) {
                cpuid.push(entry)?;
            }
        }
        Ok(())
    }

    fn set_entry(self, entry: &mut kvm_cpuid_entry2, is_amd: bool) {
        let Self { index, vcpus } = self;
        let several = |bit| if vcpus > 1 { bit } else { 0 };
        let others = vcpus.saturating_sub(1);
        match entry.function {
            FEATURES => {
                entry.ebx = entry.ebx & 0xffff | vcpus.min(255) << 16 | index << 24;
                entry.edx = entry.edx & !SEVERAL | several(SEVERAL);
            }
            CACHES | AMD_CACHES if entry.eax & 0x1f != 0 => {
                let ids = (1 << self.bits()) - 1;
                let sharing = match entry.eax >> 5 & 7 {
                    SHARED_CACHE.. => ids,
                    _ => 0,
                };
                // The upper bits are the cores on Intel's CPUs, and reserved on AMD's.
                let cores = if is_amd { 0 } else { ids.min(0x3f) << 26 };
                entry.eax = entry.eax & 0x3fff | sharing << 14 | cores;
            }
            AMD_FEATURES if is_amd => {
                entry.ecx = entry.ecx & !AMD_SEVERAL | several(AMD_SEVERAL);
            }
            AMD_SIZES if is_amd => {
                entry.ecx = entry.ecx & !0xf0ff | self.bits() << 12 | others.min(0xff);
            }
            AMD_CORE if is_amd => {
                entry.eax = index;
                // One thread per core; one node, with the number 0.
                entry.ebx = index & 0xff;
                entry.ecx = 0;
            }
            _ => {}
        }
    }

    /// Returns the subleaves of the levels.
    fn levels(self, function: u32) -> [kvm_cpuid_entry2; 3] {
        let Self { index, vcpus } = self;
        let level = |subleaf, shift, count, kind| kvm_cpuid_entry2 {
            function,
            index: subleaf,
            flags: KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            eax: shift,
            ebx: count,
            ecx: kind,
            edx: index,
            ..kvm_cpuid_entry2::default()
        };
        [
            level(0, 0, 1, THREADS),
            level(1, self.bits(), vcpus, CORES),
            level(2, 0, 0, END),
        ]
    }
}

#[cfg(test)]
#[path = "topology_test.rs"]
mod tests;
