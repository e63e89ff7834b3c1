//! Text that fits a terminal: paragraphs are broken between words and go on under their first line.

use std::fmt::Write;

/// Breaks `text` so that no line is wider than `width` characters, if a word allows it; every line but the
/// first begins with `indent` blanks, and the first one is taken to begin with as many characters already.
pub(super) fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else {
        return text.to_owned();
    };
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent {
            if column + 1 + length > width {
                // Writing to a String cannot fail.
                let _ = write!(wrapped, "\n{:indent$}", "");
                column = indent;
            } else {
                wrapped.push(' ');
                column += 1;
            }
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_go_on_under_the_first() {
        assert_eq!(wrap("one two three", 4, Some(11)), "one two\n    three");
        assert_eq!(wrap("one two three", 4, None), "one two three");
    }

    #[test]
    fn a_word_that_is_wider_than_the_line_stands_alone() {
        assert_eq!(
            wrap("a incomprehensibilities b", 2, Some(10)),
            "a\n  incomprehensibilities\n  b"
        );
    }
}
