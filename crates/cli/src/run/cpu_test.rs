use super::*;

#[test]
fn names_are_hidden_together() {
    let features = hidden("-x2apic,-smap").unwrap();
    assert_eq!(format!("{features:?}"), r#"{"x2apic", "smap"}"#);
    assert_eq!(hidden("-x2apic,-x2apic"), hidden("-x2apic"));
    assert!(hidden("").unwrap().is_empty());
}

#[test]
fn mistakes_are_named_with_what_was_meant() {
    for (text, message) in [
        (
            "-x2apci",
            "unknown CPU feature 'x2apci', did you mean 'x2apic'?",
        ),
        ("-tsc-deadline", "did you mean 'tsc_deadline_timer'?"),
        ("-smap,+x2apic", "'+x2apic' has no '-'"),
        ("x2apic", "'x2apic' has no '-'"),
        ("-", "unknown CPU feature ''"),
        ("-smap,", "'' has no '-'"),
    ] {
        let error = hidden(text).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
