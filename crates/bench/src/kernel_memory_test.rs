//! Folders that look like cgroups.

use super::*;

const STAT: &str =
    "anon 4096\nfile 0\nkernel 40960\nkernel_stack 16384\npagetables 8192\nsec_pagetables 4096\n";

/// Returns the kernel memory of a cgroup with these files.
fn settled(files: &[(&str, &str)]) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    CountedGroup::at(folder.path())?.settled()
}

#[test]
fn page_tables_are_left_to_the_processes() {
    let files = [("memory.current", "1\n"), ("memory.stat", STAT)];
    assert_eq!(settled(&files), Some(32768));
}

#[test]
fn the_root_cgroup_is_not_counted() {
    assert_eq!(settled(&[("memory.stat", STAT)]), None);
}

#[test]
fn a_kernel_that_does_not_show_its_memory_has_no_count() {
    let older = STAT.replace("kernel ", "other ");
    for stat in [&older, ""] {
        assert_eq!(
            settled(&[("memory.current", "1\n"), ("memory.stat", stat)]),
            None
        );
    }
}
