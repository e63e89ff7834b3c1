//! A number of bytes, printed for people.

use std::fmt;

/// Bytes, in decimal units as package tools print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 1_u64;
        let mut names = ["B", "kB", "MB", "GB", "TB", "PB"].iter().peekable();
        while let Some(name) = names.next() {
            if self.0 < unit.saturating_mul(1000) || names.peek().is_none() {
                let tenths = (u128::from(self.0) * 10 / u128::from(unit)) % 10;
                return match (unit, self.0 / unit) {
                    (1, whole) => write!(f, "{whole} {name}"),
                    (_, whole) => write!(f, "{whole}.{tenths} {name}"),
                };
            }
            unit *= 1000;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_read_as_package_tools_print_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (62_048_260, "62.0 MB"),
            (76_000_000_000, "76.0 GB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(Size(u64::MAX).to_string(), "18446.7 PB");
    }
}
