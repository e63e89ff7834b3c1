use super::*;

fn words(text: &str) -> Vec<OsString> {
    let places = TemplateValues {
        image: Path::new("/tmp/a b/probe.elf"),
        bzimage: Path::new("/b"),
        config: Path::new("/c"),
        cmdline: "ops=10 {disk}",
        disk: Path::new("/tmp/disk"),
        cpus: 2,
        memory: 64,
        accel: "kvm",
    };
    let words = parse(text).unwrap().words;
    words.iter().map(|word| filled(word, places)).collect()
}

#[test]
fn places_are_taken_within_their_words() {
    assert_eq!(
        words("x=vmm --kernel={image} -c {cmdline} --disk path={disk},ro -n{cpus}"),
        [
            "vmm",
            "--kernel=/tmp/a b/probe.elf",
            "-c",
            "ops=10 {disk}",
            "--disk",
            "path=/tmp/disk,ro",
            "-n2"
        ]
    );
}

#[test]
fn a_template_without_a_place_for_the_image_is_refused() {
    assert_eq!(parse("x=vmm --kernel image"), Err(TemplateError::NoImage));
    assert_eq!(parse("x="), Err(TemplateError::NoImage));
}

#[test]
fn a_single_word_is_a_program() {
    assert_eq!(parse("x=/a/vmm").unwrap().program(), Some("/a/vmm"));
    assert_eq!(parse("x={image}").unwrap().program(), None);
    assert_eq!(parse("x=vmm {image}").unwrap().program(), None);
}

#[test]
fn names_are_needed_and_plain() {
    for text in ["vmm {image}", "=vmm {image}"] {
        assert_eq!(parse(text), Err(TemplateError::NoName), "{text}");
    }
    for name in ["a b", "a/b", "../x", "-x", "a,b", &"x".repeat(33)] {
        let error = parse(&format!("{name}=vmm {{image}}"));
        assert_eq!(error, Err(TemplateError::Name(name.to_owned())));
    }
}

#[test]
fn a_command_with_an_open_quote_is_refused() {
    let error = parse("x=vmm '{image}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command cannot be split into words: missing closing quote"
    );
}

#[test]
fn the_program_is_the_first_word() {
    assert_eq!(parse("x='my vmm' {image}").unwrap().words[0], "my vmm");
}

#[test]
fn backslashes_within_double_quotes_are_kept_as_by_a_shell() {
    let words = words(r#"x=vmm {cpus} {image} "a\tb" "c\"d" 'e\f' g\ h"#);
    assert_eq!(words[3..], [r"a\tb", r#"c"d"#, r"e\f", "g h"]);
}
