//! Text that fits a terminal: paragraphs are broken between words and go on under their first line, and text of others
//! cannot command it.

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

/// The text without a byte order mark, which editors and shells of Windows put before it.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// `text` with its control characters and those that reorder what follows written as escapes, such as `\u{1b}`: text from
/// a file can neither colour a terminal nor move its cursor.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            visible.extend(c.escape_unicode());
        } else {
            visible.push(c);
        }
    }
    visible
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

    #[test]
    fn text_of_others_cannot_command_a_terminal() {
        assert_eq!(
            visible("\x1b[31mred\n\u{202e}"),
            "\\u{1b}[31mred\\u{a}\\u{202e}"
        );
        assert_eq!(visible("6.24 µs † plain"), "6.24 µs † plain");
    }
}
