//! Bochs, which emulates a CPU with Intel's VMX. QEMU's TCG has no VMX.
//!
//! The lab builds Bochs from its source in Debian's archive with the patches in `bochs/*.patch`, each of which says its
//! reason. Bochs is under the GNU LGPL, version 2 or later; the patches have our own lines only. `build` compiles it,
//! `config` describes the machine to it, and `images` makes what it loads into the machine's memory.

pub(crate) mod build;
pub(crate) mod config;
pub(crate) mod images;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::CacheEntry;
use crate::error::{LabError, cannot, failed};

/// The version of Bochs that the patches are for.
pub(crate) const VERSION: &str = "3.0";
/// The files in the cache entries.
pub(crate) const PROGRAM: &str = "bochs";
pub(crate) const BIOS: &str = "bios.bin";
pub(crate) const VGA_BIOS: &str = "vgabios.bin";
/// A text that only a Bochs with the lab's patches contains.
const MARK: &[u8] = b"vmbell-lab-port";

/// A Bochs, and the firmware that it runs.
#[derive(Clone, Debug)]
pub struct Bochs {
    program: PathBuf,
    bios: PathBuf,
    vga_bios: PathBuf,
    is_named: bool,
}

impl Bochs {
    /// Uses the Bochs and the firmware in two cache entries.
    pub(crate) fn built(entry: &CacheEntry, firmware: &CacheEntry) -> Self {
        Self {
            is_named: false,
            ..Self::named(&entry.path(PROGRAM), firmware)
        }
    }

    /// Uses the program that the caller names, which [`check`] accepts, with the firmware in a cache entry.
    pub(crate) fn named(program: &Path, firmware: &CacheEntry) -> Self {
        Self {
            program: program.to_path_buf(),
            bios: firmware.path(BIOS),
            vga_bios: firmware.path(VGA_BIOS),
            is_named: true,
        }
    }

    /// Bochs's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn bios(&self) -> &Path {
        &self.bios
    }

    pub(crate) fn vga_bios(&self) -> &Path {
        &self.vga_bios
    }
}

/// Returns an error unless the program is a Bochs of the right version with the lab's patches.
pub(crate) fn check(program: &Path) -> Result<(), LabError> {
    let shown = program.display();
    let mut command = Command::new(program);
    let output = command.arg("--help").stdin(Stdio::null()).output();
    let output = output.map_err(cannot("run", program))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let Some(version) = version(&text) else {
        return Err(failed!(
            "{shown} is not a Bochs: --help does not say its version"
        ));
    };
    if version != VERSION {
        return Err(failed!(
            "{shown} is Bochs {version}, and the lab's changes are for {VERSION}"
        ));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(program)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(cannot("read", program))?;
    match bytes.windows(MARK.len()).any(|part| part == MARK) {
        true => Ok(()),
        false => Err(failed!("{shown} was built without the lab's changes")
            .hint("apply crates/lab/bochs/*.patch to its source")),
    }
}

/// Parses the first lines of Bochs: `Bochs x86 Emulator 3.0`.
fn version(text: &str) -> Option<&str> {
    let rest = text.split("Bochs x86 Emulator ").nth(1)?;
    rest.split_whitespace().next()
}

impl fmt::Display for Bochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_named {
            true => write!(f, "Bochs {VERSION} ({}, --bochs)", self.program.display()),
            false => write!(f, "Bochs {VERSION} (the cache's own)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_first_lines() {
        let text = "====\n          Bochs x86 Emulator 3.0\n   Built from SVN\n";
        assert_eq!(version(text), Some("3.0"));
        assert_eq!(version("usage: true"), None);
    }

    #[test]
    fn a_program_that_is_no_bochs_is_refused() {
        let error = check(Path::new("/bin/true")).unwrap_err().to_string();
        assert!(error.starts_with("/bin/true is not a Bochs"), "{error}");
        let error = check(Path::new("/nonexistent/bochs")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nonexistent/bochs");
    }
}
