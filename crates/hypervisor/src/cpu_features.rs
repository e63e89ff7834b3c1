//! Features of an x86 CPU by their names in `/proc/cpuinfo`, and sets of them, for guests that must not see all
//! features.
//!
//! The names and bit positions are those of Linux 6.12 (`arch/x86/include/asm/cpufeatures.h`), for CPUID bits that have
//! their own name. Names that Linux derives from several bits, such as `ibrs`, are missing.

use std::fmt;

/// A register that CPUID returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuidRegister {
    /// EAX.
    Eax,
    /// EBX.
    Ebx,
    /// ECX.
    Ecx,
    /// EDX.
    Edx,
}

/// A leaf of CPUID, one of its registers, and the names of the register's bits, from bit 0 on. A bit without a name is
/// `-`.
struct Word {
    leaf: u32,
    subleaf: u32,
    register: CpuidRegister,
    names: &'static str,
}

const fn word(leaf: u32, subleaf: u32, register: CpuidRegister, names: &'static str) -> Word {
    Word {
        leaf,
        subleaf,
        register,
        names,
    }
}

use CpuidRegister::{Eax, Ebx, Ecx, Edx};

/// The number of words in the table.
const WORDS: usize = 12;

const TABLE: [Word; WORDS] = [
    word(
        1,
        0,
        Edx,
        "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn clflush - dts acpi mmx fxsr sse \
         sse2 ss ht tm ia64 pbe",
    ),
    word(
        1,
        0,
        Ecx,
        "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr pdcm - pcid dca sse4_1 \
         sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave - avx f16c rdrand hypervisor",
    ),
    word(6, 0, Eax, "dtherm ida arat - pln - pts hwp"),
    word(
        7,
        0,
        Ebx,
        "fsgsbase tsc_adjust sgx bmi1 hle avx2 - smep bmi2 erms invpcid rtm cqm - mpx rdt_a avx512f avx512dq rdseed \
         adx smap avx512ifma - clflushopt clwb intel_pt avx512pf avx512er avx512cd sha_ni avx512bw avx512vl",
    ),
    word(
        7,
        0,
        Ecx,
        "- avx512vbmi umip pku - waitpkg avx512_vbmi2 - gfni vaes vpclmulqdq avx512_vnni avx512_bitalg tme \
         avx512_vpopcntdq - la57 - - - - - rdpid - bus_lock_detect cldemote - movdiri movdir64b enqcmd sgx_lc",
    ),
    word(
        7,
        0,
        Edx,
        "- - avx512_4vnniw avx512_4fmaps fsrm - - - avx512_vp2intersect - md_clear - - - serialize - tsxldtrk - \
         pconfig arch_lbr ibt - amx_bf16 avx512_fp16 amx_tile amx_int8 - - flush_l1d arch_capabilities",
    ),
    word(
        7,
        1,
        Eax,
        "- - - - avx_vnni avx512_bf16 - - - - - - - - - - - - - - - - - - - - lam",
    ),
    word(0xd, 1, Eax, "xsaveopt xsavec xgetbv1 xsaves"),
    word(
        0x8000_0001,
        0,
        Edx,
        "- - - - - - - - - - - syscall - - - - - - - mp nx - mmxext - - fxsr_opt pdpe1gb rdtscp - lm 3dnowext 3dnow",
    ),
    word(
        0x8000_0001,
        0,
        Ecx,
        "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse 3dnowprefetch osvw ibs xop skinit wdt - lwp \
         fma4 tce - nodeid_msr - tbm topoext perfctr_core perfctr_nb - bpext ptsc perfctr_llc mwaitx",
    ),
    word(
        0x8000_0008,
        0,
        Ebx,
        "clzero irperf xsaveerptr - rdpru - - - - wbnoinvd - - - - - - - - - - - - - amd_ppin - - - cppc",
    ),
    word(
        0x8000_000a,
        0,
        Edx,
        "npt lbrv svm_lock nrip_save tsc_scale vmcb_clean flushbyasid decodeassists - - pausefilter - pfthreshold avic \
         - v_vmsave_vmload vgif - x2avic - v_spec_ctrl - - - - vnmi",
    ),
];

/// Bits of leaf 1, EDX, that AMD CPUs also show in leaf 0x80000001.
const COPIED: u32 = 0x0183_f3ff;

/// A set of CPU features.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuFeatures([u32; WORDS]);

impl CpuFeatures {
    /// The empty set.
    pub const NONE: Self = Self([0; WORDS]);

    /// Adds the feature with this name. Returns false if the name is unknown.
    pub fn insert(&mut self, name: &str) -> bool {
        for (word, bits) in TABLE.iter().zip(&mut self.0) {
            let place = word
                .names
                .split_whitespace()
                .position(|known| known == name);
            if let Some(bit) = place
                && name != "-"
            {
                *bits |= 1 << bit;
                return true;
            }
        }
        false
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the names of all known features.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let all = TABLE.iter().flat_map(|word| word.names.split_whitespace());
        all.filter(|name| *name != "-")
    }

    /// Returns the bits of the set in a register of a CPUID leaf.
    pub fn bits(self, leaf: u32, subleaf: u32, register: CpuidRegister) -> u32 {
        let here =
            |word: &Word| (word.leaf, word.subleaf, word.register) == (leaf, subleaf, register);
        let words = TABLE.iter().zip(self.0);
        let own = words.filter(|(word, _)| here(word)).map(|(_, bits)| bits);
        let bits = own.fold(0, |all, bits| all | bits);
        match (leaf, register) {
            (0x8000_0001, Edx) => bits | self.bits(1, 0, Edx) & COPIED,
            _ => bits,
        }
    }
}

impl fmt::Debug for CpuFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (word, bits) in TABLE.iter().zip(self.0) {
            for (bit, name) in word.names.split_whitespace().enumerate() {
                if bits & 1 << bit != 0 {
                    set.entry(&name);
                }
            }
        }
        set.finish()
    }
}

#[cfg(test)]
#[path = "cpu_features_test.rs"]
mod tests;
