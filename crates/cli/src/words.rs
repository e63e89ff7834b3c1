//! Splits the command line of another program, which is given as one value, into words as a shell does it with blanks,
//! quotes and backslashes. No shell runs, so nothing in it is expanded.

/// Why a text is not a list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WordsError {
    /// A quote is not closed.
    #[error("a quote {0} is not closed")]
    Quote(char),
}

/// Splits at blanks that are not quoted.
pub(super) fn split(text: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                word.get_or_insert_default()
                    .push(characters.next().unwrap_or('\\'));
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(WordsError::Quote(quote)),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_blanks() {
        assert_eq!(
            split(r#" vmm 'a b' "c \" d" e\ f '' "#).unwrap(),
            ["vmm", "a b", "c \" d", "e f", ""]
        );
    }

    #[test]
    fn an_open_quote_is_named() {
        assert_eq!(split("vmm 'image"), Err(WordsError::Quote('\'')));
    }
}
