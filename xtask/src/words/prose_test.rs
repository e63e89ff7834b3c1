use super::*;

fn program(text: &str) -> String {
    Prose::new(Kind::Program, text).text.trim_end().to_owned()
}

#[test]
fn comments_and_strings_are_prose_and_identifiers_are_not() {
    let text = "//! Of a module\nfn blue(red: u8) { say(\"A Message\", b\"bytes\"); } // Trailing\n/// Doc\n";
    assert_eq!(program(text), "of a module\na message\nbytes\ntrailing doc");
}

#[test]
fn lines_of_a_comment_are_joined_until_an_empty_one() {
    let text = "/// one\n/// two\n///\n/// three\n\n// four\nlet a = 1;\n// five\n";
    assert_eq!(program(text), "one two\nthree\nfour\nfive");
    assert_eq!(program("/* one\n * two\n */\nlet a;"), "one two");
    assert_eq!(program("/* a /* b */ c */ d"), "a /* b */ c");
}

#[test]
fn lines_of_a_string_are_joined_and_those_that_it_prints_are_not() {
    assert_eq!(
        program("say(\"one \\\n    two\\nthree\")"),
        "one two\nthree"
    );
    assert_eq!(program("say(\"one\");\nsay(\"two\");"), "one\ntwo");
    assert_eq!(
        program("r#\"one \"quoted\"\ntwo\n\nthree\"#"),
        "one \"quoted\" two\nthree"
    );
}

#[test]
fn quotes_slashes_and_lifetimes_begin_no_string_where_they_are_something_else() {
    assert_eq!(program("let a = ['\"', '\\'', '\\\\']; // one"), "one");
    assert_eq!(
        program("fn a<'a>(b: &'a str) -> &'a str { \"one\" }"),
        "one"
    );
    assert_eq!(program("say(\"a \\\" // b\"); // one"), "a \" // b\none");
    assert_eq!(program("let r#type = car\"\";"), "");
    assert_eq!(program("'é' 'é: \"ß\""), "ß");
}

#[test]
fn what_is_never_closed_ends_with_the_file() {
    for text in ["\"one", "r#\"one\"", "/* one", "// one"] {
        assert_eq!(program(text).trim_end_matches('"'), "one");
    }
    for text in ["'", "'\\", "'\\'", "r#", "/"] {
        assert_eq!(program(text), "");
    }
}

#[test]
fn an_offset_leads_to_its_line() {
    let text = "// one\n// two\nlet a = \"x\\\n y\";\n\nlet b = r\"\nthree\";\nfour(); /* a\n b */ // five\n";
    let prose = Prose::new(Kind::Program, text);
    for (word, line) in [
        ("one", 1),
        ("two", 2),
        ("x", 3),
        ("y", 4),
        ("three", 7),
        ("b", 9),
        ("five", 9),
    ] {
        assert_eq!(prose.line(prose.text.find(word).unwrap()), line, "{word}");
    }
}

#[test]
fn paragraphs_of_a_page_are_joined() {
    let prose = Prose::new(Kind::Page, "# Title\n\nOne\ntwo.\n\nThree\n");
    assert_eq!(prose.text, "title\none two.\nthree");
    assert_eq!(prose.line(prose.text.find("two").unwrap()), 4);
}

#[test]
fn markers_are_comments_and_no_prose() {
    for (kind, text) in [
        (Kind::Program, "// words: allow \"red\": the colour\n"),
        (Kind::Script, "# words: allow \"red\": the colour\n"),
        (Kind::Page, "<!-- words: allow \"red\": the colour -->\n"),
    ] {
        let prose = Prose::new(kind, text);
        assert_eq!(prose.text, "");
        let marker = Marker {
            line: 1,
            phrase: "red".to_owned(),
            reason: "the colour".to_owned(),
        };
        assert_eq!(prose.markers, [marker]);
    }
    let said = Prose::new(
        Kind::Program,
        "\"// words: allow \\\"red\\\": x\" // a `// words: allow `",
    );
    assert_eq!(said.markers, []);
}

#[test]
fn a_marker_between_two_lines_does_not_part_them() {
    let text = "/// one\n// words: allow \"one two\": both\n/// two\n";
    assert_eq!(program(text), "one two");
}

#[test]
fn a_marker_without_quotes_or_colon_has_no_reason() {
    for text in [
        "// words: allow red: x",
        "// words: allow \"red\" x",
        "// words: allow \"red\":",
    ] {
        let prose = Prose::new(Kind::Program, text);
        assert_eq!(prose.markers[0].reason, "", "{text}");
    }
}

#[test]
fn kinds_are_told_by_name() {
    assert_eq!(Kind::of("docs/lab.md"), Some(Kind::Page));
    assert_eq!(Kind::of("kernel/kvm-ioeventfd/ring.c"), Some(Kind::Program));
    assert_eq!(Kind::of(".ci/run"), Some(Kind::Script));
    assert_eq!(Kind::of("docs/api/vmbell.txt"), None);
    assert_eq!(Kind::of("LICENSE-APACHE"), None);
}
