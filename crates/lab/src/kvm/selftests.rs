//! Selects the files of a kernel's source from which its KVM selftests are built. The thread that prepares runs this.

use std::path::Path;

/// Folders that the build of the tests reads completely.
const FOLDERS: [&str; 9] = [
    "tools/arch/x86",
    "tools/build",
    "tools/include",
    "tools/scripts",
    "tools/testing/selftests/cgroup",
    "tools/testing/selftests/clone3",
    "tools/testing/selftests/kvm",
    "tools/testing/selftests/rseq",
    "tools/testing/selftests/vfio",
];
/// Folders of which the build does not read subfolders.
const FLAT: [&str; 3] = ["scripts", "tools/lib", "tools/testing/selftests"];
/// The targets of symbolic links in these folders.
const LINKED: [&str; 3] = [
    "drivers/dma/idxd",
    "drivers/dma/ioat",
    "drivers/net/ethernet/intel/igb",
];
const IDS: &str = "include/linux/pci_ids.h";

/// Returns whether the tests are built from this file of the kernel's source.
pub(super) fn is_of_a_test(path: &Path) -> bool {
    let is_directly_in = |folder: &&str| path.parent() == Some(Path::new(folder));
    let is_header = path.extension().is_some_and(|end| end == "h");
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        || FLAT.iter().any(is_directly_in)
        || (is_header && LINKED.iter().any(is_directly_in))
        || path == Path::new(IDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_and_what_they_include_are_taken_and_no_other_suite() {
        for name in [
            "tools/testing/selftests/kvm/lib/kvm_util.c",
            "tools/testing/selftests/lib.mk",
            "tools/testing/selftests/kselftest_harness.h",
            "tools/lib/rbtree.c",
            "scripts/subarch.include",
            "drivers/dma/ioat/hw.h",
            "include/linux/pci_ids.h",
        ] {
            assert!(is_of_a_test(Path::new(name)), "{name}");
        }
        for name in [
            "tools/testing/selftests/net/lib.sh",
            "tools/lib/bpf/libbpf.c",
            "scripts/dtc/dtc.c",
            "drivers/dma/ioat/dma.c",
            "virt/kvm/eventfd.c",
        ] {
            assert!(!is_of_a_test(Path::new(name)), "{name}");
        }
    }
}
