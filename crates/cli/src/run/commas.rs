//! Lists separated by commas. Two commas are one comma in a part, as in QEMU's options.

/// Returns the parts. There is always at least one, which may be empty.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char == ',' && chars.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(char);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_commas_are_one_of_a_part_and_any_other_is_between_two() {
        for (text, parts) in [
            ("", &[""][..]),
            ("a b", &["a b"]),
            ("a,b,", &["a", "b", ""]),
            ("a,,b", &["a,b"]),
            ("a,,,b", &["a,", "b"]),
            (",,,,", &[",,"]),
            (",a,,", &["", "a,"]),
        ] {
            assert_eq!(split(text), parts, "{text}");
        }
    }
}
