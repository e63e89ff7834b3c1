//! Builds Bochs with a compiler, `make` and `patch` that come from packages, so that the host needs none of them.
//!
//! The program is static: it runs without the libraries of the distribution that compiled it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use indicatif::ProgressBar;

use super::{BIOS, PROGRAM, VERSION, VGA_BIOS};
use crate::arch::Arch;
use crate::error::{LabError, cannot, failed};
use crate::kvm::{run_in_place, write_programs};
use crate::out_of_tree::{Packages, reason, run_by_line, take};
use crate::own_sources::{OwnSources, own_sources};
use crate::progress::LabProgress;

/// The patches, each with its reason.
pub(crate) const PATCHES: OwnSources = own_sources!(
    "bochs":
    "event-in-delivery.patch",
    "masked-virtual-interrupt.patch",
    "memory-in-one-piece.patch",
    "posted-interrupt-descriptor.patch",
    "requests.patch",
);
/// The Debian release from which this version of Bochs and the compiler come.
pub(crate) const RELEASE: &str = "trixie";
/// The archive for which the patches are: they have no context lines, so no other one may be patched.
pub(crate) const SOURCE: &str = "bochs_3.0+dfsg.orig.tar.xz";
const COMPILER: &str = "g++-14";
/// Dependencies of the compiler that no build uses: documents, and libraries of sanitizers and other languages.
const STAND_INS: &[&str] = &[
    "libasan8",
    "libcc1-0",
    "libcrypt-dev",
    "libgomp1",
    "libhwasan0",
    "libitm1",
    "liblsan0",
    "libquadmath0",
    "libtsan2",
    "libubsan1",
    "manpages",
    "manpages-dev",
    "rpcsvc-proto",
];
/// The packages with the machine's firmware, each with its file and the file's name in its cache entry.
const FIRMWARE: [(&str, &str, &str); 2] = [
    ("bochsbios", "usr/share/bochs/BIOS-bochs-latest", BIOS),
    ("vgabios", "usr/share/vgabios/vgabios.bin", VGA_BIOS),
];
/// The licence of Bochs.
const LICENCE: &str = "COPYING";

/// Flags of the compiler and the linker. libtool keeps `-static` to itself.
const FLAGS: [(&str, &str); 3] = [
    ("CFLAGS", "-O2"),
    ("CXXFLAGS", "-O2 -fomit-frame-pointer"),
    ("LDFLAGS", "--static"),
];

/// Options of `configure`: the CPU's features, and no user interface, debugger or plugins.
const CONFIGURATION: [&str; 25] = [
    "--with-nogui",
    "--disable-docbook",
    "--disable-plugins",
    "--enable-smp",
    "--enable-cpu-level=6",
    "--enable-x86-64",
    "--enable-vmx=2",
    "--enable-svm",
    "--enable-avx",
    "--enable-evex",
    "--enable-amx",
    "--enable-pci",
    "--enable-memtype",
    "--enable-monitor-mwait",
    "--enable-long-phy-address",
    "--enable-large-ramfile=no",
    "--enable-a20-pin",
    "--enable-protection-keys",
    "--enable-cet",
    "--enable-uintr",
    "--enable-perfmon",
    "--enable-repeat-speedups",
    "--enable-fast-function-calls",
    "--enable-handlers-chaining",
    "--enable-logging",
];

/// Returns everything that the program depends on except for the packages' versions, as one text.
pub(crate) fn recipe() -> String {
    format!(
        "{SOURCE} {RELEASE} {COMPILER}\n{CONFIGURATION:?}\n{FLAGS:?}\n{STAND_INS:?}\n{}",
        PATCHES.digest()
    )
}

/// Returns everything that the firmware depends on except for the packages' versions, as one text.
pub(crate) fn firmware_recipe() -> String {
    format!("{RELEASE} {FIRMWARE:?}")
}

/// Downloads the firmware, unpacks it into `scratch` and moves it to `target`.
pub(crate) fn take_firmware(
    packages: &mut dyn Packages,
    host: Arch,
    scratch: &Path,
    target: &Path,
) -> Result<(), LabError> {
    for (package, file, name) in FIRMWARE {
        packages.unpack_alone(host.package, &[package], scratch)?;
        let from = scratch.join(file);
        fs::rename(&from, target.join(name)).map_err(cannot("move", from))?;
    }
    Ok(())
}

/// A build, in folders that are only needed for it.
#[derive(Debug)]
pub(crate) struct Build<'a> {
    pub(crate) host: Arch,
    pub(crate) scratch: &'a Path,
    pub(crate) progress: LabProgress,
}

impl Build<'_> {
    /// Downloads the programs for the build.
    pub(crate) fn unpack(&self, packages: &mut dyn Packages) -> Result<(), LabError> {
        let (host, tools) = (self.host, self.tools());
        for program in [COMPILER, "make", "patch"] {
            packages.unpack(host.package, &[program], STAND_INS, &tools)?;
        }
        run_in_place(&tools, host)?;
        write_programs(&self.bin(), host.triplet, &self.names())
    }

    /// Builds the program from its source's archive and moves it to `target`, with its licence.
    pub(crate) fn build(&self, archive: &Path, target: &Path) -> Result<(), LabError> {
        let source = self.scratch.join("source");
        take(archive, |path| Some(source.join(path)))?;
        self.patch(&source)?;
        self.configure(&source)?;
        let mut planned = 0;
        self.run(self.make(&source).arg("--dry-run"), |line| {
            planned += u64::from(compiles(line));
        })?;
        let bar = self.progress.count(planned);
        bar.set_message("files of Bochs compiled");
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let built = self.run(self.make(&source).arg(format!("-j{jobs}")), |line| {
            step(&bar, line);
        });
        bar.finish_and_clear();
        built?;
        self.run(
            Command::new(self.program("strip")).arg(source.join(PROGRAM)),
            |_| (),
        )?;
        for name in [PROGRAM, LICENCE] {
            let from = source.join(name);
            fs::rename(&from, target.join(name)).map_err(cannot("move", from))?;
        }
        Ok(())
    }

    fn patch(&self, source: &Path) -> Result<(), LabError> {
        let folder = self.scratch.join("patches");
        PATCHES.write(&folder)?;
        for (name, _) in PATCHES.0 {
            let mut patch = Command::new(self.bin().join("patch"));
            patch
                .args(["-p1", "--fuzz=0", "--forward", "--batch", "-d"])
                .arg(source)
                .arg("-i")
                .arg(folder.join(name));
            self.run(&mut patch, |_| ())
                .map_err(|error| error.reworded(|text| format!("{name}: {text}")))?;
        }
        Ok(())
    }

    fn configure(&self, source: &Path) -> Result<(), LabError> {
        let compiler = |name: &str| {
            let (bin, tools) = (self.names(), self.tools());
            format!(
                "{} -B{} --sysroot={}",
                self.program(name).display(),
                bin.display(),
                tools.display()
            )
        };
        let program = |name| self.program(name).display().to_string();
        let mut configure = Command::new("/bin/sh");
        configure
            .arg("./configure")
            .args(CONFIGURATION)
            .env("CXX", compiler(COMPILER))
            .env("CC", compiler(&COMPILER.replace("g++", "gcc")))
            .env("AR", program("ar"))
            .env("RANLIB", program("ranlib"))
            .envs(FLAGS)
            .current_dir(source);
        self.run(&mut configure, |_| ())
    }

    fn make(&self, source: &Path) -> Command {
        let mut make = Command::new(self.bin().join("make"));
        make.arg("-C").arg(source).arg(PROGRAM);
        make
    }

    /// Runs a program of the build, and passes on each line of its output.
    fn run(&self, program: &mut Command, line: impl FnMut(&str)) -> Result<(), LabError> {
        let (status, text) = run_by_line(program, &self.bin(), line)?;
        match status.success() {
            true => Ok(()),
            false => Err(failed!(
                "the build of Bochs {VERSION} failed ({status}): {}",
                reason(&text)
            )),
        }
    }

    /// The folder with the compiler and its libraries, laid out as a root.
    fn tools(&self) -> PathBuf {
        self.scratch.join("tools")
    }

    fn bin(&self) -> PathBuf {
        self.tools().join("usr/bin")
    }

    /// The folder with the assembler and the linker under the names that the compiler looks for.
    fn names(&self) -> PathBuf {
        self.scratch.join("names")
    }

    /// Returns the path of a program of the compiler, whose name begins with the host's triplet.
    fn program(&self, name: &str) -> PathBuf {
        self.bin().join(format!("{}-{name}", self.host.triplet))
    }
}

/// Returns whether a line of `make`'s output shows that a file is compiled.
fn compiles(line: &str) -> bool {
    line.contains(" -c ")
}

fn step(bar: &ProgressBar, line: &str) {
    if compiles(line) {
        bar.inc(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_says_its_reason_and_has_our_own_lines_only() {
        for (name, text) in PATCHES.0 {
            let (reason, changes) = text.split_once("--- a/").unwrap();
            assert!(reason.split_whitespace().count() > 10, "{name}: {reason}");
            let others = changes
                .lines()
                .skip(1)
                .filter(|line| !["+", "@@ -"].iter().any(|mark| line.starts_with(mark)));
            assert_eq!(others.count(), 0, "{name}");
        }
    }

    #[test]
    fn a_step_of_the_build_is_a_compiled_file() {
        let bar = ProgressBar::hidden();
        for line in ["g++ -c -O2 main.cc -o main.o", "g++ main.o -o bochs", ""] {
            step(&bar, line);
        }
        assert_eq!(bar.position(), 1);
    }
}
