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

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn top_counts_fifty_vms_at_once_to_the_unit() {
    const GUESTS: usize = 50;
    let script = r#"
start_top
mkfifo /end
exec 3<>/end
n=0
while [ $n -lt 50 ]; do
    n=$((n + 1)); way=exit
    [ $((n % 2)) = 0 ] || way=ioeventfd
    "$guest" $way </end >/out/$n & echo "guest $n: $!"
done
for n in $(seq 50); do
    until grep -q '^[0-9]* [0-9]*$' /out/$n; do sleep 0.2; done
done
seen
echo table; "$vmbell" top --once; echo end
kill $top; wait $top; true
"#;
    let (shown, folder) = in_l1(&["--with", "/usr/bin/seq"], script);
    let lines = lines(folder.path());
    let last = lines.last().unwrap();
    assert_eq!(last["lost"], 0);
    for guest in 1..=GUESTS {
        let pid = said(&shown, &format!("guest {guest}: "));
        let [vm] = vms(last, pid)[..] else {
            panic!("{last}");
        };
        let (exits, rings) = if guest % 2 == 0 { (2000, 0) } else { (0, 2000) };
        let address = &vm["addresses"][0];
        assert_eq!(
            (&address["exits_to_vmm"], &address["ioeventfds"]),
            (&exits.into(), &rings.into()),
            "{vm}"
        );
        assert_eq!(vm["reasons"], serde_json::json!({"hlt": 1}), "{vm}");
        assert_eq!(vm["statistics"]["io_exits"], exits + rings, "{vm}");
        assert_eq!(vm["ended"], false, "{vm}");
    }
    let (_, table) = shown.split_once("table\n").unwrap();
    assert_eq!(table.matches(" kvm_smoke ").count(), GUESTS, "{table}");
}
