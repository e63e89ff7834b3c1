use super::*;

const LIST: &str = r##"# Why.

[pages]
limit = 48200 # words
goal = 30000

[[refused]]
found = "is green"
except = ["there is green", "is greenish"]
write = "grows"

[[refused]]
found = "1/#"
write = "13x"

# Of colours.
[[counted]]
found = "red"
write = "green"
count = 3 # was 4

[[counted]]
found = "blue"
write = "green"
count = 5
"##;

fn list() -> List {
    List::parse(LIST).unwrap()
}

#[test]
fn a_phrase_is_found_as_whole_words() {
    let phrase = &list().refused[0];
    assert_eq!(
        phrase.offsets("it is green, this green is_green is greener"),
        [3]
    );
    assert_eq!(phrase.offsets("is green"), [0]);
}

#[test]
fn a_longer_phrase_that_is_good_english_is_not_found() {
    let phrase = &list().refused[0];
    assert_eq!(phrase.offsets("if there is green; é is green"), [22]);
    assert_eq!(phrase.offsets("is greenish"), [0; 0]);
}

#[test]
fn a_number_sign_is_any_number() {
    let phrase = &list().refused[1];
    assert_eq!(phrase.offsets("1/13 of it, 11/2, 1/x, 1/2x, 1/7"), [0, 29]);
    assert_eq!(words("v13.1, v2., v.2", "v#.#"), [0]);
}

#[test]
fn numbers_are_lowered_and_all_else_stays() {
    let text = lowered(LIST, &[2, 5], 41_234).unwrap();
    let expected = LIST.replace("48200", "41300").replace("= 3 #", "= 2 #");
    assert_eq!(text, expected);
}

#[test]
fn no_number_is_raised() {
    assert_eq!(lowered(LIST, &[4, 6], 50_000).unwrap(), LIST);
}

#[test]
fn the_limit_is_not_lowered_below_the_goal() {
    let text = lowered(LIST, &[3, 5], 20_000).unwrap();
    assert_eq!(List::parse(&text).unwrap().pages.limit, 30_000);
}

#[test]
fn an_unknown_key_is_refused() {
    let error = List::parse(&LIST.replace("goal", "gaol")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read xtask/words.toml");
}

#[test]
fn the_list_of_this_repository_is_read() {
    List::parse(include_str!("../../words.toml")).unwrap();
}
