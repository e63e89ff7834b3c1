//! Text of errors and of other programs, cleaned for terminals, tables and files.

use vmbell_report::visible;

/// The maximum number of characters that are kept of a text.
const MOST: usize = 200;

/// The text without control characters, cut after [`MOST`] characters.
pub(crate) fn cleaned(text: &str) -> String {
    let visible = text.trim().chars().filter(|c| !c.is_control());
    let mut short: String = visible.clone().take(MOST).collect();
    if visible.count() > MOST {
        short.push('…');
    }
    short
}

/// An error with its causes.
pub(crate) fn chain(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

/// Returns the error and its causes as one error with [`visible`] text, for errors that may quote an untrusted file.
pub(crate) fn made_visible(error: impl Into<anyhow::Error>) -> anyhow::Error {
    anyhow::Error::msg(visible(&chain(error)))
}

/// How the lines begin that guests of `vmbell bench vmms` and `vmbell bench net` print by design.
const OF_GUESTS: [&str; 3] = ["=== vmbell", "row ", "{"];

/// The lines of what a program printed, without control characters and blank lines.
pub(crate) fn lines_of(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let visible = |line: &str| line.trim().chars().filter(|c| !c.is_control()).collect();
    let lines = text.lines().map(visible);
    lines.filter(|line: &String| !line.is_empty()).collect()
}

/// The last line that a VMM printed, except its guest's marks, rows and results.
pub(crate) fn last_words(output: &[u8]) -> Option<String> {
    let is_of_guest = |line: &str| {
        line.contains(OF_GUESTS[0]) || OF_GUESTS.iter().any(|mark| line.starts_with(mark))
    };
    let lines = lines_of(output);
    let last = lines.iter().rfind(|line| !is_of_guest(line));
    last.map(|line| cleaned(line))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_words_are_those_of_the_vmm() {
        let words = |text: &str| last_words(text.as_bytes());
        assert_eq!(
            words("a\nfatal: b\r\nrow cpuid\r\n\r\n"),
            Some("fatal: b".to_owned())
        );
        assert_eq!(words("\x1b[31mred\x07\n"), Some("[31mred".to_owned()));
        assert_eq!(
            words("bye\n{\"version\":1}\nx === vmbell-probe end ==="),
            Some("bye".to_owned())
        );
        assert_eq!(words("=== vmbell net: ready ===\n"), None);
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(cleaned(&"x".repeat(1000)).chars().count(), MOST + 1);
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(output in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = last_words(&output);
        }
    }
}
