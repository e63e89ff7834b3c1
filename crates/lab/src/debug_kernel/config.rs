//! The configuration of a kernel that checks itself.

/// What is different from `allnoconfig`.
pub(crate) const CONFIG: &str = include_str!("config");

/// The first line of ours that a finished configuration does not have: the kernel has no such option, or it depends on
/// another one.
pub(super) fn missing(made: &str) -> Option<&'static str> {
    let wanted = CONFIG.lines().filter(|line| line.starts_with("CONFIG_"));
    let mut missing = wanted.filter(|wanted| !made.lines().any(|line| line == *wanted));
    missing.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_kernel_does_not_have_is_found() {
        assert_eq!(missing(CONFIG), None);
        let without = CONFIG.replace("CONFIG_KASAN=y", "# CONFIG_KASAN is not set");
        assert_eq!(missing(&without), Some("CONFIG_KASAN=y"));
    }
}
