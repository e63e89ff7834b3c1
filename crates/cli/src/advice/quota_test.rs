use std::fs;

use proptest::prelude::*;

use super::*;

const V2: &str = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "\
25 20 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:24 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/cpuset rw shared:6 - cgroup cgroup rw,cpuset
28 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 - cgroup cgroup rw,cpu,cpuacct
";

/// The quota on a host with these files. An empty `mounts` leaves `/proc/self/mountinfo` out.
fn found(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Option<Finding> {
    let root = tempfile::tempdir().unwrap();
    let own = [
        ("/proc/self/mountinfo", mounts),
        ("/proc/self/cgroup", groups),
    ];
    for (name, text) in own.iter().chain(files) {
        let path = root.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    find(&HostFiles::new(root.path()))
}

#[test]
fn the_limit_of_a_group_or_of_one_around_it_is_found() {
    for mounts in [V2, ""] {
        let max = ("/sys/fs/cgroup/pods/a/cpu.max", "max 100000\n");
        assert_eq!(found(mounts, "0::/pods/a\n", &[max]), None);
        let files = [
            max,
            ("/sys/fs/cgroup/pods/cpu.max", "50000 100000\n"),
            (
                "/sys/fs/cgroup/pods/cpu.stat",
                "usage_usec 1\nnr_throttled 7\n",
            ),
        ];
        let finding = found(mounts, "0::/pods/a\n", &files).unwrap();
        assert!(finding.fact.contains(" 50000 100000 us "), "{finding:?}");
        assert_eq!(finding.source, "/sys/fs/cgroup/pods/cpu.max");
        assert_eq!(finding.cost.as_deref(), Some("stopped 7 times so far"));
        assert!(finding.remedy.contains("write max to"), "{finding:?}");
    }
}

#[test]
fn a_quota_of_version_1_is_found_also_if_version_2_is_mounted() {
    let groups = "4:cpuset:/\n3:cpu,cpuacct:/docker/a/b\n0::/docker/a/b\n";
    let folder = "/sys/fs/cgroup/cpu,cpuacct/docker/a";
    let file = |name: &str| format!("{folder}/{name}");
    let none = [file("b/cpu.cfs_quota_us"), file("b/cpu.cfs_period_us")];
    let none = [(&*none[0], "-1\n"), (&*none[1], "100000\n")];
    let some = ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"].map(file);
    let some = [
        (&*some[0], "50000\n"),
        (&*some[1], "100000\n"),
        (
            &*some[2],
            "nr_periods 9\nnr_throttled 3\nthrottled_time 1\n",
        ),
    ];
    for mounts in [HYBRID, ""] {
        assert_eq!(found(mounts, groups, &none), None);
        let finding = found(mounts, groups, &[&none[..], &some].concat()).unwrap();
        assert!(finding.fact.contains(" 50000 100000 us "), "{finding:?}");
        assert_eq!(finding.source, format!("{folder}/cpu.cfs_quota_us"));
        assert_eq!(finding.cost.as_deref(), Some("stopped 3 times so far"));
        assert!(finding.remedy.contains("write -1 to"), "{finding:?}");
    }
}

#[test]
fn a_container_sees_the_quota_of_its_own_group_at_the_mount() {
    let mounts = HYBRID.replace(" / /sys/fs/cgroup/cpu,", " /docker/a /sys/fs/cgroup/cpu,");
    let quota = [
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
    ];
    for group in ["/docker/a", "/docker/a/b", "/", "/../c", "/docker/ab"] {
        let groups = format!("3:cpu,cpuacct:{group}\n");
        let finding = found(&mounts, &groups, &quota).unwrap();
        assert_eq!(finding.source, quota[0].0, "{group}");
    }
}

#[test]
fn a_hierarchy_without_the_controller_cpu_has_no_quota() {
    let groups = "4:cpuset,cpuacct:/a\n1:name=systemd:/a\n";
    let file = ("/sys/fs/cgroup/cpuset,cpuacct/a/cpu.cfs_quota_us", "1\n");
    assert_eq!(found("", groups, &[file]), None);
}

proptest! {
    #[test]
    fn any_text_of_the_kernel_is_survived(mounts in "([ /a-]{0,9}( - )?(cgroup2? x (rw,)?cpu)?\n){0,4}", groups in "([0-9]?:(cpu|,){0,3}:[/.a]{0,9}\n){0,4}", quota in ".{0,30}") {
        found(&mounts, &groups, &[("/sys/fs/cgroup/cpu.max", &quota), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &quota)]);
    }
}
