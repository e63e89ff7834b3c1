use super::super::page::transcripts;
use super::*;

/// Compares the output in a page with what is printed. Returns the diff and the new page.
fn compared(page: &str, printed: &str) -> (Vec<String>, String) {
    let transcripts = transcripts(page);
    let comparison = Comparison::new(&transcripts[0], printed);
    let mut updated = page.to_owned();
    updated.replace_range(transcripts[0].place.clone(), &comparison.updated());
    (comparison.diff("a.md"), updated)
}

#[test]
fn numbers_units_and_columns_may_differ() {
    for (page, printed) in [
        (
            "eoi-pv   8.00    0  454x cheaper",
            "eoi-pv 10.5 0   1,460x cheaper",
        ),
        ("eoi-pv 9.80 <0.01 0", "eoi-pv 9.80 0 0"),
        ("took 1.82s, 22 µs", "took 3 ms, 1 s"),
        ("0.0000057 and -5.7e-06", "5.7e-6 and -1"),
        ("Linux 6.12.117+deb12", "Linux 7.1.9+deb12"),
        ("lab: 0; ... retries 0", "lab: 0; 3 s, saved, retries 0"),
        ("a ..., b, ... c ...", "a 5, b, b c d"),
    ] {
        assert!(is_same(page, printed, false), "{page}, {printed}");
    }
}

#[test]
fn words_signs_zeros_and_numbers_in_words_have_to_be_the_same() {
    for (page, printed) in [
        ("2.7x cheaper", "2.7x slower"),
        ("2.7x cheaper", "27 % cheaper"),
        ("change +5", "change -5"),
        ("exits 0", "exits 1"),
        ("exits <0.01", "exits 1"),
        ("exits 2", "exits 0"),
        ("eoi-x2apic 7", "eoi-x3apic 7"),
        ("port 0x70", "port 0x71"),
        ("5 seconds", "5 minutes"),
        ("lab: 0; ... retries 0", "lab: 0; 3 s, retries 1"),
        ("a ... b ... c", "a c"),
    ] {
        assert!(!is_same(page, printed, false), "{page}, {printed}");
    }
}

#[test]
fn large_deterministic_numbers_are_within_a_fifth() {
    assert!(is_same("mmio 3729 1.5 454x", "mmio 3841 9.5 199x", true));
    assert!(!is_same("portio 5353", "portio 3374", true));
    assert!(!is_same("portio 5,353", "portio 3,374", true));
    assert!(is_same("999 500", "1,000 500", true));
    assert!(!is_same("1e3 500", "1e3 900", true));
    assert!(is_same("portio 5353", "portio 3374", false));
    assert!(is_same("portio 5353 ms", "portio 33 ms", true));
}

#[test]
fn lines_differ_only_where_no_elision_is() {
    let page =
        "A page:\n\n    $ vmbell a\n    ...\n    one 1\n    two\n    ...\n    four\n\nText.\n";
    let printed = "zero\none 1\none 5\ntwo\nthree\nfour\n\n";
    assert_eq!(
        compared(page, printed),
        (Vec::new(), page.replace("one 1", "one 5"))
    );
    let (diff, updated) = compared(page, "one 5\nthree\nfour\nfive\n");
    assert_eq!(diff, ["a.md:6: -two", "a.md:9: +five"]);
    let lines = "one 5\n    three\n    four\n    five\n\nText.\n";
    assert_eq!(updated, format!("A page:\n\n    $ vmbell a\n    {lines}"));
}

#[test]
fn a_page_may_leave_out_what_the_lab_says() {
    let printed = "lab: Linux\none\nlab: exit status 0\n";
    let (diff, _) = compared("$ vmbell lab -- a\none\n", printed);
    assert_eq!(diff, [""; 0]);
    let (diff, _) = compared("$ vmbell lab -- a\nlab: Linux\none\n", printed);
    assert_eq!(diff, ["a.md:4: +lab: exit status 0"]);
}
