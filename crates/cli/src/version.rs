//! `-V`, one line, and `--version`: what this program was built from and what it contains.

use std::fmt::Write;

/// The git revision of the build, if it was built in a repository or from a package of one.
pub(super) const GIT: Option<&str> = option_env!("VMBELL_GIT");

/// `0.1.0 (0123456789ab)`.
pub(super) fn short() -> String {
    format!(
        "{} ({})",
        env!("CARGO_PKG_VERSION"),
        GIT.unwrap_or("no revision")
    )
}

/// The short form, and below it what the program contains and how it was built.
pub(super) fn long() -> String {
    let image = if vmbell_probe_image::ELF.is_empty() {
        "none; `vmbell bench vmms` cannot measure"
    } else {
        "for `vmbell bench vmms`"
    };
    let lines = [
        ("backends", backends().to_owned()),
        ("guest image", image.to_owned()),
        (
            "built",
            format!(
                "for {} by {}, profile {}",
                env!("VMBELL_TARGET"),
                env!("VMBELL_RUSTC"),
                env!("VMBELL_PROFILE")
            ),
        ),
    ];
    let mut text = short();
    for (label, line) in lines {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{label:12} {line}");
    }
    text
}

/// The backends that are built for this architecture.
const fn backends() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "kvm, usermode"
    } else {
        "kvm"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_long_form_is_the_short_one() {
        let long = long();
        assert_eq!(long.lines().next(), Some(&*short()));
        let labels = ["backends ", "guest image ", "built "];
        for (line, label) in long.lines().skip(1).zip(labels) {
            assert!(line.starts_with(label), "{long}");
        }
    }
}
