//! Finds Debian's kernels by version on any system with apt: which kernels there are, and which packages each needs.
//!
//! The lab's apt reads Debian's suites for them, not the system's sources. Since Linux 6.19, a kernel has three
//! packages. A kernel whose image is in the archive without its modules cannot be chosen.

use crate::error::{LabError, failed};
use std::fmt;
use std::str::FromStr;

/// The archives and suites that have kernels of different versions.
const SUITES: [(&str, &str); 5] = [
    ("debian-security", "bookworm-security"),
    ("debian", "bookworm-backports"),
    ("debian-security", "trixie-security"),
    ("debian", "trixie-backports"),
    ("debian", "sid"),
];
/// Debian's releases by the mark in their kernels' names. Before 6.12 the name contained an ABI number instead.
const DISTRIBUTIONS: [(&str, &str); 3] = [
    ("+deb13", "trixie"),
    ("+deb12", "bookworm"),
    ("6.1.0-", "bookworm"),
];
/// The keys that sign the suites.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Matches the packages of all kernels, as a regular expression.
pub const PACKAGES: &str = "^linux-(image|base|binary|modules)-[0-9]";
/// The prefix of a version on the command line.
const PREFIX: &str = "debian:";
/// The word for the newest version.
const NEWEST: &str = "newest";
/// The packages of a kernel whose image and modules are in separate packages.
const PARTS: [&str; 3] = ["base", "binary", "modules"];

/// Returns the suites for an architecture, in the format of `sources.list`.
pub fn sources(architecture: &str) -> String {
    let line = |(archive, suite)| {
        format!(
            "deb [arch={architecture} signed-by={KEYRING}] http://deb.debian.org/{archive} {suite} main\n"
        )
    };
    SUITES.map(line).concat()
}

/// Returns the sources with the headers, source and compiler for the kernel of this release (`uname -r`), to build on
/// `host`, in the format of `sources.list`; `None` if the release is not Debian's.
pub fn build_sources(release: &str, host: &str, architecture: &str) -> Option<String> {
    let is_of = |(mark, _): &&(&str, &str)| release.contains(mark) || release.starts_with(mark);
    let (_, name) = DISTRIBUTIONS.iter().find(is_of)?;
    let mut architectures = vec![host, architecture];
    architectures.dedup();
    Some(release_sources(name, &architectures))
}

/// Returns the sources of the Debian release with this name, with backports and security, for `sources.list`.
pub fn release_sources(name: &str, architectures: &[&str]) -> String {
    let line = |(archive, suite)| {
        let architectures = architectures.join(",");
        format!(
            "deb [arch={architectures} signed-by={KEYRING}] http://deb.debian.org/{archive} {name}{suite} main\n"
        )
    };
    let suites = [
        ("debian", ""),
        ("debian", "-backports"),
        ("debian-security", "-security"),
    ];
    suites.map(line).concat()
}

/// Returns the line for the sources of packages in the Debian release with this name, for `sources.list`.
pub fn source_packages(name: &str) -> String {
    format!("deb-src [signed-by={KEYRING}] http://deb.debian.org/debian {name} main\n")
}

/// A version of Debian's kernels: `debian:` and the start of a release, such as `6.12` or `6.12.43+deb12`, or `newest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelVersion(String);

impl FromStr for KernelVersion {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let version = text.strip_prefix(PREFIX).ok_or_else(not_a_version)?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
        let is_release =
            version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_part);
        let known = version == NEWEST || is_release;
        known
            .then(|| Self(version.to_owned()))
            .ok_or_else(not_a_version)
    }
}

fn not_a_version() -> LabError {
    failed!(
        "not a version of Debian's kernels, such as debian:6.12, debian:6.12.43 or debian:newest"
    )
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl KernelVersion {
    /// Picks the packages of the newest kernel of this version from `names`, the names of all packages.
    pub fn packages(
        &self,
        names: &[String],
        architecture: &'static str,
    ) -> Result<Vec<String>, LabError> {
        let releases = complete(names, architecture);
        let newest = releases.iter().rfind(|(release, _)| self.has(release));
        newest.map(|(_, packages)| packages.clone()).ok_or_else(|| {
            let nearest = self.nearest(releases.iter().map(|(release, _)| *release));
            let nearest = nearest.join(", ");
            failed!("{self}: Debian has no such kernel for {architecture}, only {nearest}")
        })
    }

    /// Matches this release only, and no other release of its version.
    pub fn exactly(release: &str) -> Self {
        Self(release.to_owned())
    }

    fn has(&self, release: &str) -> bool {
        let rest = release.strip_prefix(self.0.as_str());
        self.0 == NEWEST || rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Returns the releases of the same series, or all series if there are none.
    fn nearest<'a>(&self, releases: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
        let series = |release: &str| {
            let numbers = numbers(release).into_iter().take(2);
            let words: Vec<String> = numbers.map(|number| number.to_string()).collect();
            words.join(".")
        };
        let own = series(&self.0);
        let same = releases.clone().filter(|release| series(release) == own);
        let mut found: Vec<String> = same.map(str::to_owned).collect();
        if found.is_empty() {
            found = releases.map(series).collect();
            found.dedup();
        }
        found
    }
}

/// Returns the releases of the kernels between two releases, in order and without flavours. If a version was built for
/// several distributions, the newest build is taken.
pub fn between(names: &[String], architecture: &str, old: &str, new: &str) -> Vec<String> {
    let version = |release: &str| release.split('+').next().map(str::to_owned);
    let all = complete(names, architecture).into_iter();
    let mut found: Vec<String> = all
        .map(|(release, _)| release.to_owned())
        .filter(|release| is_older(old, release) && is_older(release, new))
        .filter(|release| {
            [old, new]
                .map(version)
                .iter()
                .all(|end| *end != version(release))
        })
        .collect();
    found.reverse();
    found.dedup_by_key(|release| version(release));
    found.reverse();
    found
}

/// Returns whether a release is older than `than`.
pub fn is_older(release: &str, than: &str) -> bool {
    numbers(release) < numbers(than)
}

/// Returns the releases whose packages are all available, in order and without flavours, each with its packages.
fn complete<'n>(names: &'n [String], architecture: &str) -> Vec<(&'n str, Vec<String>)> {
    let flavour = flavour(architecture);
    let mut releases: Vec<(&str, Vec<String>)> = names
        .iter()
        .filter_map(|name| name.strip_prefix("linux-image-")?.strip_suffix(&flavour))
        // `linux-image-6.12-cloud-amd64` is a metapackage that only depends on the newest release.
        .filter(|release| numbers(release).len() > 2)
        .filter_map(|release| {
            let packages = packages_of(&format!("{release}{flavour}"), names)?;
            Some((release, packages))
        })
        .collect();
    releases.sort_by_key(|(release, _)| numbers(release));
    releases
}

/// Returns the suffix of the release of a cloud kernel.
pub fn flavour(architecture: &str) -> String {
    format!("-cloud-{architecture}")
}

/// Returns the packages of the kernel with this release (`uname -r`); `None` if a package is missing.
fn packages_of(release: &str, names: &[String]) -> Option<Vec<String>> {
    let parts = PARTS.map(|part| format!("linux-{part}-{release}"));
    let [_, binary, _] = &parts;
    if !names.contains(binary) {
        return Some(vec![format!("linux-image-{release}")]);
    }
    let complete = parts.iter().all(|name| names.contains(name));
    complete.then(|| parts.into())
}

/// Returns the numbers in a release, by which releases are ordered.
fn numbers(release: &str) -> Vec<u64> {
    let words = release.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let image = |release: &str| format!("linux-image-{release}");
        let mut names: Vec<String> = [
            "6.1.0-56-cloud-amd64",
            "6.1.0-9-cloud-amd64",
            "6.1.0-57-amd64",
            "6.12-cloud-amd64",
            "6.12.117+deb13-cloud-amd64",
            "6.12.117+deb12-cloud-amd64",
            "6.12.43+deb12-cloud-amd64",
            "6.12.118+deb13-cloud-amd64-unsigned",
            "6.12.119+deb13-cloud-arm64",
            "7.0.13+deb13-cloud-amd64",
            "7.3.4+deb13-cloud-amd64",
        ]
        .map(image)
        .into();
        let parts = ["base", "binary", "modules"]
            .map(|part| format!("linux-{part}-7.3.4+deb13-cloud-amd64"));
        names.extend(parts);
        names.push("linux-binary-7.0.13+deb13-cloud-amd64".to_owned());
        names
    }

    fn found(version: &str) -> Result<Vec<String>, String> {
        let version: KernelVersion = format!("debian:{version}").parse().unwrap();
        version
            .packages(&names(), "amd64")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_release_of_a_version_is_chosen() {
        for (version, release) in [
            ("6.1", "6.1.0-56"),
            ("6.1.0-9", "6.1.0-9"),
            ("6.12", "6.12.117+deb13"),
            ("6", "6.12.117+deb13"),
            ("6.12.117", "6.12.117+deb13"),
            ("6.12.117+deb12", "6.12.117+deb12"),
            ("6.12.43", "6.12.43+deb12"),
        ] {
            assert_eq!(
                found(version).unwrap(),
                [format!("linux-image-{release}-cloud-amd64")]
            );
        }
    }

    #[test]
    fn a_kernel_in_three_packages_needs_all_of_them() {
        let parts = ["base", "binary", "modules"]
            .map(|part| format!("linux-{part}-7.3.4+deb13-cloud-amd64"));
        assert_eq!(found("newest").unwrap(), parts);
        assert_eq!(found("7.3").unwrap(), parts);
        found("7.0").unwrap_err();
    }

    #[test]
    fn an_error_names_the_versions_that_there_are() {
        for version in ["6.5", "7.0", "9"] {
            let message = format!(
                "debian:{version}: Debian has no such kernel for amd64, only 6.1, 6.12, 7.3"
            );
            assert_eq!(found(version).unwrap_err(), message);
        }
        assert_eq!(
            found("6.12.11").unwrap_err(),
            "debian:6.12.11: Debian has no such kernel for amd64, only 6.12.43+deb12, 6.12.117+deb12, 6.12.117+deb13"
        );
    }

    #[test]
    fn what_is_not_a_version_is_refused() {
        for text in [
            "6.1",
            "debian:",
            "debian:six",
            "debian:6.1/../..",
            "debian:6.1 ",
        ] {
            assert!(text.parse::<KernelVersion>().is_err(), "{text}");
        }
        for text in ["debian:6.1", "debian:newest"] {
            assert_eq!(text.parse::<KernelVersion>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn kernels_between_two_are_in_order_and_each_version_is_there_once() {
        let found = |old, new| between(&names(), "amd64", old, new);
        assert_eq!(
            found("6.1.0-9", "7.3.4+deb13"),
            ["6.1.0-56", "6.12.43+deb12", "6.12.117+deb13"]
        );
        // The same version built for a different distribution is the same kernel.
        assert_eq!(found("6.12.43+deb12", "6.12.117+deb13"), [""; 0]);
        assert_eq!(found("7.3.4+deb13", "6.1.0-9"), [""; 0]);
    }

    #[test]
    fn a_kernel_is_built_with_the_packages_of_its_distribution() {
        for (release, name) in [
            ("6.1.0-56-cloud-amd64", "bookworm"),
            ("6.12.117+deb12-cloud-amd64", "bookworm"),
            ("6.12.118+deb13-cloud-amd64", "trixie"),
            ("6.12.115+deb13.1-cloud-amd64", "trixie"),
        ] {
            let sources = build_sources(release, "amd64", "amd64").unwrap();
            assert!(
                sources.contains(&format!("/debian {name} main\n")),
                "{sources}"
            );
            assert!(
                sources.contains(&format!(" {name}-security main\n")),
                "{sources}"
            );
            assert!(sources.contains("[arch=amd64 signed-by"), "{sources}");
        }
        let sources = build_sources("6.1.0-56-cloud-amd64", "arm64", "amd64").unwrap();
        assert!(sources.contains("[arch=arm64,amd64 signed-by"), "{sources}");
        for release in ["6.8.0-45-generic", "7.1.0", ""] {
            assert_eq!(build_sources(release, "amd64", "amd64"), None, "{release}");
        }
    }

    #[test]
    fn each_suite_is_for_one_architecture_and_has_its_key() {
        let sources = sources("arm64");
        assert_eq!(sources.lines().count(), SUITES.len());
        for line in sources.lines() {
            assert!(line.starts_with("deb [arch=arm64 signed-by=/"), "{line}");
        }
    }
}
