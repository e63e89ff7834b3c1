use super::*;

#[test]
fn bytes_of_a_terminal_are_keys() {
    let all = b"q\x1b[A\x1b[6~\x1bOP\x1b[21~\x03\r\xc3\xa9";
    let expected = [
        Key::Char('q'),
        Key::Up,
        Key::PageDown,
        Key::F(1),
        Key::F(10),
        Key::Ctrl('c'),
        Key::Char('\n'),
        Key::Char('é'),
    ];
    assert_eq!(keys(all), expected);
    assert_eq!(keys(b"\x1b"), [Key::Esc]);
    assert_eq!(keys(b""), []);
}

#[test]
fn the_rest_of_a_sequence_or_of_a_character_is_waited_for() {
    for begun in ["\x1b", "\x1b[", "\x1b[2", "\x1b[1;", "q\x1bO"] {
        assert!(is_begun(begun.as_bytes()), "{begun:?}");
    }
    assert!(is_begun(b"\xc3"));
    for whole in ["", "q", "\x1b[A", "\x1b[21~", "\x1bOP", "é", "\x1b[Aq"] {
        assert!(!is_begun(whole.as_bytes()), "{whole:?}");
    }
}
