use super::super::super::document;
use super::*;
use vmbell_report::{Reasons, ReasonsOfRun};

fn document(rows: &[(&str, Option<u8>, &[u64])]) -> Document {
    let row = |(name, mark, samples): &(&str, Option<u8>, &[u64])| {
        let mark = mark.map_or_else(|| "null".to_owned(), |mark| mark.to_string());
        format!(r#"{{"name":"{name}","mark":{mark},"operations":10,"samples":{samples:?}}}"#)
    };
    let rows: Vec<String> = rows.iter().map(row).collect();
    let line = format!(
        r#"{{"boot":"pvh","cpu":{{"vendor":"v","brand":"b"}},"hypervisor":null,"apic":"xapic","cpus":1,"tsc_hz":null,"tsc_source":null,"rows":[{}]}}"#,
        rows.join(",")
    );
    document::parse(&line).unwrap()
}

fn batch(exits: &[(&str, u64)], userspace: &[(&str, u64)]) -> ReasonsOfRun {
    let reasons = |counts: &[(&str, u64)]| -> Reasons {
        let counts = counts.iter();
        counts
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect()
    };
    ReasonsOfRun {
        exits: reasons(exits),
        userspace: reasons(userspace),
    }
}

fn marked(mark: u8, batches: &[ReasonsOfRun]) -> BTreeMap<u8, Marked> {
    let marked = Marked {
        batches: batches.to_vec(),
        spoilt: None,
    };
    [(mark, marked)].into()
}

#[test]
fn an_operation_has_its_share_of_a_batch() {
    let batches = [batch(&[("npf", 20)], &[("KVM_EXIT_MMIO", 10)])];
    let counted = Counted::new(&document(&[("a", Some(3), &[1])]), &marked(3, &batches)).unwrap();
    let exits = Exits {
        total: Some(2.0),
        userspace: Some(1.0),
    };
    assert_eq!(counted.of("a").unwrap().exits, Some(exits));
}

#[test]
fn what_the_host_causes_is_listed_and_not_counted() {
    for (interrupt, nmi, window) in [
        ("EXTERNAL_INTERRUPT", "NMI", "INTERRUPT_WINDOW"),
        ("interrupt", "nmi", "vintr"),
    ] {
        let batches = [batch(
            &[("cpuid", 10), (interrupt, 4), (nmi, 1), (window, 3)],
            &[("restart", 2)],
        )];
        let document = document(&[("a", Some(3), &[1])]);
        let counted = Counted::new(&document, &marked(3, &batches)).unwrap();
        let row = counted.of("a").unwrap();
        let exits = Exits {
            total: Some(1.0),
            userspace: Some(0.0),
        };
        assert_eq!(row.exits, Some(exits));
        assert_eq!(row.reasons.kvm_exit[interrupt], 0.4);
        assert_eq!(row.reasons.kvm_userspace_exit["restart"], 0.2);
    }
}

#[test]
fn one_disturbed_batch_does_not_change_the_number() {
    let batch = |exits| batch(&[("hlt", exits)], &[]);
    let batches = [batch(10), batch(17), batch(10)];
    let document = document(&[("a", Some(3), &[1, 1, 1])]);
    let counted = Counted::new(&document, &marked(3, &batches)).unwrap();
    let exits = counted.of("a").unwrap().exits.unwrap();
    assert_eq!(exits.total, Some(1.0));
}

#[test]
fn a_row_of_which_batches_are_missing_has_no_number() {
    let document = document(&[("a", Some(3), &[1, 1, 1]), ("b", Some(4), &[1])]);
    let counted = Counted::new(&document, &marked(3, &[ReasonsOfRun::default()])).unwrap();
    assert_eq!(counted.of("a"), Err("1 of its 3 batches are in the trace"));
    assert_eq!(counted.of("b"), Err("0 of its 1 batches are in the trace"));
    assert!(counted.of("c").is_err());
}

#[test]
fn rows_that_share_a_mark_or_have_none_have_no_number() {
    let document = document(&[
        ("a", Some(3), &[1]),
        ("b", Some(3), &[1]),
        ("c", None, &[1]),
    ]);
    let counted = Counted::new(&document, &marked(3, &[ReasonsOfRun::default()])).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(counted.of(name), Err("it has no mark of its own"));
    }
}

#[test]
fn a_spoilt_row_says_why() {
    let mut marked = marked(3, &[ReasonsOfRun::default()]);
    marked.get_mut(&3).unwrap().spoilt = Some("odd");
    let counted = Counted::new(&document(&[("a", Some(3), &[1])]), &marked).unwrap();
    assert_eq!(counted.of("a"), Err("odd"));
}

#[test]
fn a_trace_without_marks_is_of_no_use() {
    assert!(Counted::new(&document(&[("a", Some(3), &[1])]), &BTreeMap::new()).is_err());
}
