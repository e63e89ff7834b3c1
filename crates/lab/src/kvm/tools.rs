//! The compiler, headers, KVM source and selftests' source of one kernel, unpacked into a cache entry.
//!
//! They come from the kernel's distribution, which may be newer than this system, so a script starts each program with
//! its own loader and libraries. The scripts find these relative to themselves, so the folder can be renamed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::changes::{OWN, is_source, not_a_source};
use super::selftests::is_of_a_test;
use crate::arch::Arch;
use crate::error::{LabError, LabFailure, cannot, failed};
use crate::initramfs::ElfFacts;
use crate::out_of_tree::{Headers, Packages, Release, take};

/// Dependencies of the programs, other than the compiler's, that are not downloaded: they came with the compiler, or no
/// build uses them.
const STAND_INS: &[&str] = &["libc6", "libssl3", "libssl3t64", "pahole", "zlib1g"];
/// Folders with programs that a build runs.
const PROGRAMS: [&str; 3] = ["usr/bin", "usr/lib", "usr/libexec"];
/// Files and folders that no build reads. The link-time optimizer is as large as the compiler.
const DISPENSABLE: [&str; 4] = ["etc", "usr/share", "usr/sbin", "var"];
const OPTIMIZER: &str = "lto1";
/// Libraries for programs that run in L1: headers and archives of the C library and of libuuid.
const LIBRARIES: [&str; 2] = ["libc6-dev", "uuid-dev"];
/// The folder with these libraries and the kernel's headers for programs, laid out as a root.
const SYSROOT: &str = "sysroot";
/// The folder of the selftests' source.
const SELFTESTS: &str = "selftests";
/// The suffix of a program that a script runs.
const PROGRAM: &str = ".elf";

/// The folder with everything that was unpacked.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(super) root: PathBuf,
    pub(super) headers: Headers,
}

impl Tools {
    /// Opens the tools that were unpacked in `root`.
    pub(crate) fn open(root: PathBuf, release: &Release) -> Result<Self, LabError> {
        let headers = Headers::read(release, &root)?;
        Ok(Self { root, headers })
    }

    /// Downloads the tools and unpacks them into `root`. Files that are needed only for that go to `scratch`.
    pub(crate) fn unpack(
        packages: &mut dyn Packages,
        host: Arch,
        release: &Release,
        root: &Path,
        scratch: &Path,
    ) -> Result<(), LabError> {
        let kernel = Arch::X86_64.package;
        let file = packages
            .unpack_alone(kernel, &[&release.headers()], root)
            .map_err(|error| gone(release, "headers", error))?;
        packages.unpack_alone(host.package, &[&release.common_headers()], root)?;
        let headers = Headers::read(release, root)?;
        let [cross, native] = headers.compiler_packages("x86-64-linux-gnu");
        packages.unpack(host.package, &[&cross, &native], &[], root)?;
        let [newer, older] = release.build_tools();
        packages.unpack(host.package, &[&newer, &older], STAND_INS, root)?;
        for program in ["make", "patch"] {
            packages.unpack(host.package, &[program], STAND_INS, root)?;
        }
        let sysroot = root.join(SYSROOT);
        for library in LIBRARIES {
            packages.unpack_alone(kernel, &[library], &sysroot)?;
        }
        // A kernel that is newer than its distribution has no such package. Only the selftests need it.
        let interface = headers.interface_package(&file)?;
        match packages.unpack_alone(kernel, &[&interface], &sysroot) {
            Err(error) if error.kind() != LabFailure::Missing => return Err(error),
            _ => {}
        }
        let source = headers.source_package(&file)?;
        packages
            .unpack_alone(host.package, &[&source], scratch)
            .map_err(|error| gone(release, "source", error))?;
        let common = common(root, release);
        let is_own = |path: &Path| OWN.iter().any(|own| path.starts_with(own)) && is_source(path);
        let selftests = root.join(SELFTESTS);
        take(&headers.source_archive(scratch, &file)?, |path| {
            let of_a_test = || is_of_a_test(path).then(|| selftests.join(path));
            is_own(path).then(|| common.join(path)).or_else(of_a_test)
        })?;
        if let Some(missing) = OWN.into_iter().find(|own| !common.join(own).is_dir()) {
            return Err(not_a_source(&common, missing));
        }
        for name in DISPENSABLE {
            let path = root.join(name);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(cannot("remove", path))?;
            }
        }
        run_in_place(root, host)
    }

    /// The kernel that these tools are for.
    pub(crate) fn release(&self) -> &Release {
        self.headers.release()
    }

    /// Returns the package with the kernel's source, if `file` is the package with its headers.
    pub(crate) fn source_package(&self, file: &str) -> Option<String> {
        self.headers.source_package(file).ok()
    }

    /// Returns the program that checks objects, from the package with the build's programs.
    pub(crate) fn objtool(&self) -> Option<PathBuf> {
        let list = fs::read_dir(self.root.join("usr/lib")).ok()?;
        let programs = list
            .flatten()
            .map(|item| item.path().join("tools/objtool/objtool"));
        programs.into_iter().find(|path| path.exists())
    }

    /// The folder with the programs.
    pub(crate) fn bin(&self) -> PathBuf {
        self.root.join("usr/bin")
    }

    /// Returns the compiler for this machine.
    pub(crate) fn compiler(&self, machine: &str) -> PathBuf {
        self.bin().join(self.headers.compiler(machine))
    }

    /// Writes scripts for the assembler and the linker to `bin`. The compiler looks for these names, and would
    /// otherwise find this system's programs.
    pub(crate) fn write_programs(&self, machine: &str, bin: &Path) -> Result<(), LabError> {
        write_programs(&self.bin(), machine, bin)
    }

    /// Returns the compiler for programs and the arguments that it always needs. `bin` has the scripts from
    /// [`write_programs`](Self::write_programs).
    pub(crate) fn compiler_of_programs(&self, machine: &str, bin: &Path) -> Vec<String> {
        vec![
            self.compiler(machine).display().to_string(),
            format!("-B{}", bin.display()),
            format!("--sysroot={}", self.sysroot().display()),
        ]
    }

    /// The folder to build programs for L1 against, laid out as a root.
    pub(crate) fn sysroot(&self) -> PathBuf {
        self.root.join(SYSROOT)
    }

    /// Returns whether the folder has the kernel's headers for programs.
    pub(crate) fn has_interface(&self) -> bool {
        self.sysroot().join("usr/include/linux/kvm.h").exists()
    }

    /// The folder with the selftests' source.
    pub(crate) fn selftests(&self) -> PathBuf {
        self.root.join(SELFTESTS)
    }
}

/// Writes scripts for the assembler and the linker in the folder `programs` to `bin`.
pub(crate) fn write_programs(programs: &Path, machine: &str, bin: &Path) -> Result<(), LabError> {
    fs::create_dir_all(bin).map_err(cannot("make", bin))?;
    for name in ["as", "ld"] {
        let path = bin.join(name);
        let program = programs.join(format!("{machine}-{name}"));
        let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display());
        fs::write(&path, text).map_err(cannot("write", &path))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(cannot("change", &path))?;
    }
    Ok(())
}

/// Returns the folder with the headers, KVM's source and the files of a build.
pub(super) fn common(root: &Path, release: &Release) -> PathBuf {
    root.join("usr/src").join(release.common_headers())
}

fn gone(release: &Release, what: &'static str, error: LabError) -> LabError {
    match error.kind() {
        LabFailure::Missing => failed!("Debian's archive has no {what} of Linux {release}")
            .hint("choose another kernel with --kernel debian:VERSION")
            .of(LabFailure::Missing)
            .because(error),
        _ => error,
    }
}

/// Replaces each program below `root` with a script.
pub(crate) fn run_in_place(root: &Path, host: Arch) -> Result<(), LabError> {
    for folder in PROGRAMS {
        wrap_below(root, Path::new(folder), host)?;
    }
    Ok(())
}

fn wrap_below(root: &Path, folder: &Path, host: Arch) -> Result<(), LabError> {
    let path = root.join(folder);
    let Ok(list) = fs::read_dir(&path) else {
        // Not every distribution has each folder.
        return Ok(());
    };
    let mut names: Vec<_> = list.flatten().map(|item| item.file_name()).collect();
    names.sort();
    for name in names {
        let (name, path) = (folder.join(&name), path.join(&name));
        let metadata = fs::symlink_metadata(&path).map_err(cannot("inspect", &path))?;
        // This folder has many libraries, but no programs.
        if metadata.is_dir() && name != Path::new("usr/lib").join(host.triplet) {
            wrap_below(root, &name, host)?;
        }
        let text = name.to_string_lossy().into_owned();
        let is_program = metadata.is_file()
            && metadata.permissions().mode() & 0o100 != 0
            && !text.contains(".so")
            && !text.ends_with(PROGRAM);
        if is_program && name.ends_with(OPTIMIZER) {
            fs::remove_file(&path).map_err(cannot("remove", path))?;
        } else if is_program && is_dynamic(&path)? {
            let moved = root.join(format!("{text}{PROGRAM}"));
            fs::rename(&path, &moved).map_err(cannot("rename", &path))?;
            fs::write(&path, script(&text, host)).map_err(cannot("write", &path))?;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&path, mode).map_err(cannot("make executable", path))?;
        }
    }
    Ok(())
}

fn is_dynamic(path: &Path) -> Result<bool, LabError> {
    let bytes = fs::read(path).map_err(cannot("read", path))?;
    let facts = ElfFacts::parse(bytes.as_slice());
    Ok(facts.is_some_and(|facts| facts.interpreter.is_some()))
}

/// Returns the script for the program `name`, a path below the root. Programs find their parts through `$0`.
fn script(name: &str, host: Arch) -> String {
    let up = "/..".repeat(name.matches('/').count());
    let (triplet, loader) = (host.triplet, host.loader);
    format!(
        "#!/bin/sh\nroot=${{0%/*}}{up}\n\
         for lib in \"$root/usr/lib/{triplet}\" \"$root/lib/{triplet}\"; do\n\
         [ -e \"$lib/{loader}\" ] && exec \"$lib/{loader}\" --argv0 \"$0\" \
         --library-path \"$root/usr/lib/{triplet}:$root/lib/{triplet}\" \"$root/{name}{PROGRAM}\" \"$@\"\n\
         done\nexit 127\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_with_the_loader_that_was_unpacked_with_it() {
        let host = Arch::host().unwrap();
        let root = tempfile::tempdir().unwrap();
        let facts = ElfFacts::read(Path::new("/bin/true"), host.name).unwrap();
        let lib = root.path().join("lib").join(host.triplet);
        let bin = root.path().join("usr/bin");
        for folder in [&lib, &bin] {
            fs::create_dir_all(folder).unwrap();
        }
        // The script prints which loader it starts, and with which arguments.
        let said = "#!/bin/sh\necho \"$0\" \"$@\"\n";
        fs::write(lib.join(host.loader), said).unwrap();
        fs::set_permissions(lib.join(host.loader), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(facts.interpreter.is_some());
        fs::copy("/bin/true", bin.join("tool")).unwrap();
        fs::write(bin.join("text"), said).unwrap();
        std::os::unix::fs::symlink("tool", bin.join("alias")).unwrap();
        run_in_place(root.path(), host).unwrap();
        // The second time there is nothing to do.
        run_in_place(root.path(), host).unwrap();

        let output = std::process::Command::new(bin.join("alias"))
            .arg("a b")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let up = bin.join("../..");
        let words: Vec<&str> = said.trim().split(' ').collect();
        assert_eq!(
            words[0],
            up.join("lib")
                .join(host.triplet)
                .join(host.loader)
                .to_str()
                .unwrap()
        );
        assert_eq!(words[2], bin.join("alias").to_str().unwrap());
        assert_eq!(words[5], up.join("usr/bin/tool.elf").to_str().unwrap());
        assert_eq!(words[6..], ["a", "b"]);
        assert_eq!(
            fs::read(bin.join("tool.elf")).unwrap(),
            fs::read("/bin/true").unwrap()
        );
        assert!(!bin.join("text.elf").exists());
    }
}
