use std::fs;

use super::*;

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn each_vm_has_its_statistics_and_the_threads_of_its_vcpus() {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        &[
            ("exits", "9\n"),
            ("134-9/exits", "20313\n"),
            ("134-9/halt_exits", "1415\n"),
            ("134-9/max_mmu_rmap_size", "1\n"),
            ("134-9/vcpu0/pid", "148\n"),
            ("134-9/vcpu1/pid", "0\n"),
            ("134-9/vcpu10/pid", "150\n"),
            ("134-12/exits", "0\n"),
            ("not-a-vm/exits", "1\n"),
        ],
    );
    let all = read(folder.path()).unwrap();
    let names: Vec<_> = all.keys().map(|one| (one.creator, one.fd)).collect();
    assert_eq!(names, [(134, 9), (134, 12)]);
    let first = all.values().next().unwrap();
    let values = BTreeMap::from([("exits", 20313), ("halt_exits", 1415)]);
    assert_eq!(first.values, values);
    // The second vCPU has not run.
    assert_eq!(first.vcpus, BTreeMap::from([(0, 148), (10, 150)]));
    let has_no_vcpu: Vec<_> = all.values().map(|vm| vm.has_no_vcpu).collect();
    assert_eq!(has_no_vcpu, [false, TELLS_THREADS]);
}

#[test]
fn without_debugfs_the_error_says_how_to_mount_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(&folder.path().join("kvm")).unwrap_err().to_string();
    assert!(error.ends_with("/kvm does not exist: mount debugfs (`mount -t debugfs none /sys/kernel/debug`), or load kvm"));
}

#[test]
fn permissions_and_lockdown_are_told_apart() {
    let text = |code| explain(Path::new(FOLDER), io::Error::from_raw_os_error(code)).to_string();
    assert!(text(libc::EACCES).contains("CAP_DAC_READ_SEARCH"));
    assert!(text(libc::EPERM).contains("lockdown"));
    assert_eq!(text(libc::EMFILE), "cannot read /sys/kernel/debug/kvm");
}
