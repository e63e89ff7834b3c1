use super::*;

fn with_rows(rows: &str) -> String {
    format!(
        r#"{{"version":1,"boot":"pvh","cpu":{{"vendor":"v","brand":"b"}},"hypervisor":null,"apic":"xapic","cpus":1,"tsc_hz":2100000000,"tsc_source":"pvclock","devices":[{{"kind":"rng","transport":"pci","found_by":"pci-cf8","interrupt":"msix","gsi":null}}],"rows":[{rows}],"end":"pm1a"}}"#
    )
}

#[test]
fn numbers_and_reasons_are_read() {
    let rows = r#"{"name":"cpuid","mark":1,"operations":10,"samples":[7,8]},{"name":"timer","mark":2,"reason":"no timer"}"#;
    let document = parse(&with_rows(rows)).unwrap();
    let batches = BatchTicks {
        operations: 10,
        ticks: vec![7, 8],
    };
    assert_eq!(document.rows[0].result, Ok(batches));
    assert_eq!(document.rows[1].result, Err("no timer".to_owned()));
    assert_eq!(document.guest.tsc_hz, Some(2.1e9));
    assert_eq!(document.guest.devices[0].interrupt.as_deref(), Some("msix"));
}

#[test]
fn fields_of_later_images_are_ignored() {
    let line = with_rows(r#"{"name":"cpuid","operations":1,"samples":[1],"later":true}"#);
    assert!(parse(&line.replacen('{', r#"{"later":[],"#, 1)).is_ok());
}

#[test]
fn names_that_would_spoil_a_table_are_refused() {
    for name in [
        "",
        "a b",
        "a,b",
        "A",
        "a|b",
        "\\u001b[31m",
        &"x".repeat(NAME + 1),
    ] {
        let rows = format!(r#"{{"name":"{name}","operations":1,"samples":[1]}}"#);
        let error = parse(&with_rows(&rows)).unwrap_err();
        assert!(matches!(error, DocumentError::Name(_)), "{name}: {error}");
    }
}

#[test]
fn a_row_without_numbers_and_reason_is_refused() {
    for rest in [
        "",
        r#","operations":0,"samples":[1]"#,
        r#","operations":1,"samples":[]"#,
    ] {
        let error = parse(&with_rows(&format!(r#"{{"name":"cpuid"{rest}}}"#)));
        assert_eq!(error, Err(DocumentError::Empty("cpuid".to_owned())));
    }
}

#[test]
fn a_name_twice_is_refused() {
    let row = r#"{"name":"cpuid","operations":1,"samples":[1]}"#;
    let error = parse(&with_rows(&format!("{row},{row}")));
    assert_eq!(error, Err(DocumentError::Twice("cpuid".to_owned())));
}

#[test]
fn more_rows_than_any_image_has_are_refused() {
    let row = |n| format!(r#"{{"name":"r{n}","reason":"none"}}"#);
    let rows: Vec<String> = (0..=ROWS).map(row).collect();
    let error = parse(&with_rows(&rows.join(","))).unwrap_err();
    assert!(
        matches!(error, DocumentError::TooMany { what: "rows", .. }),
        "{error}"
    );
}

#[test]
fn negative_numbers_and_other_types_are_refused() {
    for samples in ["[-1]", "[1.5]", "7", "[\"1\"]", "[18446744073709551616]"] {
        let rows = format!(r#"{{"name":"cpuid","operations":1,"samples":{samples}}}"#);
        assert!(
            matches!(parse(&with_rows(&rows)), Err(DocumentError::Json(_))),
            "{samples}"
        );
    }
}
