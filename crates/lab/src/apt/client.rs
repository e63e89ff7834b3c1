//! Runs `apt-get` and `dpkg-deb`.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Package;
use super::package::bad_answer;
use super::program::{FinishedProgram, run};
use super::state::AptState;
use crate::cache::SourcePackage;
use crate::error::{LabError, LabFailure, cannot, failed};

const ATTEMPTS: u32 = 3;
const NO_INDEXES: &str = "cannot fetch the package indexes";
/// If no byte of the indexes has arrived after this time, a note is printed.
const SILENCE: Duration = Duration::from_secs(7);
/// If no byte has arrived after this time, the fetch is aborted. apt itself would wait for minutes.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);

/// The distribution's package client, run with the lab's own configuration and package database.
#[derive(Debug)]
pub struct Apt {
    state: AptState,
    host: &'static str,
    complaint: Option<String>,
    /// The keys that sign the sources, if they are not the system's own.
    pub(super) keyring: Option<&'static str>,
}

impl Apt {
    /// Creates the state in this folder, for packages of `host`, this system's architecture, and of `foreign` if that
    /// differs. `wanted` and `option` are named in the error on systems without apt.
    pub fn new(
        folder: PathBuf,
        host: &'static str,
        foreign: &'static str,
        wanted: &'static str,
        option: Option<&'static str>,
    ) -> Result<Self, LabError> {
        for program in ["apt-get", "dpkg-deb"] {
            match Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
            {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let error =
                        failed!("no {program} on this system, so the lab cannot download {wanted}");
                    return Err(match option {
                        Some(option) => {
                            error.hint(format!("name a file with `vmbell lab kernel {option}`"))
                        }
                        None => error,
                    });
                }
                Err(error) => return Err(cannot("run", program)(error)),
            }
        }
        Ok(Self {
            state: AptState::new(folder, host, foreign)?,
            host,
            complaint: None,
            keyring: None,
        })
    }

    /// Fetches the package indexes. An unreachable source must not prevent the use of others: the failure is reported
    /// only if a package cannot be found later. If nothing at all arrives for some time, `silent` is called.
    pub fn update(&mut self, silent: impl FnOnce()) -> Result<(), LabError> {
        self.state.set_stand_ins(self.host, &[])?;
        let mut silent = Some(silent);
        let lists = self.state.lists();
        let watch = |time: Duration| {
            if time < SILENCE || has_bytes(&lists) {
                return Ok(());
            }
            if let Some(silent) = silent.take() {
                silent();
            }
            if time < LONGEST_SILENCE {
                return Ok(());
            }
            let seconds = time.as_secs();
            Err(failed!("{NO_INDEXES}: no answer within {seconds} s"))
        };
        let words = ["update", "-qq", "-o", "APT::Update::Error-Mode=any"];
        let ran = self.watched_apt(&words, watch)?;
        self.complaint = (!ran.output.status.success()).then(|| ran.reason());
        Ok(())
    }

    /// Returns the packages to download for the first of `alternatives` that the indexes have for `architecture`: the
    /// package and its dependencies, except those that the placeholder provides.
    pub fn resolve(
        &self,
        architecture: &str,
        alternatives: &[impl AsRef<str>],
        stand_ins: &[&str],
    ) -> Result<(String, Vec<Package>), LabError> {
        self.state.set_stand_ins(architecture, stand_ins)?;
        // apt leaves out files that an earlier attempt has already downloaded, so it is pointed at an empty folder.
        let nowhere = format!("Dir::Cache::archives={}", self.state.nowhere().display());
        let mut reason = String::new();
        for name in alternatives {
            let name = self.qualified(architecture, name.as_ref());
            let words = [
                "install",
                "-qq",
                "-y",
                "--print-uris",
                "-o",
                &nowhere,
                &name,
            ];
            let ran = self.apt(&words)?;
            if ran.output.status.success() {
                return Ok((name, Package::parse_list(&ran.stdout())?));
            }
            reason = ran.reason();
        }
        Err(self.not_found(alternatives, reason))
    }

    /// Returns the name of a package for `architecture`.
    fn qualified(&self, architecture: &str, name: &str) -> String {
        if architecture == self.host {
            return name.to_owned();
        }
        match name.split_once('=') {
            Some((name, version)) => format!("{name}:{architecture}={version}"),
            None => format!("{name}:{architecture}"),
        }
    }

    /// Makes the error for a package that is not in the indexes: none of `alternatives` is there, or an index is
    /// missing.
    pub(super) fn not_found(&self, alternatives: &[impl AsRef<str>], reason: String) -> LabError {
        self.no_indexes().unwrap_or_else(|| {
            let names: Vec<&str> = alternatives.iter().map(AsRef::as_ref).collect();
            let names = names.join(" or ");
            failed!("the package sources do not have {names}: {reason}").of(LabFailure::Missing)
        })
    }

    /// Returns why an index is missing, if one is missing.
    pub fn no_indexes(&self) -> Option<LabError> {
        let reason = self.complaint.clone()?;
        let missing = self.keyring.filter(|path| !Path::new(path).exists());
        Some(match missing {
            Some(keyring) => failed!("cannot verify Debian's package indexes without {keyring}")
                .hint("install the package debian-archive-keyring"),
            None => failed!("{NO_INDEXES}: {reason}"),
        })
    }

    /// Returns the names of all packages in the indexes that match a regular expression.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>, LabError> {
        let mut command = Command::new("apt-cache");
        command
            .args(["search", "--names-only", pattern])
            .env("APT_CONFIG", self.state.configuration())
            .env("LC_ALL", "C");
        let ran = run(&command, "apt-cache search", |_| Ok(()))?.succeeded()?;
        let text = ran.stdout();
        let name = |line: &str| line.split(' ').next().map(str::to_owned);
        Ok(text.lines().filter_map(name).collect())
    }

    /// Downloads the packages that `resolve` found for `name`, checks every file, and fetches broken files again.
    pub fn download(&self, name: &str, packages: &[Package]) -> Result<(), LabError> {
        self.download_by(packages, || {
            self.apt(&["install", "-qq", "-y", "--download-only", name])?
                .succeeded()
                .map(drop)
        })
    }

    fn download_by(
        &self,
        packages: &[Package],
        fetch: impl Fn() -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let archives = self.state.archives();
        let is_broken = |package: &Package| package.fault(&archives).transpose().is_some();
        if !packages.iter().any(is_broken) {
            // An earlier attempt was interrupted after the download.
            return Ok(());
        }
        let mut last = None;
        for attempt in 1..=ATTEMPTS {
            let result = fetch();
            let mut broken = None;
            for package in packages {
                if let Some(reason) = package.fault(&archives)? {
                    // apt does not check a file of the right size again, so a broken file is removed.
                    let _ = std::fs::remove_file(archives.join(&package.file));
                    broken = Some((package.file.clone(), reason));
                }
            }
            match (result, broken) {
                (_, None) => return Ok(()),
                (Err(error), Some(_)) => last = Some(error),
                (Ok(_), Some((file, reason))) => {
                    last = Some(failed!(
                        "{file} is broken after {attempt} downloads: {reason}"
                    ));
                }
            }
        }
        Err(last.unwrap_or_else(|| bad_answer("")))
    }

    /// Unpacks a package's files below `target`, without running its scripts.
    pub fn unpack(&self, package: &Package, target: &Path) -> Result<(), LabError> {
        let mut command = Command::new("dpkg-deb");
        command
            .arg("-x")
            .arg(self.state.archives().join(&package.file))
            .arg(target);
        let name = format!("dpkg-deb -x {}", package.file);
        run(&command, &name, |_| Ok(()))?.succeeded().map(drop)
    }

    /// Removes the packages of a finished entry. Until it is finished, another attempt needs them.
    pub fn forget(&self, packages: &[SourcePackage]) {
        for package in packages {
            // A file that cannot be removed only takes space until everything is prepared.
            let _ = std::fs::remove_file(self.state.archives().join(&package.file));
        }
    }

    /// The folder that fills during a download, for a progress bar.
    pub fn archives(&self) -> PathBuf {
        self.state.archives()
    }

    /// Returns the number of bytes of other packages in that folder.
    pub fn others(&self, packages: &[Package]) -> u64 {
        let is_other = |name: OsString| packages.iter().all(|package| *package.file != *name);
        let items = std::fs::read_dir(self.archives());
        let items = items.into_iter().flatten().flatten();
        let others = items.filter(|item| is_other(item.file_name()));
        let files = others.filter_map(|item| item.metadata().ok().filter(Metadata::is_file));
        files.map(|metadata| metadata.len()).sum()
    }

    pub(super) fn configuration(&self) -> PathBuf {
        self.state.configuration()
    }

    fn apt(&self, arguments: &[&str]) -> Result<FinishedProgram, LabError> {
        self.watched_apt(arguments, |_| Ok(()))
    }

    fn watched_apt(
        &self,
        arguments: &[&str],
        watch: impl FnMut(Duration) -> Result<(), LabError>,
    ) -> Result<FinishedProgram, LabError> {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("APT_CONFIG", self.state.configuration())
            .env("LC_ALL", "C");
        let name = format!("apt-get {}", arguments[0]);
        run(&command, &name, watch)
    }
}

/// Returns whether a file in the folder or its `partial` folder has a byte.
fn has_bytes(folder: &Path) -> bool {
    [folder.to_path_buf(), folder.join("partial")]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|list| list.flatten())
        .filter_map(|item| item.metadata().ok())
        .any(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// Sources of packages: `apt-get source`.
impl Apt {
    /// Returns the archive with the source of a package, as its author has released it.
    pub fn resolve_source(&self, name: &str) -> Result<Package, LabError> {
        let nowhere = self.state.nowhere();
        let words = ["--download-only", "--print-uris", name];
        let ran = self.apt_in(&nowhere, "source", &words)?;
        let packages = match ran.output.status.success() {
            true => Package::parse_list(&ran.stdout())?,
            false => return Err(self.not_found(&[name], ran.reason())),
        };
        let is_archive = |package: &Package| is_archive(&package.file);
        let archive = packages.into_iter().find(is_archive);
        archive.ok_or_else(|| failed!("the source of {name} has no archive"))
    }

    /// Downloads the archive that [`resolve_source`](Self::resolve_source) found, checks it, and downloads a broken
    /// archive again. Other files of the source may be missing.
    pub fn download_source(&self, name: &str, archive: &Package) -> Result<PathBuf, LabError> {
        self.download_by(std::slice::from_ref(archive), || {
            let ran = self.apt_in(&self.archives(), "source", &["--download-only", name])?;
            ran.succeeded().map(drop)
        })?;
        Ok(self.archives().join(&archive.file))
    }
}

/// Packages without their dependencies: `apt-get download`.
impl Apt {
    /// Returns the first package of `alternatives` that the indexes have for `architecture`, without dependencies. A
    /// name may end in `=VERSION`.
    pub fn resolve_alone(
        &self,
        architecture: &str,
        alternatives: &[&str],
    ) -> Result<(String, Package), LabError> {
        let mut reason = String::new();
        for name in alternatives {
            let name = self.qualified(architecture, name);
            let words = ["--print-uris", &name];
            let ran = self.apt_in(&self.state.nowhere(), "download", &words)?;
            if ran.output.status.success() {
                let text = ran.stdout();
                let package = Package::parse_list(&text)?.pop();
                return Ok((name, package.ok_or_else(|| bad_answer(text.trim()))?));
            }
            reason = ran.reason();
        }
        Err(self.not_found(alternatives, reason))
    }

    /// Downloads the packages that [`resolve_alone`](Self::resolve_alone) found for `name`, checks them, and downloads
    /// broken packages again.
    pub fn download_alone(&self, name: &str, packages: &[Package]) -> Result<(), LabError> {
        self.download_by(packages, || {
            let ran = self.apt_in(&self.archives(), "download", &[name])?;
            ran.succeeded().map(drop)
        })
    }

    /// Runs one of apt-get's commands that write to the working folder, `folder`. What that folder has already is left
    /// out of the addresses that they print.
    fn apt_in(
        &self,
        folder: &Path,
        action: &str,
        arguments: &[&str],
    ) -> Result<FinishedProgram, LabError> {
        let mut command = Command::new("apt-get");
        command
            .args([action, "-qq"])
            .args(arguments)
            .env("APT_CONFIG", self.configuration())
            .env("LC_ALL", "C")
            .current_dir(folder);
        run(&command, &format!("apt-get {action}"), |_| Ok(()))
    }
}

/// Returns whether a file of a source is the archive of its author, and not a signature of it.
fn is_archive(file: &str) -> bool {
    file.contains(".orig.tar.") && !file.ends_with(".asc")
}

#[cfg(test)]
mod tests {
    use super::is_archive;

    #[test]
    fn the_archive_of_a_source_is_not_its_signature() {
        assert!(is_archive("bochs_3.0+dfsg.orig.tar.xz"));
        for other in [
            "bochs_3.0+dfsg.orig.tar.xz.asc",
            "bochs_3.0+dfsg-1.debian.tar.xz",
            "bochs_3.0+dfsg-1.dsc",
        ] {
            assert!(!is_archive(other), "{other}");
        }
    }
}
