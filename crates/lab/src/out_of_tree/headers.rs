//! Unpacked headers: the folder for `make`, and the compiler and versions that a build has to match.

use std::fs;
use std::path::{Path, PathBuf};

use super::Release;
use crate::error::{LabError, cannot, failed};

/// The headers of one kernel.
#[derive(Debug)]
pub(crate) struct Headers {
    release: Release,
    /// The compiler's major version.
    compiler: String,
}

impl Headers {
    /// Reads the headers that were unpacked into `root`.
    pub(crate) fn read(release: &Release, root: &Path) -> Result<Self, LabError> {
        // The compiler that built the kernel: `CC = ... $(CROSS_COMPILE)gcc-12`.
        let path = root.join("usr/src").join(release.headers());
        let path = path.join(".kernelvariables");
        let text = fs::read_to_string(&path).map_err(cannot("read", path))?;
        let compiler = compiler_in(&text).ok_or_else(|| missing(release, "name of a compiler"))?;
        Ok(Self {
            release: release.clone(),
            compiler,
        })
    }

    /// Adapts the headers to their folder `root`: the Makefile has absolute paths, two of them since 7.2.
    pub(crate) fn move_to(&self, root: &Path) -> Result<(), LabError> {
        let path = self.folder_in(root).join("Makefile");
        let text = fs::read_to_string(&path).map_err(cannot("read", &path))?;
        let moved = text.replace("/usr/src/", &format!("{}/", root.join("usr/src").display()));
        // The Makefile may be a hard link to a file that must not change.
        fs::remove_file(&path).map_err(cannot("remove", &path))?;
        fs::write(&path, moved).map_err(cannot("write", path))
    }

    /// The release of the kernel.
    pub(crate) fn release(&self) -> &Release {
        &self.release
    }

    /// Returns the folder for `make -C`, if the headers are in `root`.
    pub(crate) fn folder_in(&self, root: &Path) -> PathBuf {
        root.join("usr/src").join(self.release.headers())
    }

    /// Returns the file name of the compiler for this machine.
    pub(crate) fn compiler(&self, machine: &str) -> String {
        format!("{machine}-gcc-{}", self.compiler)
    }

    /// Returns the compiler's packages: to build for a different architecture than this system's, and for the same.
    /// `machine` is the kernel's machine in package names.
    pub(crate) fn compiler_packages(&self, machine: &str) -> [String; 2] {
        let native = format!("gcc-{}", self.compiler);
        [format!("{native}-{machine}"), native]
    }

    /// Returns the package with the kernel's source, of exactly the version of the headers' package file.
    pub(crate) fn source_package(&self, file: &str) -> Result<String, LabError> {
        let version = self.version(file)?;
        Ok(format!("linux-source-{}={version}", series(&version)))
    }

    /// Returns the package with the headers for programs, of the same version.
    pub(crate) fn interface_package(&self, file: &str) -> Result<String, LabError> {
        Ok(format!("linux-libc-dev={}", self.version(file)?))
    }

    /// Returns the archive in the source package.
    pub(crate) fn source_archive(&self, root: &Path, file: &str) -> Result<PathBuf, LabError> {
        let series = series(&self.version(file)?);
        Ok(root.join(format!("usr/src/linux-source-{series}.tar.xz")))
    }

    fn version(&self, file: &str) -> Result<String, LabError> {
        let version = version_in(file, &self.release.headers());
        version.ok_or_else(|| missing(&self.release, "version"))
    }
}

fn missing(release: &Release, what: &'static str) -> LabError {
    failed!("cannot build modules for Linux {release}: its headers have no {what}")
}

/// Returns the series of a version: `6.12` for `6.12.117-1~deb12u1`.
fn series(version: &str) -> String {
    let mut parts = version.splitn(3, '.');
    let mut next = || parts.next().unwrap_or_default();
    format!("{}.{}", next(), next())
}

/// Returns the version of the package `name` from `name_version_architecture.deb`.
fn version_in(file: &str, name: &str) -> Option<String> {
    let (version, _) = file
        .strip_prefix(name)?
        .strip_prefix('_')?
        .rsplit_once('_')?;
    Some(version.replace("%3a", ":"))
}

fn compiler_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("$(CROSS_COMPILE)gcc-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "6.12.117+deb12-cloud-arm64";

    fn unpacked(root: &Path, variables: &str) -> Result<Headers, LabError> {
        let release = Release::parse(RELEASE, "arm64").unwrap();
        let folder = root.join("usr/src").join(release.headers());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".kernelvariables"), variables).unwrap();
        fs::write(
            folder.join("Makefile"),
            "KBUILD_OUTPUT=/usr/src/own\ninclude /usr/src/common/Makefile\n",
        )
        .unwrap();
        Headers::read(&release, root)
    }

    #[test]
    fn compiler_and_source_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let headers = unpacked(root.path(), "CC = $(X) $(CROSS_COMPILE)gcc-12\n").unwrap();
        let file = format!("linux-headers-{RELEASE}_6.12.117-1~deb12u1_arm64.deb");
        assert_eq!(
            headers.compiler("aarch64-linux-gnu"),
            "aarch64-linux-gnu-gcc-12"
        );
        assert_eq!(
            headers.source_package(&file).unwrap(),
            "linux-source-6.12=6.12.117-1~deb12u1"
        );
        assert_eq!(
            headers.interface_package(&file).unwrap(),
            "linux-libc-dev=6.12.117-1~deb12u1"
        );
        assert!(
            headers
                .source_archive(root.path(), &file)
                .unwrap()
                .ends_with("usr/src/linux-source-6.12.tar.xz")
        );
        headers.source_package("another.deb").unwrap_err();
        headers.move_to(root.path()).unwrap();
        let folder = headers.folder_in(root.path());
        let makefile = fs::read_to_string(folder.join("Makefile")).unwrap();
        let expected = format!(
            "KBUILD_OUTPUT={0}/usr/src/own\ninclude {0}/usr/src/common/Makefile\n",
            root.path().display()
        );
        assert_eq!(makefile, expected);
    }

    #[test]
    fn headers_without_a_compilers_name_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = unpacked(root.path(), "CC = cc\n").unwrap_err();
        assert!(
            error.to_string().ends_with("no name of a compiler"),
            "{error}"
        );
    }
}
