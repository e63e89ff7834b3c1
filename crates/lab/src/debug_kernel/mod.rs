//! A kernel that checks itself with lockdep, RCU's checks, KASAN and kmemleak, which Debian's kernels lack.
//!
//! It is built from the source of one of Debian's kernels, with the compiler of [`Tools`] and our small configuration.
//! It has only what the lab's emulated machine needs, so the build takes minutes. What later module builds need is kept
//! as a folder of headers.

mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::error::{LabError, cannot, failed};
use crate::kvm::{Tools, run_in_place};
use crate::out_of_tree::{Make, Packages, Release};
use crate::progress::LabProgress;

/// The differences from `allnoconfig`.
pub(crate) const CONFIG: &str = include_str!("config");
/// The suffix of such a kernel's release, after the package's release.
pub(crate) const SUFFIX: &str = "+debug";

/// Programs that only this build needs, with their libraries.
const PROGRAMS: [&str; 3] = ["bison", "flex", "bc"];
/// The compiler's machine.
const MACHINE: &str = "x86_64-linux-gnu";

/// A build of such a kernel, in a folder that is removed after the build.
#[derive(Debug)]
pub(crate) struct DebugKernel<'a> {
    pub(crate) release: &'a Release,
    pub(crate) tools: &'a Tools,
    pub(crate) host: Arch,
    pub(crate) scratch: &'a Path,
}

impl DebugKernel<'_> {
    /// Downloads the source package and the programs that build it.
    pub(crate) fn unpack(&self, packages: &mut dyn Packages, source: &str) -> Result<(), LabError> {
        let programs = self.programs();
        for name in PROGRAMS {
            packages.unpack(self.host.package, &[name], &[], &programs)?;
        }
        run_in_place(&programs, self.host)?;
        self.tools
            .write_programs(MACHINE, &self.scratch.join("bin"))?;
        packages.unpack_alone(self.host.package, &[source], self.scratch)?;
        let version = source.split('=').next().unwrap_or_default();
        let archive = self.scratch.join(format!("usr/src/{version}.tar.xz"));
        source::unpack(&archive, &self.tree())?;
        // A static objtool cannot be built: Debian's libelf.a is incomplete.
        let release = self.release;
        let objtool = self.tools.objtool().ok_or_else(|| {
            failed!("cannot build Linux {release}: its package linux-kbuild has no objtool")
        })?;
        source::put_objtool(&self.tree(), &objtool)?;
        fs::remove_file(&archive).map_err(cannot("remove", archive))
    }

    /// Builds the image and the modules. Returns the image and the folder of the modules.
    pub(crate) fn build(&self, progress: LabProgress) -> Result<(PathBuf, PathBuf), LabError> {
        let file = self.scratch.join("config");
        fs::write(&file, CONFIG).map_err(cannot("write", &file))?;
        let file = format!("KCONFIG_ALLCONFIG={}", file.display());
        self.make(&[&file, "allnoconfig"])?;
        let made = self.tree().join(".config");
        let made = fs::read_to_string(&made).map_err(cannot("read", made))?;
        if let Some(option) = missing(&made) {
            let release = self.release;
            return Err(failed!("Linux {release} cannot be built with {option}"));
        }
        let spinner = progress.spin("in the build of the kernel");
        self.make(&["vmlinux", "modules"])?;
        drop(spinner);
        let modules = self.scratch.join("modules");
        source::take_modules(&self.tree(), &modules)?;
        Ok((self.tree().join("vmlinux"), modules))
    }

    /// Copies the files that module builds need.
    pub(crate) fn headers(&self, target: &Path) -> Result<(), LabError> {
        source::take_headers(&self.tree(), target)
    }

    fn tree(&self) -> PathBuf {
        self.scratch.join("linux")
    }

    fn programs(&self) -> PathBuf {
        self.scratch.join("programs")
    }

    fn make(&self, targets: &[&str]) -> Result<(), LabError> {
        let programs = self.programs();
        let own = |path: &str| programs.join(path).display().to_string();
        let compiler = self
            .tools
            .compiler_of_programs(MACHINE, &self.scratch.join("bin"));
        let mut arguments = arguments(self.tools);
        arguments.extend([
            format!("KERNELRELEASE={}{SUFFIX}", self.release),
            // Programs that the build makes must run without the libraries that they were built with.
            format!("HOSTCC={}", compiler.join(" ")),
            format!("HOSTLD={MACHINE}-ld"),
            format!("HOSTAR={MACHINE}-ar"),
            "HOSTLDFLAGS=-static".to_owned(),
            format!("LEX={}", own("usr/bin/flex")),
            format!("YACC={}", own("usr/bin/bison")),
            format!("BC={}", own("usr/bin/bc")),
            // The same source must give the same kernel.
            "KBUILD_BUILD_TIMESTAMP=1970-01-01".to_owned(),
            "KBUILD_BUILD_USER=vmbell".to_owned(),
            "KBUILD_BUILD_HOST=lab".to_owned(),
        ]);
        arguments.extend(targets.iter().map(|target| target.to_string()));
        Make {
            release: self.release,
            folder: &self.tree(),
            log: &self.scratch.join("make.log"),
            bin: &self.tools.bin(),
            environment: &[
                ("M4", own("usr/bin/m4")),
                ("BISON_PKGDATADIR", own("usr/share/bison")),
            ],
            arguments: &arguments,
        }
        .run()
    }
}

/// Returns the arguments for `make` that name the compiler and its companion programs.
pub(crate) fn arguments(tools: &Tools) -> Vec<String> {
    vec![
        "ARCH=x86_64".to_owned(),
        format!("CROSS_COMPILE={MACHINE}-"),
        format!("CC={}", tools.compiler(MACHINE).display()),
    ]
}

/// Returns the first line of our configuration that is not in the finished one: the kernel has no such option, or the
/// option depends on another one.
fn missing(made: &str) -> Option<&'static str> {
    let wanted = CONFIG.lines().filter(|line| line.starts_with("CONFIG_"));
    let mut missing = wanted.filter(|wanted| !made.lines().any(|line| line == *wanted));
    missing.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_kernel_does_not_have_is_found() {
        assert_eq!(missing(CONFIG), None);
        let without = CONFIG.replace("CONFIG_KASAN=y", "# CONFIG_KASAN is not set");
        assert_eq!(missing(&without), Some("CONFIG_KASAN=y"));
    }
}
