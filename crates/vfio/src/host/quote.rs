//! A word of a shell command. The kernel has device names with spaces: `Fixed MDIO bus.0`.

use std::borrow::Cow;

/// `word` so that a POSIX shell reads it as one word.
pub(super) fn quote(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:,+@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}
