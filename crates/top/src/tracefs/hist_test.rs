use super::*;

/// Of Linux 6.1.0-56 with Debian's configuration; 6.12.118 and 7.3.4 print the same.
const TWO: &str = "\
# event histogram
#
# trigger info: hist:keys=common_pid:vals=hitcount:sort=hitcount:size=4096:onmatch(kvm.kvm_exit).trace(vmbell_top_91_1073_port,$i0) if reason == 2 && errno >= 0 [active]
#

{ common_pid:        173 } hitcount:          2
{ common_pid:        169 } hitcount:        591

Totals:
    Hits: 593
    Entries: 2
    Dropped: 0


# event histogram
#
# trigger info: hist:keys=common_pid,reason,errno:vals=hitcount:sort=hitcount:size=4096 if (reason != 6 && reason != 2) || errno < 0 [active]
#

{ common_pid:        169, reason:         10, errno: 18446744073709551612 } hitcount:          1

Totals:
    Hits: 1
    Entries: 1
    Dropped: 17
";

#[test]
fn each_histogram_of_a_file_has_its_entries_and_what_it_dropped() {
    let [ports, others] = &Hist::all(TWO)[..] else {
        panic!("two histograms");
    };
    let pid = |pid| vec![("common_pid".to_owned(), pid)];
    assert_eq!(ports.entries, [(pid(173), 2), (pid(169), 591)]);
    assert_eq!((ports.dropped, others.dropped), (0, 17));
    let [(keys, count)] = &others.entries[..] else {
        panic!("{others:?}");
    };
    assert_eq!((&keys[1], *count), (&("reason".to_owned(), 10), 1));
    assert_eq!(keys[2].1.cast_signed(), -4);
}

#[test]
fn keys_are_told_from_values_and_conditions() {
    let hists = Hist::all(TWO);
    let keys = |hist: &Hist| ["common_pid", "reason", "errno"].map(|key| hist.has_key(key));
    assert_eq!(keys(&hists[0]), [true, false, false]);
    assert_eq!(keys(&hists[1]), [true, true, true]);
}

#[test]
fn a_text_that_is_no_histogram_has_no_entries() {
    assert_eq!(Hist::all("{ common_pid: 1 } hitcount: 2\n"), []);
    let info = "# trigger info: hist:keys=common_pid [active]\n";
    for line in [
        "{ common_pid: many } hitcount: 2",
        "{ common_pid: 1 } hitcount: -",
        "{ common_pid: 1",
        "",
    ] {
        let [hist] = &Hist::all(&format!("{info}{line}\n"))[..] else {
            panic!("{line}");
        };
        assert_eq!(hist.entries, [], "{line}");
    }
}
