use super::*;

const LIST: &str = r#"
[pages]
limit = 6
goal = 2
[[refused]]
found = "is green"
write = "grows"
[[counted]]
found = "red"
write = "blue"
count = 2
"#;

/// A file with two lines that contain the counted phrase.
const OTHER: (&str, &str) = ("a.rs", "// red\n\n// red\n");

fn list() -> List {
    List::parse(LIST).unwrap()
}

fn problems_of(files: &[(&str, &str)], changed: &[(&str, usize)]) -> Vec<String> {
    let files: Vec<(String, String)> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let changed = changed.iter().map(|&(path, line)| Place {
        path: path.to_owned(),
        line,
    });
    Findings::of(&list(), &files).problems(&list(), || changed.collect())
}

/// Returns the problems of a file, checked along with another one that has none.
fn problems(path: &str, text: &str) -> Vec<String> {
    problems_of(&[OTHER, (path, text)], &[])
}

#[test]
fn what_is_not_listed_is_no_problem() {
    assert_eq!(problems("b.rs", "/// It grows.\nfn a() {}\n"), [""; 0]);
}

#[test]
fn a_refused_phrase_in_a_doc_comment_is_a_problem() {
    let text = "fn a() {}\n/// The tree is\n/// Green.\n";
    assert_eq!(
        problems("b.rs", text),
        ["b.rs:2: \"is green\": write grows"]
    );
}

#[test]
fn a_refused_phrase_in_a_string_is_a_problem() {
    assert_eq!(
        problems("b.rs", "say(\n\"it is green\")"),
        ["b.rs:2: \"is green\": write grows"]
    );
}

#[test]
fn a_refused_phrase_in_a_page_or_script_is_a_problem() {
    assert_eq!(
        problems("b.md", "It is green.\n"),
        ["b.md:1: \"is green\": write grows"]
    );
    assert_eq!(
        problems(".ci/run", "# It is green.\n"),
        [".ci/run:1: \"is green\": write grows"]
    );
}

#[test]
fn an_identifier_is_not_prose() {
    assert_eq!(
        problems("b.rs", "let is = green(red);\nfn is_green() {}\n"),
        [""; 0]
    );
}

#[test]
fn a_marker_allows_its_phrase_on_its_line_and_on_the_next() {
    for text in [
        "// words: allow \"is green\": a colour\nsay(\"it is green\");\n",
        "say(\"it is green\"); // words: allow \"is green\": a colour\n",
        "/// A tree\n// words: allow \"is green\": a colour\n/// is green.\n",
    ] {
        assert_eq!(problems("b.rs", text), [""; 0], "{text}");
    }
    assert_eq!(
        problems(
            "b.md",
            "<!-- words: allow \"is green\": a colour -->\nIt is green.\n"
        ),
        [""; 0]
    );
}

#[test]
fn a_marker_without_a_reason_is_a_problem() {
    let text = "// words: allow \"is green\":\nsay(\"it is green\");\n";
    assert_eq!(
        problems("b.rs", text),
        ["b.rs:1: the marker for \"is green\" gives no reason"]
    );
}

#[test]
fn a_marker_that_allows_nothing_is_a_problem() {
    for text in [
        "// words: allow \"is green\": a colour\n",
        "// words: allow \"is green\": a colour\n\nlet a;\n",
    ] {
        assert_eq!(
            problems("b.rs", text),
            ["b.rs:1: the marker for \"is green\" allows nothing"]
        );
    }
    let text = "// words: allow \"red\": a colour\nsay(\"it is green\");\n";
    assert_eq!(
        problems("b.rs", text),
        [
            "b.rs:2: \"is green\": write grows",
            "b.rs:1: the marker for \"red\" allows nothing"
        ]
    );
}

#[test]
fn a_count_that_rises_is_a_problem_and_names_the_changed_lines() {
    let files = [OTHER, ("b.rs", "// red\n")];
    assert_eq!(
        problems_of(&files, &[("b.rs", 1), ("c.rs", 1)]),
        ["the count of \"red\" is 3, more than 2: write blue; on changed lines:\n  b.rs:1"]
    );
    assert_eq!(
        problems_of(&files, &[]),
        ["the count of \"red\" is 3, more than 2: write blue; all:\n  a.rs:1\n  a.rs:3\n  b.rs:1"]
    );
}

#[test]
fn a_count_that_falls_is_a_problem_until_it_is_written() {
    assert_eq!(
        problems_of(&[("a.rs", "// red\n")], &[]),
        [
            "the count of \"red\" is 1, not 2: write 1 into xtask/words.toml, or run `cargo xtask words --update`"
        ]
    );
}

#[test]
fn more_words_than_the_limit_are_a_problem() {
    let page = "one two — three\n";
    assert_eq!(problems("docs/a.md", page), [""; 0]);
    let files = [
        OTHER,
        ("docs/a.md", page),
        ("README.md", "1 2 3"),
        ("docs/api/b.md", "x"),
        ("c.md", "y"),
    ];
    assert_eq!(
        problems_of(&files, &[]),
        ["README.md and docs/*.md have 7 words, more than 6"]
    );
}
