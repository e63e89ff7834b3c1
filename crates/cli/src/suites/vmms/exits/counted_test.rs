use super::super::document;
use super::*;
use vmbell_report::{Reasons, ReasonsOfRun};

fn document(rows: &[(&str, Option<u8>, &[u64])]) -> BootDocument {
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

fn marked(mark: u8, batches: &[ReasonsOfRun]) -> BTreeMap<u8, MarkedBatches> {
    let marked = MarkedBatches {
        batches: batches.to_vec(),
        spoilt: None,
    };
    [(mark, marked)].into()
}

/// What was counted for the row with this name.
fn of<'c>(counted: &'c CountedRows, name: &str) -> Result<&'c [CountedBatch], &'c str> {
    let (_, row) = counted.iter().find(|(other, _)| other == name).unwrap();
    row.as_deref().map_err(String::as_str)
}

#[test]
fn a_row_has_the_batches_of_its_mark() {
    let batches = [
        batch(&[("npf", 20)], &[("KVM_EXIT_MMIO", 10)]),
        batch(&[("npf", 21)], &[("KVM_EXIT_MMIO", 10)]),
    ];
    let document = document(&[("a", Some(3), &[1, 1])]);
    let counted = counted(&document, &marked(3, &batches)).unwrap();
    let row = of(&counted, "a").unwrap();
    assert_eq!(row.len(), 2);
    assert_eq!((row[1].operations, &row[1].reasons), (10.0, &batches[1]));
}

#[test]
fn a_row_of_which_batches_are_missing_has_no_number() {
    let document = document(&[("a", Some(3), &[1, 1, 1]), ("b", Some(4), &[1])]);
    let counted = counted(&document, &marked(3, &[ReasonsOfRun::default()])).unwrap();
    assert_eq!(
        of(&counted, "a"),
        Err("1 of its 3 batches are in the trace")
    );
    assert_eq!(
        of(&counted, "b"),
        Err("0 of its 1 batches are in the trace")
    );
}

#[test]
fn rows_that_share_a_mark_or_have_none_have_no_number() {
    let document = document(&[
        ("a", Some(3), &[1]),
        ("b", Some(3), &[1]),
        ("c", None, &[1]),
    ]);
    let counted = counted(&document, &marked(3, &[ReasonsOfRun::default()])).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(of(&counted, name), Err("it has no mark, or shares one"));
    }
}

#[test]
fn a_spoilt_row_says_why() {
    let mut marked = marked(3, &[ReasonsOfRun::default()]);
    marked.get_mut(&3).unwrap().spoilt = Some("odd");
    let counted = counted(&document(&[("a", Some(3), &[1])]), &marked).unwrap();
    assert_eq!(of(&counted, "a"), Err("odd"));
}

#[test]
fn a_trace_without_marks_is_of_no_use() {
    assert!(counted(&document(&[("a", Some(3), &[1])]), &BTreeMap::new()).is_err());
}
