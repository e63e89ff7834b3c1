//! Unpacked headers: the folder that `make` needs, and what the build must be the same as.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ModulesError, Release};

/// The headers of one kernel.
#[derive(Debug)]
pub(super) struct Headers {
    release: Release,
    /// The folder for `make -C`.
    pub(super) folder: PathBuf,
    /// The compiler's major version.
    compiler: String,
    /// The version of the source package.
    version: String,
}

impl Headers {
    /// Reads the headers that were unpacked in `root` from the package file of this name, and makes them usable there.
    pub(super) fn open(release: &Release, file: &str, root: &Path) -> Result<Self, ModulesError> {
        let missing = |what| ModulesError::Headers {
            release: release.to_string(),
            what,
        };
        let folder = root.join("usr/src").join(release.headers());
        let version = version_in(file, &release.headers()).ok_or_else(|| missing("version"))?;

        // The compiler that built the kernel: `CC = ... $(CROSS_COMPILE)gcc-12`.
        let path = folder.join(".kernelvariables");
        let text = fs::read_to_string(&path).map_err(ModulesError::io("read", path))?;
        let compiler = compiler_in(&text).ok_or_else(|| missing("name of a compiler"))?;

        // The one absolute path in the package.
        let path = folder.join("Makefile");
        let text = fs::read_to_string(&path).map_err(ModulesError::io("read", &path))?;
        let moved = text.replace(
            "include /usr/src/",
            &format!("include {}/", root.join("usr/src").display()),
        );
        fs::write(&path, moved).map_err(ModulesError::io("write", path))?;
        Ok(Self {
            release: release.clone(),
            folder,
            compiler,
            version,
        })
    }

    /// The kernel's release.
    pub(super) fn release(&self) -> &Release {
        &self.release
    }

    /// The file name of the compiler.
    pub(super) fn compiler(&self) -> String {
        format!("aarch64-linux-gnu-gcc-{}", self.compiler)
    }

    /// Packages of the compiler: for another architecture than this system's, and for the same.
    pub(super) fn compiler_packages(&self) -> [String; 2] {
        let native = format!("gcc-{}", self.compiler);
        [format!("{native}-aarch64-linux-gnu"), native]
    }

    /// The package of the kernel's source, of exactly this version.
    pub(super) fn source_package(&self) -> String {
        format!("linux-source-{}={}", self.series(), self.version)
    }

    /// The archive that the source's package has.
    pub(super) fn source_archive(&self, root: &Path) -> PathBuf {
        root.join(format!("usr/src/linux-source-{}.tar.xz", self.series()))
    }

    /// `6.12` of the version `6.12.117-1~deb12u1`.
    fn series(&self) -> String {
        let mut parts = self.version.splitn(3, '.');
        let mut next = || parts.next().unwrap_or_default();
        format!("{}.{}", next(), next())
    }
}

/// The version in `name_version_architecture.deb`, of the package `name`.
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

    fn unpacked(root: &Path, variables: &str) -> Result<Headers, ModulesError> {
        let release = Release::parse(RELEASE, "arm64").unwrap();
        let folder = root.join("usr/src").join(release.headers());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".kernelvariables"), variables).unwrap();
        fs::write(
            folder.join("Makefile"),
            "include /usr/src/common/Makefile\n",
        )
        .unwrap();
        let file = format!("linux-headers-{RELEASE}_6.12.117-1~deb12u1_arm64.deb");
        Headers::open(&release, &file, root)
    }

    #[test]
    fn compiler_and_source_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let headers = unpacked(root.path(), "CC = $(X) $(CROSS_COMPILE)gcc-12\n").unwrap();
        assert_eq!(headers.compiler(), "aarch64-linux-gnu-gcc-12");
        assert_eq!(
            headers.source_package(),
            "linux-source-6.12=6.12.117-1~deb12u1"
        );
        assert!(
            headers
                .source_archive(root.path())
                .ends_with("usr/src/linux-source-6.12.tar.xz")
        );
        let makefile = fs::read_to_string(headers.folder.join("Makefile")).unwrap();
        let expected = format!(
            "include {}/usr/src/common/Makefile\n",
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
