//! The lab's own configuration and package database for apt, separate from the system's.

use crate::error::{LabError, cannot};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with the configuration, indexes and database that `apt-get` needs.
#[derive(Debug)]
pub struct AptState {
    root: PathBuf,
}

impl AptState {
    /// Creates the files and folders in `root`, for packages of `host` and `foreign`. Downloads of an earlier attempt
    /// are kept.
    pub fn new(root: PathBuf, host: &str, foreign: &str) -> Result<Self, LabError> {
        for folder in ["lists/partial", "archives/partial", "nowhere/partial"] {
            let path = root.join(folder);
            fs::create_dir_all(&path).map_err(cannot("make", path))?;
        }
        let state = Self { root };
        let path = state.configuration();
        let text = configuration(&state.root, &network_settings()) + &architectures(host, foreign);
        fs::write(&path, text).map_err(cannot("write", path))?;
        Ok(state)
    }

    /// The path of the configuration file, for the environment variable `APT_CONFIG`.
    pub fn configuration(&self) -> PathBuf {
        self.root.join("apt.conf")
    }

    /// The folder with the indexes.
    pub fn lists(&self) -> PathBuf {
        self.root.join("lists")
    }

    /// The folder with downloaded packages.
    pub fn archives(&self) -> PathBuf {
        self.root.join("archives")
    }

    /// A folder for packages that is always empty.
    pub fn nowhere(&self) -> PathBuf {
        self.root.join("nowhere")
    }

    /// Makes the database hold one package that provides `names`.
    pub fn set_stand_ins(&self, architecture: &str, names: &[&str]) -> Result<(), LabError> {
        let path = self.root.join("status");
        fs::write(&path, stand_in(architecture, names)).map_err(cannot("write", path))
    }
}

fn configuration(root: &Path, network: &str) -> String {
    let root = root.display();
    format!(
        "{network}Dir::State \"{root}\";\n\
         Dir::State::lists \"{root}/lists\";\n\
         Dir::State::status \"{root}/status\";\n\
         Dir::Cache \"{root}\";\n\
         Dir::Cache::archives \"{root}/archives\";\n\
         Dir::Log \"{root}\";\n\
         Dir::Etc::Main \"/dev/null\";\n\
         Dir::Etc::Parts \"/dev/null\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Install-Recommends \"false\";\n\
         APT::Install-Suggests \"false\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"2\";\n\
         Acquire::ForceHash \"SHA256\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Acquire::IndexTargets::deb::CNF::DefaultEnabled \"false\";\n\
         Debug::NoLocking \"true\";\n"
    )
}

/// Returns the setting for a foreign architecture. Its indexes are fetched only if it is asked for.
fn architectures(host: &str, foreign: &str) -> String {
    if host == foreign {
        return String::new();
    }
    format!("APT::Architecture \"{host}\";\nAPT::Architectures {{ \"{host}\"; \"{foreign}\"; }};\n")
}

/// Returns the system's settings of proxies, certificates and dates, without hooks and extra indexes.
fn network_settings() -> String {
    let output = Command::new("apt-config").arg("dump").output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let wanted =
        |line: &&str| line.starts_with("Acquire::") && !line.starts_with("Acquire::IndexTargets");
    text.lines()
        .filter(wanted)
        .map(|line| format!("{line}\n"))
        .collect()
}

fn stand_in(architecture: &str, names: &[&str]) -> String {
    // The version is newer than any that a dependency may require.
    let provides: Vec<String> = names
        .iter()
        .map(|name| format!("{name} (= 999:0)"))
        .collect();
    // apt refuses a database with an empty list.
    let provides = if names.is_empty() {
        String::new()
    } else {
        format!("Provides: {}\n", provides.join(", "))
    };
    format!(
        "Package: vmbell-lab-stand-in\nStatus: install ok installed\nMaintainer: none\nArchitecture: {architecture}\n\
         Version: 1\n{provides}Description: what the lab never runs\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_systems_state_is_named() {
        let text = configuration(Path::new("/c"), "Acquire::http::Proxy \"p\";\n");
        assert!(text.starts_with("Acquire::http::Proxy"));
        for line in text
            .lines()
            .filter(|line| line.starts_with("Dir::") && !line.starts_with("Dir::Etc"))
        {
            assert!(line.contains("\"/c"), "{line}");
        }
    }

    #[test]
    fn a_foreign_architecture_is_named_beside_the_systems_own() {
        assert_eq!(architectures("amd64", "amd64"), "");
        let text = architectures("amd64", "arm64");
        assert!(
            text.contains("APT::Architectures { \"amd64\"; \"arm64\"; };"),
            "{text}"
        );
    }

    #[test]
    fn a_stand_in_for_nothing_has_no_list() {
        assert!(!stand_in("amd64", &[]).contains("Provides"));
    }

    #[test]
    fn the_stand_in_satisfies_any_version() {
        let text = stand_in("amd64", &["kmod", "debconf"]);
        assert!(
            text.contains("\nProvides: kmod (= 999:0), debconf (= 999:0)\n"),
            "{text}"
        );
        assert!(text.ends_with("\n\n"));
    }
}
