//! The names of VMs in the tables of `vmbell top`, for a pipe and for a terminal of L1.

use std::collections::BTreeSet;
use std::fs;

use super::top::in_l1;

/// The names in the first table, which is sorted by CPU time.
fn names(printed: &str) -> BTreeSet<&str> {
    let (_, table) = printed.split_once(" PV").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|row| !row.trim().is_empty());
    rows.map(|row| row.split_whitespace().nth(1).unwrap())
        .collect()
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn names_are_whole_in_a_pipe_and_cut_in_the_middle_on_a_narrow_terminal() {
    let script = r#"
cp "$guest" /qemu-system-x86_64
mkfifo /end; exec 3<>/end
n=0; guests=
start() {
    n=$((n + 1))
    /qemu-system-x86_64 exit "$@" </end >/out/$n &
    guests="$guests $!"
    has_run $n
}
start -name guest=instance-00000001,debug-threads=on
start -name guest=instance-00000002,debug-threads=on
start -name guest=仮想機械
start -name debug-threads=on,guest=last
start -name a,,b
start -append --name=x
"$vmbell" top --once -d 0.1 >/out/piped
cat >/screen.sh <<END
stty rows 24 cols 82
"$vmbell" top --once -d 0.1
END
SHELL=/bin/sh script --quiet --flush --command "/bin/sh /screen.sh" /out/screen </dev/null >/dev/null
kill -KILL $guests; wait; true
"#;
    let (_, folder) = in_l1(&[], script);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let piped = read("piped");
    let whole = [
        "qemu:instance-00000001",
        "qemu:instance-00000002",
        "qemu:仮想機械",
        "qemu:last",
        "qemu:a,b",
        "qemu",
    ];
    assert_eq!(names(&piped), BTreeSet::from(whole), "{piped}");
    let screen = read("screen");
    let cut = [
        "qemu:i…00001",
        "qemu:i…00002",
        "qemu:…想機械",
        "qemu:last",
        "qemu:a,b",
        "qemu",
    ];
    assert_eq!(names(&screen), BTreeSet::from(cut), "{screen}");
}
