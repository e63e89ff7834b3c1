//! `vmbell top` when things go wrong: VMs that are killed, many of them, and hosts that forbid or lack something.

use std::fs;

use super::top::{in_l1, lines, said, vms};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_shows_a_vm_that_is_killed_once_as_ended_with_its_last_counts() {
    let script = r#"
start_top
for n in 1 2 3 4; do
    "$guest" forever >/out/$n & echo "guest $n: $!"
    until [ -s /out/$n ]; do sleep 0.1; done
    seen
    # At another time within a reading's interval.
    sleep 0.$n; kill -KILL $!
    wait $!
done
seen; seen
kill $top; wait $top; true
"#;
    let (shown, folder) = in_l1(&[], script);
    let lines = lines(folder.path());
    for guest in 1..=4 {
        let pid = said(&shown, &format!("guest {guest}: "));
        let of_guest: Vec<_> = lines.iter().flat_map(|line| vms(line, pid)).collect();
        let (last, before) = of_guest.split_last().unwrap();
        assert!(before.iter().all(|vm| vm["ended"] == false), "{of_guest:?}");
        assert_eq!(last["ended"], true, "{of_guest:?}");
        assert_eq!(last["vmm"], "kvm_smoke");
        // The last exit may have been before its dot.
        let printed = fs::read_to_string(folder.path().join(guest.to_string())).unwrap();
        let dots = printed.matches('.').count();
        let at_port = last["addresses"][0]["exits_to_vmm"].as_u64().unwrap();
        let at_port = usize::try_from(at_port).unwrap();
        assert!(at_port == dots || at_port == dots + 1, "{dots} {last}");
        let counts = of_guest.iter().map(|vm| vm["exits_to_vmm"].as_u64());
        assert!(counts.is_sorted(), "{of_guest:?}");
    }
    for line in &lines {
        assert_eq!(line["lost"], 0);
    }
}
