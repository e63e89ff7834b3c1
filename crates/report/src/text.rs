//! Text for a terminal: paragraphs are broken between words and indented, tables are measured in cells, and foreign
//! text cannot control the terminal.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many terminal cells `text` takes: two for a wide character (`仮`), and none for a combining accent.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` padded with blanks to this width.
pub fn pad(text: &str, to: usize) -> String {
    let blanks = to.saturating_sub(width(text));
    format!("{text}{:blanks$}", "")
}

/// The start of `text` with an ellipsis if it does not fit into this width.
pub fn shortened(text: &str, to: usize) -> String {
    if width(text) <= to {
        return text.to_owned();
    }
    format!("{}…", start(text, to.saturating_sub(1)))
}

/// The start and the end of `text` with an ellipsis between them if it does not fit into this width.
pub fn shortened_in_the_middle(text: &str, to: usize) -> String {
    if width(text) <= to {
        return text.to_owned();
    }
    let kept = to.saturating_sub(1);
    let start = start(text, kept.div_ceil(2));
    // Names differ more often at their ends, so a cell that is too narrow for a wide character goes to the end.
    format!("{start}…{}", end(text, kept - width(start)))
}

/// The longest start of `text` that fits.
fn start(text: &str, to: usize) -> &str {
    let mut left = to;
    let is_over = |(_, c): &(usize, char)| match left.checked_sub(c.width().unwrap_or_default()) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    };
    let over = text.char_indices().find(is_over);
    over.map_or(text, |(at, _)| &text[..at])
}

/// The longest end of `text` that fits, without the accents of a character that does not fit.
fn end(text: &str, to: usize) -> &str {
    let starts = text.char_indices().filter(|(_, c)| c.width() > Some(0));
    let mut ends = starts.map(|(at, _)| &text[at..]);
    ends.find(|end| width(end) <= to).unwrap_or_default()
}

/// A blank at which lines are not broken.
const NO_BREAK: char = '\u{a0}';

/// Breaks `text` between words so that no line is wider than `to` cells, except for a single long word. Continued lines
/// begin with `indent` blanks; the caller has already written `indent` cells of the first line. Lines are not broken at
/// a no-break space, which becomes a blank.
pub fn wrap(text: &str, indent: usize, to: Option<usize>) -> String {
    let Some(to) = to else {
        return text.replace(NO_BREAK, " ");
    };
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = width(word);
        if column > indent {
            if column + 1 + length > to {
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
    wrapped.replace(NO_BREAK, " ")
}

/// The text without a byte order mark, which Windows editors and shells put before it.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// `text` with control characters and characters that reorder text written as escapes, such as `\u{1b}`: text from a
/// file can neither colour a terminal nor move its cursor.
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
    fn a_wide_character_takes_two_cells_and_an_accent_none() {
        assert_eq!(width("仮想機械"), 8);
        assert_eq!(width("cafe\u{301} µs ±"), 9);
        assert_eq!(pad("仮想", 6), "仮想  ");
        assert_eq!(wrap("仮想 機械 a", 0, Some(9)), "仮想 機械\na");
    }

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        assert_eq!(shortened("仮想機械", 8), "仮想機械");
        assert_eq!(shortened("仮想機械", 6), "仮想…");
        assert_eq!(shortened("abcdef", 3), "ab…");
        let middle = shortened_in_the_middle;
        assert_eq!(middle("instance-00000001", 10), "insta…0001");
        assert_eq!(middle("仮想機械", 6), "仮…械");
        assert_eq!(middle("仮想機械1", 7), "仮…械1");
        assert_eq!(middle("abcde\u{301}f", 5), "ab…e\u{301}f");
        for to in 0..=8 {
            assert!(width(&middle("仮想機械", to)) <= to.max(1));
            assert!(width(&shortened("仮想機械", to)) <= to.max(1));
        }
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
