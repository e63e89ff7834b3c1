use proptest::prelude::*;

use super::*;

const DOCUMENT: &str = r#"{"version":1,"boot":"pvh","cpu":{"vendor":"GenuineIntel","brand":"A CPU"},"hypervisor":"KVMKVMKVM","apic":"xapic","cpus":1,"tsc_hz":null,"tsc_source":null,"devices":[],"rows":[{"name":"cpuid","mark":1,"operations":10,"samples":[100,120,110]}],"end":"pm1a"}"#;

fn whole() -> String {
    format!(
        "SeaBIOS\x1bc\r\n=== vmbell-probe start ===\r\nrow cpuid\r\n\
         === vmbell-probe begin 1 ===\r\n{DOCUMENT}\r\n=== vmbell-probe end ===\r\nbye\n"
    )
}

#[test]
fn a_document_is_found_among_the_text_of_a_vmm() {
    let document = read(whole().as_bytes()).unwrap();
    assert_eq!(document.guest.boot, "pvh");
    assert_eq!(document.rows.len(), 1);
    assert!(is_complete(whole().as_bytes()));
}

#[test]
fn a_line_of_the_vmm_before_the_document_is_passed_over() {
    let text = whole().replace("begin 1 ===\r\n", "begin 1 ===\r\nvmm: hello\r\n");
    assert!(read(text.as_bytes()).is_ok());
}

#[test]
fn nothing_and_garbage_have_nothing_of_the_image() {
    for output in [&b""[..], b"\xff\xfe\0\0", b"qemu: no such machine\n"] {
        assert_eq!(read(output), Err(SerialError::Nothing));
    }
}

#[test]
fn the_row_in_which_an_image_stopped_is_named() {
    let output = b"=== vmbell-probe start ===\r\nrow cpuid\r\nrow rtc-read\r\n";
    let error = read(output).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the image started but printed no results (it was in the row rtc-read)"
    );
    assert!(!is_complete(output));
}

#[test]
fn half_a_document_breaks_off() {
    let text = whole();
    let half = &text.as_bytes()[..text.find("samples").unwrap()];
    assert_eq!(read(half), Err(SerialError::Cut));
    assert_eq!(read(b"=== vmbell-probe begin 1"), Err(SerialError::Cut));
}

#[test]
fn marks_without_a_document_break_off() {
    let output = b"=== vmbell-probe begin 1 ===\n=== vmbell-probe end ===\n";
    assert_eq!(read(output), Err(SerialError::Cut));
}

#[test]
fn another_version_is_named() {
    let text = whole().replace("begin 1 ", "begin 2 ");
    let found = "2".to_owned();
    assert_eq!(read(text.as_bytes()), Err(SerialError::Version { found }));
}

#[test]
fn a_failure_of_the_image_is_told_in_its_words() {
    let output = b"=== vmbell-probe start ===\r\nrow pio-unassigned\r\n\
        === vmbell-probe exception 13 error 0 rip 200000 cr2 0 ===\r\n";
    assert_eq!(
        read(output).unwrap_err().to_string(),
        "the image failed: exception 13 error 0 rip 200000 cr2 0 (it was in the row pio-unassigned)"
    );
    assert!(is_complete(output));
}

proptest! {
    #[test]
    fn no_output_makes_the_reader_panic(output in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&output);
    }

    #[test]
    fn a_document_with_bytes_changed_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut output = whole().into_bytes();
        for (at, byte) in changes {
            let at = at.index(output.len());
            output[at] = byte;
        }
        output.truncate(end.index(output.len()) + 1);
        if let Ok(document) = read(&output) {
            prop_assert!(document.rows.len() <= 2);
        }
    }
}
