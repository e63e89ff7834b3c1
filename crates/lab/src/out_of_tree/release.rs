//! The release of a distribution's kernel, and the names of its packages.

use crate::error::{LabError, failed};
use std::fmt;

/// A release such as `6.12.117+deb12-cloud-arm64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    name: String,
    /// `6.12.117+deb12`.
    base: String,
    /// `rt`, `cloud` or nothing.
    flavour: String,
}

impl Release {
    /// Checks that the release belongs to a package for `architecture`.
    pub(crate) fn parse(release: &str, architecture: &str) -> Result<Self, LabError> {
        let plain = release
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".+-~".contains(&byte));
        let rest = release.strip_suffix(&format!("-{architecture}"));
        let Some(rest) = rest.filter(|rest| plain && !rest.is_empty()) else {
            let why = format_args!("its name does not end in -{architecture}");
            return Err(failed!("cannot build modules for Linux {release}: {why}"));
        };
        // The ABI number, as in `6.1.0-56`, is not a flavour.
        let (base, flavour) = match rest.rsplit_once('-') {
            Some((base, word)) if !word.starts_with(|c: char| c.is_ascii_digit()) => (base, word),
            _ => (rest, ""),
        };
        Ok(Self {
            name: release.to_owned(),
            base: base.to_owned(),
            flavour: flavour.to_owned(),
        })
    }

    /// Returns the package with the headers.
    pub(crate) fn headers(&self) -> String {
        format!("linux-headers-{}", self.name)
    }

    /// Returns the package with the headers that several architectures share.
    pub(crate) fn common_headers(&self) -> String {
        let end = if self.flavour == "rt" { "-rt" } else { "" };
        format!("linux-headers-{}-common{end}", self.base)
    }

    /// Returns the packages with the programs that the build runs: one per release, or per series before 6.12.
    pub(crate) fn build_tools(&self) -> [String; 2] {
        let mut parts = self.base.splitn(3, '.');
        let mut next = || parts.next().unwrap_or_default();
        [
            format!("linux-kbuild-{}", self.base),
            format!("linux-kbuild-{}.{}", next(), next()),
        ]
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_of_the_kernels_release() {
        let release = Release::parse("6.12.117+deb12-cloud-arm64", "arm64").unwrap();
        assert_eq!(
            release.headers(),
            "linux-headers-6.12.117+deb12-cloud-arm64"
        );
        assert_eq!(
            release.common_headers(),
            "linux-headers-6.12.117+deb12-common"
        );
        assert_eq!(release.build_tools()[0], "linux-kbuild-6.12.117+deb12");

        let release = Release::parse("6.1.0-56-arm64", "arm64").unwrap();
        assert_eq!(release.common_headers(), "linux-headers-6.1.0-56-common");
        assert_eq!(release.build_tools()[1], "linux-kbuild-6.1");

        let release = Release::parse("6.1.0-56-rt-arm64", "arm64").unwrap();
        assert_eq!(release.common_headers(), "linux-headers-6.1.0-56-common-rt");
    }

    #[test]
    fn another_kernel_is_refused_before_anything_is_downloaded() {
        for name in [
            "6.18.1",
            "6.1.0-56-amd64",
            "6.1.0 -arm64",
            "../x-arm64",
            "-arm64",
            "",
        ] {
            let error = Release::parse(name, "arm64").unwrap_err();
            assert!(error.to_string().contains("-arm64"), "{error}");
        }
    }
}
