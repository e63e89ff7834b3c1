//! Decides whether text for people may contain non-ASCII characters. Exports are always UTF-8.

use std::borrow::Cow;
use std::env;
use std::sync::LazyLock;

/// Characters in vmbell's own texts, each with a replacement of the same width. A blank before `±` leaves room for the
/// two characters of `+-`.
const ASCII: [(&str, &str); 7] = [
    (" ±", "+-"),
    ("±", "+-"),
    ("µ", "u"),
    ("…", "~"),
    ("†", "+"),
    ("‡", "#"),
    ("█", "#"),
];

/// The text as this process's locale can show it.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    match is_utf8() || text.is_ascii() {
        true => text.into(),
        false => ascii(text).into(),
    }
}

/// Whether this process's locale uses UTF-8, or no locale is named.
pub(crate) fn is_utf8() -> bool {
    static IS_UTF8: LazyLock<bool> =
        LazyLock::new(|| names_utf8(|name| env::var_os(name)?.into_string().ok()));
    *IS_UTF8
}

/// The first variable with a value names the locale (locale(7)). Without one, as in most containers and services,
/// output goes to a log in UTF-8.
fn names_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let mut names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = names.find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn ascii(text: &str) -> String {
    let replaced = |text: String, (sign, by): &(&str, &str)| text.replace(sign, by);
    ASCII.iter().fold(text.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_a_value_names_the_locale() {
        let names = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(other, _)| *other == name);
            names_utf8(|name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(names(&[]));
        assert!(names(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]));
        assert!(names(&[("LC_CTYPE", "de_DE.utf8"), ("LANG", "C")]));
        assert!(!names(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!names(&[("LANG", "de_DE.ISO-8859-1")]));
    }

    #[test]
    fn columns_keep_their_places() {
        let line = "  6.24 µs  ± spread  a…";
        assert_eq!(ascii(line), "  6.24 us +- spread  a~");
        assert_eq!(ascii(line).len(), line.chars().count());
    }
}
