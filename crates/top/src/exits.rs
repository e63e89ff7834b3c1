//! The reasons of guest exits, as the CPU reports them, and their names.
//!
//! AMD's are in Linux' `arch/x86/include/uapi/asm/svm.h`, and Intel's in `vmx.h` next to it. Equivalent reasons of both
//! have the same name.

use std::collections::BTreeMap;

use crate::bpf::Isa;

/// The exits for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The reason's name.
    pub name: String,
    /// The number of exits for this reason, by vCPU.
    pub by_vcpu: BTreeMap<u32, u64>,
}

impl Reason {
    /// The exits of all vCPUs.
    pub fn count(&self) -> u64 {
        self.by_vcpu.values().sum()
    }
}

/// The bits of Intel's basic exit reason.
const BASIC: u64 = 0xffff;
/// The entry failed, so the guest did not run.
const FAILED_ENTRY: u64 = 1 << 31;

/// The name of a reason.
pub(crate) fn name(isa: Isa, reason: u64) -> String {
    let known = match isa {
        Isa::Svm => svm(reason),
        Isa::Vmx if reason & FAILED_ENTRY != 0 => Some("failed-entry"),
        Isa::Vmx => vmx(reason & BASIC),
    };
    known.map_or_else(|| format!("{reason:#x}"), str::to_owned)
}

const fn svm(reason: u64) -> Option<&'static str> {
    Some(match reason {
        0x00..=0x0f => "cr-read",
        0x10..=0x1f => "cr-write",
        0x20..=0x2f => "dr-read",
        0x30..=0x3f => "dr-write",
        0x40..=0x5f => "exception",
        0x60 => "interrupt",
        0x61 => "nmi",
        0x62 => "smi",
        0x63 => "init",
        0x64 => "interrupt-window",
        0x65 => "cr0-write",
        0x66..=0x69 => "descriptor-read",
        0x6a..=0x6d => "descriptor-write",
        0x6e => "rdtsc",
        0x6f => "rdpmc",
        0x70 => "pushf",
        0x71 => "popf",
        0x72 => "cpuid",
        0x73 => "rsm",
        0x74 => "iret",
        0x75 => "software-interrupt",
        0x76 => "invd",
        0x77 => "pause",
        0x78 => "hlt",
        0x79 => "invlpg",
        0x7a => "invlpga",
        0x7b => "io",
        0x7c => "msr",
        0x7d => "task-switch",
        0x7e => "ferr-freeze",
        0x7f => "shutdown",
        0x80 => "vmrun",
        0x81 => "hypercall",
        0x82 => "vmload",
        0x83 => "vmsave",
        0x84 => "stgi",
        0x85 => "clgi",
        0x86 => "skinit",
        0x87 => "rdtscp",
        0x88 => "icebp",
        0x89 => "wbinvd",
        0x8a => "monitor",
        0x8b | 0x8c => "mwait",
        0x8d => "xsetbv",
        0x8e => "rdpru",
        0x8f => "efer-write",
        0x90..=0x9f => "cr-write-trap",
        0xa2 => "invpcid",
        0xa5 => "bus-lock",
        0xa6 => "idle-hlt",
        0x400 => "npf",
        0x401 => "avic-incomplete-ipi",
        0x402 => "avic-unaccelerated",
        0x403 => "vmgexit",
        0xffff_ffff => "invalid",
        _ => return None,
    })
}

const fn vmx(reason: u64) -> Option<&'static str> {
    Some(match reason {
        0 => "exception",
        1 => "interrupt",
        2 => "triple-fault",
        3 => "init",
        4 => "sipi",
        5 | 6 => "smi",
        7 => "interrupt-window",
        8 => "nmi-window",
        9 => "task-switch",
        10 => "cpuid",
        11 => "getsec",
        12 => "hlt",
        13 => "invd",
        14 => "invlpg",
        15 => "rdpmc",
        16 => "rdtsc",
        17 => "rsm",
        18 => "hypercall",
        19..=27 | 50 | 53 => "vmx-instruction",
        28 => "cr-access",
        29 => "dr-access",
        30 => "io",
        // 84 and 85 are the forms with an immediate MSR number.
        31 | 84 => "msr-read",
        32 | 85 => "msr-write",
        33 | 34 | 41 => "failed-entry",
        36 => "mwait",
        37 => "monitor-trap",
        39 => "monitor",
        40 => "pause",
        43 => "tpr-threshold",
        44 => "apic-access",
        45 => "eoi-induced",
        46 | 47 => "descriptor-access",
        48 => "ept-violation",
        49 => "ept-misconfig",
        51 => "rdtscp",
        52 => "preemption-timer",
        54 => "wbinvd",
        55 => "xsetbv",
        56 => "apic-write",
        57 => "rdrand",
        58 => "invpcid",
        59 => "vmfunc",
        60 => "encls",
        61 => "rdseed",
        62 => "pml-full",
        63 => "xsaves",
        64 => "xrstors",
        67 => "umwait",
        68 => "tpause",
        74 => "bus-lock",
        75 => "notify",
        76 => "seamcall",
        77 => "tdcall",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cpus_name_what_they_share_alike() {
        for (amd, intel, expected) in [
            (0x72, 10, "cpuid"),
            (0x78, 12, "hlt"),
            (0x7b, 30, "io"),
            (0x60, 1, "interrupt"),
            (0x64, 7, "interrupt-window"),
            (0x81, 18, "hypercall"),
            (0x77, 40, "pause"),
        ] {
            assert_eq!(name(Isa::Svm, amd), expected);
            assert_eq!(name(Isa::Vmx, intel), expected);
        }
        assert_eq!(name(Isa::Svm, 0x400), "npf");
    }

    #[test]
    fn what_only_intels_cpu_does_has_its_own_name() {
        for (reason, expected) in [
            (1, "interrupt"),
            (43, "tpr-threshold"),
            (44, "apic-access"),
            (45, "eoi-induced"),
            (48, "ept-violation"),
            (49, "ept-misconfig"),
            (52, "preemption-timer"),
            (56, "apic-write"),
            (62, "pml-full"),
            (85, "msr-write"),
        ] {
            assert_eq!(name(Isa::Vmx, reason), expected, "{reason}");
        }
    }

    #[test]
    fn intels_reason_is_in_its_lower_bits_unless_the_entry_failed() {
        assert_eq!(name(Isa::Vmx, 1 << 26 | 12), "hlt");
        assert_eq!(name(Isa::Vmx, 1 << 31 | 33), "failed-entry");
    }

    #[test]
    fn a_reason_without_a_name_is_its_number() {
        assert_eq!(name(Isa::Svm, 0x3ff), "0x3ff");
        assert_eq!(name(Isa::Vmx, 1000), "0x3e8");
    }
}
