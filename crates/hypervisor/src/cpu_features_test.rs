use std::collections::HashSet;

use super::*;

fn only(name: &str) -> CpuFeatures {
    let mut features = CpuFeatures::NONE;
    assert!(features.insert(name), "{name}");
    features
}

#[test]
fn names_are_at_the_bits_of_the_manuals() {
    for (name, leaf, subleaf, register, bit) in [
        ("fpu", 1, 0, Edx, 0),
        ("sep", 1, 0, Edx, 11),
        ("pbe", 1, 0, Edx, 31),
        ("pni", 1, 0, Ecx, 0),
        ("pcid", 1, 0, Ecx, 17),
        ("x2apic", 1, 0, Ecx, 21),
        ("tsc_deadline_timer", 1, 0, Ecx, 24),
        ("xsave", 1, 0, Ecx, 26),
        ("hypervisor", 1, 0, Ecx, 31),
        ("arat", 6, 0, Eax, 2),
        ("smep", 7, 0, Ebx, 7),
        ("invpcid", 7, 0, Ebx, 10),
        ("smap", 7, 0, Ebx, 20),
        ("avx512vl", 7, 0, Ebx, 31),
        ("umip", 7, 0, Ecx, 2),
        ("la57", 7, 0, Ecx, 16),
        ("rdpid", 7, 0, Ecx, 22),
        ("sgx_lc", 7, 0, Ecx, 30),
        ("md_clear", 7, 0, Edx, 10),
        ("serialize", 7, 0, Edx, 14),
        ("amx_tile", 7, 0, Edx, 24),
        ("arch_capabilities", 7, 0, Edx, 29),
        ("lam", 7, 1, Eax, 26),
        ("xsaves", 0xd, 1, Eax, 3),
        ("syscall", 0x8000_0001, 0, Edx, 11),
        ("nx", 0x8000_0001, 0, Edx, 20),
        ("rdtscp", 0x8000_0001, 0, Edx, 27),
        ("lm", 0x8000_0001, 0, Edx, 29),
        ("svm", 0x8000_0001, 0, Ecx, 2),
        ("topoext", 0x8000_0001, 0, Ecx, 22),
        ("mwaitx", 0x8000_0001, 0, Ecx, 29),
        ("rdpru", 0x8000_0008, 0, Ebx, 4),
        ("cppc", 0x8000_0008, 0, Ebx, 27),
        ("npt", 0x8000_000a, 0, Edx, 0),
        ("vgif", 0x8000_000a, 0, Edx, 16),
        ("vnmi", 0x8000_000a, 0, Edx, 25),
    ] {
        assert_eq!(only(name).bits(leaf, subleaf, register), 1 << bit, "{name}");
    }
}

#[test]
fn every_name_is_there_once_and_every_word_has_32_bits_at_most() {
    let mut names = HashSet::new();
    assert!(CpuFeatures::names().all(|name| names.insert(name)));
    assert!(names.len() > 150);
    let longest = TABLE
        .iter()
        .map(|word| word.names.split_whitespace().count());
    assert_eq!(longest.max(), Some(32));
}

#[test]
fn what_is_no_name_is_refused() {
    for name in ["", "-", "x2apik", "X2APIC", "ibrs", "fpu vme"] {
        let mut features = CpuFeatures::NONE;
        assert!(!features.insert(name), "{name}");
        assert!(features.is_empty());
    }
}

#[test]
fn copies_of_amd_follow_their_feature() {
    assert_eq!(only("fxsr").bits(0x8000_0001, 0, Edx), 1 << 24);
    assert_eq!(only("sse2").bits(0x8000_0001, 0, Edx), 0);
    // Bit 11 is `sep` in leaf 1 and `syscall` in leaf 0x80000001.
    assert_eq!(only("sep").bits(0x8000_0001, 0, Edx), 0);
    assert_eq!(only("syscall").bits(1, 0, Edx), 0);
}

#[test]
fn set_shows_its_names() {
    let mut features = only("x2apic");
    features.insert("smap");
    assert_eq!(format!("{features:?}"), r#"{"x2apic", "smap"}"#);
}
