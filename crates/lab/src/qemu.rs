//! The QEMU that runs the lab, and its command line.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::arch::Arch;
use super::board::LabBoard;
use super::cache::CacheEntry;
use crate::error::{LabError, cannot, failed};

/// The origin of a QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The caller gave the path.
    Named,
    /// The program is on PATH.
    Path,
    /// Unpacked from a package into the cache.
    Package,
}

/// A QEMU whose version is known.
#[derive(Clone, Debug)]
pub struct Qemu {
    program: PathBuf,
    /// The loader and the library folders to run it with, if it was unpacked rather than installed.
    loader: Option<(PathBuf, OsString)>,
    data: Vec<PathBuf>,
    modules: Option<PathBuf>,
    version: String,
    origin: Origin,
}

impl Qemu {
    /// Uses the QEMU that the caller names.
    pub fn named(program: &Path, board: &LabBoard) -> Result<Self, LabError> {
        Self {
            program: program.to_path_buf(),
            ..Self::installed(Origin::Named)
        }
        .checked(board)
    }

    /// Finds the QEMU on PATH, if there is one and it is new enough.
    pub fn on_path(board: &LabBoard) -> Option<Self> {
        Self {
            program: which::which(board.qemu).ok()?,
            ..Self::installed(Origin::Path)
        }
        .checked(board)
        .ok()
    }

    /// Uses the QEMU in a cache entry, run by its own loader with its own libraries. The version is taken from the
    /// entry's title, because running `--version` takes as long as QEMU's start.
    pub fn packaged(host: Arch, board: &LabBoard, entry: &CacheEntry) -> Result<Self, LabError> {
        let title = &entry.manifest().title;
        let version = title.split(' ').nth(1).unwrap_or_default();
        Ok(Self {
            version: version.to_owned(),
            ..Self::in_folder(host, board, &entry.path(""))?
        })
    }

    /// Uses the QEMU in a folder of unpacked packages, run by its own loader with its own libraries.
    pub fn unpacked(host: Arch, board: &LabBoard, root: &Path) -> Result<Self, LabError> {
        Self::in_folder(host, board, root)?.checked(board)
    }

    fn in_folder(host: Arch, board: &LabBoard, root: &Path) -> Result<Self, LabError> {
        let libraries: Vec<PathBuf> = ["lib", "usr/lib"]
            .map(|lib| root.join(lib).join(host.triplet))
            .into_iter()
            .filter(|path| path.is_dir())
            .collect();
        let loader = libraries
            .iter()
            .map(|folder| folder.join(host.loader))
            .find(|path| path.is_file());
        let incomplete = |what| failed!("the unpacked QEMU package has no {what}");
        let loader = loader.ok_or_else(|| incomplete("dynamic loader"))?;
        let program = root.join("usr/bin").join(board.qemu);
        if !program.is_file() {
            return Err(incomplete(board.qemu));
        }
        let paths = std::env::join_paths(&libraries);
        let paths = paths.map_err(|_| incomplete("path without a colon"))?;
        Ok(Self {
            program,
            loader: Some((loader, paths)),
            data: ["usr/share/qemu", "usr/share/seabios"]
                .map(|folder| root.join(folder))
                .to_vec(),
            modules: Some(root.join("usr/lib").join(host.triplet).join("qemu")),
            ..Self::installed(Origin::Package)
        })
    }

    fn installed(origin: Origin) -> Self {
        Self {
            program: PathBuf::new(),
            loader: None,
            data: Vec::new(),
            modules: None,
            version: String::new(),
            origin,
        }
    }

    /// The origin of this QEMU.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The version as QEMU prints it: `7.2.22`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// QEMU's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Finds QEMU's data files with these names. An installed QEMU keeps them in one of the folders `installed`.
    pub fn data_files(&self, installed: &[&str], names: &[&str]) -> Vec<PathBuf> {
        let installed = installed.iter().map(PathBuf::from);
        let folders: Vec<PathBuf> = self.data.iter().cloned().chain(installed).collect();
        let find = |name: &&str| {
            let mut paths = folders.iter().map(|folder| folder.join(name));
            paths.find(|path| path.is_file())
        };
        names.iter().filter_map(find).collect()
    }

    /// The words of a command line up to QEMU's own arguments.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some((loader, libraries)) = &self.loader {
            // The loader's cache (`/etc/ld.so.cache`) would lead to the system's libraries.
            words.extend([
                loader.into(),
                "--inhibit-cache".into(),
                "--library-path".into(),
                libraries.clone(),
            ]);
        }
        words.push(self.program.clone().into());
        for folder in &self.data {
            words.extend(["-L".into(), folder.into()]);
        }
        words
    }

    /// The environment variables that QEMU needs.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        self.modules
            .iter()
            .map(|folder| ("QEMU_MODULE_DIR", folder.clone()))
            .collect()
    }

    /// The host's files and folders that QEMU consists of, not including the libraries of an installed QEMU. Where they
    /// are at the same paths, [`script`](Self::script) runs it in L1.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        match &self.loader {
            Some((_, libraries)) => {
                // L1 gets the whole folder, because for a single program the lab would look for libraries among the
                // host's.
                files.extend(self.program.parent().map(Path::to_path_buf));
                files.extend(std::env::split_paths(libraries));
                files.extend(self.data.iter().cloned());
            }
            None => {
                files.push(self.program.clone());
                files.extend(["/usr/share/qemu", "/usr/share/seabios"].map(PathBuf::from));
            }
        }
        files.retain(|path| path.exists());
        files
    }

    /// Returns a shell script that runs QEMU with the script's arguments.
    pub fn script(&self) -> String {
        let quoted =
            |word: OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
        let mut script = "#!/bin/sh\n".to_owned();
        for (name, value) in self.environment() {
            script.push_str(&format!("export {name}={}\n", quoted(value.into())));
        }
        let words: Vec<String> = self.words().into_iter().map(quoted).collect();
        script.push_str(&format!("exec {} \"$@\"\n", words.join(" ")));
        script
    }

    fn checked(mut self, board: &LabBoard) -> Result<Self, LabError> {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg("--version")
            .envs(self.environment())
            .stdin(Stdio::null());
        let output = command.output().map_err(cannot("run", &self.program))?;
        let program = self.program.display();
        let text = String::from_utf8_lossy(&output.stdout);
        let version = parse_version(&text).filter(|_| output.status.success());
        let Some((version, numbers)) = version else {
            let said = format!(
                "{}{}",
                text.trim(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
            return Err(failed!(
                "{program} --version failed ({}): {said}",
                output.status
            ));
        };
        let oldest = board.oldest_qemu;
        if numbers < oldest {
            let (major, minor) = oldest;
            return Err(failed!(
                "{program} is QEMU {version}, and the lab needs {major}.{minor} or newer for this"
            ));
        }
        self.version = version;
        Ok(self)
    }
}

impl fmt::Display for Qemu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Named => "--qemu",
            Origin::Path => "on PATH",
            Origin::Package => return write!(f, "QEMU {} (the cache's own)", self.version),
        };
        write!(
            f,
            "QEMU {} ({}, {origin})",
            self.version,
            self.program.display()
        )
    }
}

/// Parses the output of `--version`: `QEMU emulator version 7.2.22 (Debian ...)`.
fn parse_version(text: &str) -> Option<(String, (u32, u32))> {
    let rest = text.split("version ").nth(1)?;
    let version: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let pair = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((version, pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::AARCH64;

    #[test]
    fn versions_are_read_as_distributions_print_them() {
        for (text, version, numbers) in [
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright",
                "7.2.22",
                (7, 2),
            ),
            (
                "QEMU emulator version 10.0.2 (qemu-10.0.2-1.fc42)",
                "10.0.2",
                (10, 0),
            ),
        ] {
            assert_eq!(parse_version(text), Some((version.to_owned(), numbers)));
        }
        assert_eq!(parse_version("qemu-img 7"), None);
        assert_eq!(parse_version("version x.y"), None);
    }

    #[test]
    fn the_script_quotes_what_a_shell_would_split() {
        let qemu = Qemu {
            program: PathBuf::from("/it's a/qemu"),
            loader: Some((PathBuf::from("/ld.so"), "/lib".into())),
            modules: Some(PathBuf::from("/m")),
            ..Qemu::installed(Origin::Package)
        };
        assert_eq!(
            qemu.script(),
            "#!/bin/sh\nexport QEMU_MODULE_DIR='/m'\nexec '/ld.so' '--inhibit-cache' \
             '--library-path' '/lib' '/it'\\''s a/qemu' \"$@\"\n"
        );
    }

    #[test]
    fn a_program_that_is_no_qemu_is_refused_with_its_words() {
        let error = Qemu::named(Path::new("/bin/true"), &AARCH64).unwrap_err();
        assert!(
            error.to_string().starts_with("/bin/true --version failed"),
            "{error}"
        );
        let error = Qemu::named(Path::new("/nonexistent/qemu"), &AARCH64).unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nonexistent/qemu");
    }
}
