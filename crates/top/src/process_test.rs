use std::os::unix::fs::symlink;

use super::*;

/// A `/proc` with one process that has a VM, and one process that has none.
fn proc() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let vmm = folder.path().join("4711");
    for part in ["fd", "fdinfo"] {
        fs::create_dir_all(vmm.join(part)).unwrap();
        fs::create_dir_all(folder.path().join("12").join(part)).unwrap();
    }
    for (fd, target) in [
        (3, "/dev/kvm"),
        (9, VM),
        (11, EVENTFD),
        (12, EVENTFD),
        (10, "anon_inode:kvm-vcpu:0"),
    ] {
        symlink(target, vmm.join(format!("fd/{fd}"))).unwrap();
    }
    for fd in [11, 12] {
        let text =
            "pos:\t0\neventfd-count:                0\neventfd-id: 5\neventfd-semaphore: 0\n";
        fs::write(vmm.join(format!("fdinfo/{fd}")), text).unwrap();
    }
    fs::write(
        vmm.join("cmdline"),
        "/usr/bin/qemu-system-x86_64\0-name\0guest=web-1,debug-threads=on\0",
    )
    .unwrap();
    symlink("/usr/bin/qemu-system-x86_64", vmm.join("exe")).unwrap();
    let stat = format!(
        "4711 (a) b) c) S 1{} 33 44 {}5678 9",
        " 0".repeat(9),
        "0 ".repeat(6)
    );
    fs::write(vmm.join("stat"), stat).unwrap();
    symlink("/dev/kvm", folder.path().join("12/fd/3")).unwrap();
    fs::create_dir(folder.path().join("self-and-others")).unwrap();
    folder
}

#[test]
fn a_process_with_a_vm_is_found_with_its_names_and_eventfds() {
    let folder = proc();
    let scan = scan(folder.path(), None).unwrap();
    let vmm = Process {
        started: 5678,
        vmm: Some("qemu".to_owned()),
        name: Some("web-1".to_owned()),
        eventfds: BTreeMap::from([(5, 11)]),
        has_ended: false,
    };
    assert_eq!(scan.processes, BTreeMap::from([(4711, vmm)]));
    assert_eq!(cpu_time(folder.path(), 4711), Some(77));
}

#[test]
fn a_vm_without_a_vcpu_and_a_vcpu_without_its_vm_do_not_run() {
    for fd in [9, 10] {
        let folder = proc();
        let count = || scan(folder.path(), None).unwrap().processes.len();
        assert_eq!(count(), 1);
        fs::remove_file(folder.path().join(format!("4711/fd/{fd}"))).unwrap();
        assert_eq!(count(), 0);
    }
}

#[test]
fn one_process_may_be_looked_at_alone() {
    let folder = proc();
    assert!(scan(folder.path(), Some(12)).unwrap().processes.is_empty());
    assert_eq!(scan(folder.path(), Some(4711)).unwrap().processes.len(), 1);
}

#[test]
fn a_vmm_that_a_loader_starts_has_its_own_name() {
    let words = [
        "/lib/ld-linux-x86-64.so.2",
        "--library-path",
        "/a:/b",
        "/opt/bin/firecracker",
        "--id",
    ];
    assert_eq!(vmm("ld-linux-x86-64.so.2", &words), "firecracker");
    assert_eq!(vmm("crosvm (deleted)", &["crosvm"]), "crosvm");
}

#[test]
fn what_a_vmm_writes_about_itself_is_short_and_moves_no_cursor() {
    assert_eq!(clean("a\u{1b}[2Jb\nc"), "a[2Jbc");
    assert_eq!(clean(&"x".repeat(1000)).len(), NAME);
}

#[test]
fn a_process_is_ending_while_a_thread_outlives_its_first_one() {
    let folder = proc();
    let state = |thread: u32, state: &str| {
        let thread = thread.to_string();
        for at in [folder.path().join("4711/task"), folder.path().to_path_buf()] {
            fs::create_dir_all(at.join(&thread)).unwrap();
        }
        let stat = format!("{thread} (a) {state} 1");
        fs::write(folder.path().join(thread).join("stat"), stat).unwrap();
    };
    state(4711, "S");
    state(4712, "S");
    assert!(!is_ending(folder.path(), 4711));
    state(4711, "Z");
    assert!(is_ending(folder.path(), 4711));
    state(4712, "X");
    assert!(!is_ending(folder.path(), 4711));
    assert!(!is_ending(folder.path(), 5000));
}

#[test]
fn a_process_without_a_program_has_no_vm_any_more() {
    let folder = proc();
    fs::remove_file(folder.path().join("4711/exe")).unwrap();
    assert_eq!(scan(folder.path(), None).unwrap(), Scan::default());
}

#[test]
fn the_pages_of_vcpus_are_among_the_mappings() {
    let folder = proc();
    let maps = "\
7f10a0000000-7f10a0003000 rw-s 00000000 00:0e 1050 anon_inode:kvm-vcpu:0
7f10a0003000-7f10a0006000 rw-s 00001000 00:0e 1050 anon_inode:kvm-vcpu:1
7f10a0006000-7f10a0009000 rw-s 00000000 00:0e 1050 anon_inode:kvm-vm
7f10a000a000-7f10a000d000 rw-s 00000000 00:0e 1050 anon_inode:kvm-vcpu:1
7f10a000d000-7f10a000e000 rw-s 00000000 00:0e 1050 /tmp/anon_inode:kvm-vcpu:2
nonsense
ffff-
";
    fs::write(folder.path().join("4711/maps"), maps).unwrap();
    let pages = vcpu_pages(folder.path(), 4711);
    assert_eq!(pages, [0x7f10_a000_0000, 0x7f10_a000_a000]);
    assert!(vcpu_pages(folder.path(), 12).is_empty());
}

#[test]
fn an_eventfd_may_be_held_by_several_processes_and_one_that_nobody_holds_is_not_there() {
    let folder = proc();
    let backend = folder.path().join("12");
    symlink(EVENTFD, backend.join("fd/7")).unwrap();
    fs::write(backend.join("fdinfo/7"), "pos:\t0\neventfd-id: 5\n").unwrap();
    for (pid, name) in [("12", "virtiofsd\n"), ("4711", "qemu\x1b[2J\n")] {
        fs::write(folder.path().join(pid).join("comm"), name).unwrap();
    }
    let holder = |pid, name: &str| Holder {
        pid,
        name: name.to_owned(),
    };
    let mut found = holders(folder.path(), &BTreeSet::from([5, 6]));
    found.get_mut(&5).unwrap().sort_by_key(|holder| holder.pid);
    let both = vec![holder(12, "virtiofsd"), holder(4711, "qemu[2J")];
    assert_eq!(found, BTreeMap::from([(5, both)]));
}

#[test]
fn a_process_has_the_thread_of_vhost_unless_there_are_several() {
    let folder = tempfile::tempdir().unwrap();
    let add = |thread: u32, name: &str| {
        let task = folder.path().join(format!("4711/task/{thread}"));
        fs::create_dir_all(task).unwrap();
        // `/proc` also has a folder for each thread, but does not list it.
        let own = folder.path().join(thread.to_string());
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("comm"), format!("{name}\n")).unwrap();
        vhost_thread(folder.path(), 4711)
    };
    assert_eq!(add(4711, "qemu-system-x86"), None);
    assert_eq!(add(4715, "vhost-4700"), None);
    assert_eq!(add(4720, "vhost-4711"), Some(4720));
    assert_eq!(add(4721, "vhost-4711"), None);
}
