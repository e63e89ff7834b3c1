use std::collections::BTreeSet;

use super::*;

/// Makes a leaf with EAX to EDX as on a host with eight cores of two threads each.
fn leaf(function: u32, index: u32, registers: [u32; 4]) -> kvm_cpuid_entry2 {
    let [eax, ebx, ecx, edx] = registers;
    kvm_cpuid_entry2 {
        function,
        index,
        eax,
        ebx,
        ecx,
        edx,
        ..kvm_cpuid_entry2::default()
    }
}

fn cache(function: u32, index: u32, level: u32, kind: u32, sharing: u32) -> kvm_cpuid_entry2 {
    let eax = 7 << 26 | (sharing - 1) << 14 | 1 << 8 | level << 5 | kind;
    leaf(function, index, [eax, 0x01c0_003f, 0x3f, 0])
}

fn host(is_amd: bool) -> Vec<kvm_cpuid_entry2> {
    let caches = if is_amd { AMD_CACHES } else { CACHES };
    let mut leaves = vec![
        leaf(0, 0, [0x1f, 0, 0, 0]),
        leaf(1, 0, [0, 0x0510_0800, 0, 1 << 28 | 1]),
        cache(caches, 0, 1, 1, 2),
        cache(caches, 1, 1, 2, 2),
        cache(caches, 2, 2, 3, 2),
        cache(caches, 3, 3, 3, 16),
        leaf(caches, 4, [0; 4]),
        leaf(0x1f, 0, [1, 2, 0x100, 5]),
    ];
    for (index, [shift, count, kind]) in [[1, 2, 1], [4, 16, 2], [0, 0, 0]].into_iter().enumerate()
    {
        let index = u32::try_from(index).unwrap();
        leaves.push(leaf(0xb, index, [shift, count, kind << 8 | index, 5]));
    }
    if is_amd {
        leaves.extend([
            leaf(AMD_FEATURES, 0, [0, 0, 1 << 22 | 2, 0]),
            leaf(AMD_SIZES, 0, [0x3030, 0, 1 << 16 | 4 << 12 | 15, 0]),
            leaf(AMD_CORE, 0, [5, 1 << 8 | 2, 1 << 8 | 1, 0]),
            leaf(AMD_LEVELS, 0, [1, 2, 0x100, 5]),
        ]);
    } else {
        leaves.push(leaf(AMD_SIZES, 0, [0x3030, 0, 0, 0]));
    }
    leaves
}

/// Returns the guest's `cpuid` on its vCPU with this index.
fn guest(is_amd: bool, index: u32, vcpus: u32) -> CpuId {
    let mut cpuid = CpuId::from_entries(&host(is_amd)).unwrap();
    let topology = Topology { index, vcpus };
    topology.set(&mut cpuid, is_amd).unwrap();
    cpuid
}

fn read(cpuid: &CpuId, function: u32, index: u32) -> [u32; 4] {
    let is_it = |entry: &&kvm_cpuid_entry2| entry.function == function && entry.index == index;
    let found: Vec<_> = cpuid.as_slice().iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{function:#x}.{index}");
    [found[0].eax, found[0].ebx, found[0].ecx, found[0].edx]
}

const SIZES: [u32; 7] = [1, 2, 3, 4, 5, 16, 64];

#[test]
fn levels_say_one_package_with_a_core_for_each_vcpu() {
    for (vcpus, function) in SIZES
        .into_iter()
        .flat_map(|vcpus| LEVELS.map(|leaf| (vcpus, leaf)))
    {
        let (mut packages, mut cores) = (BTreeSet::new(), BTreeSet::new());
        for index in 0..vcpus {
            let cpuid = guest(false, index, vcpus);
            let [thread_bits, threads, kind, id] = read(&cpuid, function, 0);
            assert_eq!((thread_bits, threads, kind, id), (0, 1, 0x100, index));
            let [core_bits, all, kind, id] = read(&cpuid, function, 1);
            assert_eq!((all, kind, id), (vcpus, 0x201, index));
            assert_eq!(read(&cpuid, function, 2)[..3], [0, 0, 2]);
            packages.insert(id >> core_bits);
            cores.insert(id >> thread_bits);
        }
        assert_eq!((packages.len(), cores.len()), (1, vcpus as usize));
    }
}

/// For software that does not know the leaves of levels: the ID has bits for all cores and none for threads.
#[test]
fn older_leaves_say_the_same() {
    for (vcpus, is_amd) in SIZES
        .into_iter()
        .flat_map(|vcpus| [(vcpus, true), (vcpus, false)])
    {
        let index = vcpus - 1;
        let cpuid = guest(is_amd, index, vcpus);
        let [_, ids, _, features] = read(&cpuid, 1, 0);
        assert_eq!(
            (ids >> 24, ids >> 16 & 0xff, ids & 0xffff),
            (index, vcpus, 0x0800)
        );
        assert_eq!((features >> 28, features & 1), (u32::from(vcpus > 1), 1));
        let caches = if is_amd { AMD_CACHES } else { CACHES };
        for (subleaf, sharing) in [(0, 1), (1, 1), (2, 1), (3, vcpus.next_power_of_two())] {
            let [eax, ..] = read(&cpuid, caches, subleaf);
            assert_eq!((eax >> 14 & 0xfff) + 1, sharing, "{subleaf}");
            let cores = if is_amd { 1 } else { vcpus.next_power_of_two() };
            assert_eq!((eax >> 26) + 1, cores);
            assert_eq!(
                eax & 0x3fff,
                cache(
                    caches,
                    0,
                    [1, 1, 2, 3][subleaf as usize],
                    [1, 2, 3, 3][subleaf as usize],
                    1
                )
                .eax & 0x3fff
            );
        }
        assert_eq!(read(&cpuid, caches, 4), [0; 4]);
        let [_, _, sizes, _] = read(&cpuid, AMD_SIZES, 0);
        if is_amd {
            let bits = vcpus.next_power_of_two().trailing_zeros();
            assert_eq!(sizes, 1 << 16 | bits << 12 | (vcpus - 1));
            assert_eq!(read(&cpuid, AMD_CORE, 0), [index, index, 0, 0]);
            let several = read(&cpuid, AMD_FEATURES, 0)[2];
            assert_eq!(several, 1 << 22 | u32::from(vcpus > 1) << 1);
        } else {
            assert_eq!(sizes, 0);
        }
        let has_levels = cpuid
            .as_slice()
            .iter()
            .any(|entry| entry.function == AMD_LEVELS);
        assert!(!has_levels);
    }
}

#[test]
fn a_cpu_without_levels_gets_none() {
    let is_old = |entry: &kvm_cpuid_entry2| !LEVELS.contains(&entry.function);
    let old: Vec<_> = host(true).into_iter().filter(is_old).collect();
    let mut cpuid = CpuId::from_entries(&old).unwrap();
    Topology { index: 1, vcpus: 2 }
        .set(&mut cpuid, true)
        .unwrap();
    assert!(cpuid.as_slice().iter().all(is_old));
}
