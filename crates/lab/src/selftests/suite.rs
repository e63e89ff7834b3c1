//! Builds the selftests in a folder next to the files of the compiler's cache entry. The folder is kept, so each test
//! is built only once.
//!
//! The kernel's own Makefile builds the kernel's tests; ours are compiled one by one. If a test does not compile, the
//! others are still built, and the compiler's errors are its result.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::arch::Arch;
use crate::board::LabBoard;
use crate::cache::hash_bytes;
use crate::error::{LabError, cannot, failed};
use crate::kvm::Tools;
use crate::out_of_tree::{Release, in_place, run_by_line};
use crate::own_sources::{OwnSources, own_sources};
use crate::progress::LabProgress;
use crate::unfinished;

/// Increase this number when the way of building changes.
const REVISION: u32 = 1;
/// The prefix of a compiler that builds for L1's architecture.
const MACHINE: &str = "x86_64-linux-gnu";
/// Additional arguments of the compiler, for static programs without debug information.
const FLAGS: &str = "-static -g0 -s";
/// The folder with the kernel's tests in its source.
const FOLDER: &str = "tools/testing/selftests/kvm";
/// A rule that makes `make` print the names of the tests.
const LIST: &str = "vmbell-list: ; @printf '%s\\n' $(TEST_GEN_PROGS)";
/// Exists while a build runs. A killed build may have left half a file.
const BUSY: &str = "busy";
/// The maximum number of lines of the compiler's output that are kept for a test.
const QUOTED: usize = 3;

/// Our own tests and the files that they include.
const OWN: OwnSources = own_sources!(
    "selftests":
    "ioeventfd_groups_test.c",
    "ioeventfd_ring_test.c",
    "ioeventfd_stress_test.c",
    "ioeventfd_test.c",
    "irqfd_resample_test.c",
    "module.h",
    "vm.h",
);

/// The tests of one kernel's source.
#[derive(Debug)]
pub struct SelftestSuite {
    release: Release,
    tools: Tools,
    folder: PathBuf,
    /// The kernel's tests, each with its program relative to the folder.
    kernels: BTreeMap<String, PathBuf>,
}

/// A test after its build: its program, or the compiler's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The test.
    pub test: String,
    /// The test's program.
    pub program: Result<PathBuf, Vec<String>>,
}

impl SelftestSuite {
    /// Opens the tests of this release, in a folder below `place`.
    pub(crate) fn open(place: &Path, tools: Tools, release: Release) -> Result<Self, LabError> {
        let recipe = format!("revision {REVISION}\n{FLAGS}");
        let digest = hash_bytes(recipe.as_bytes());
        let folder = place.join(format!("selftests-{digest:.16}"));
        if folder.join(BUSY).exists() {
            fs::remove_dir_all(&folder).map_err(cannot("remove", &folder))?;
        }
        let mut suite = Self {
            release,
            tools,
            folder,
            kernels: BTreeMap::new(),
        };
        if !suite.own().exists() {
            suite.build_with(|suite| {
                OWN.write(&suite.own())?;
                suite.tools.write_programs(MACHINE, &suite.bin())
            })?;
        }
        suite.kernels = suite.list()?;
        Ok(suite)
    }

    /// Returns an error if there are no tests for this board.
    pub fn check(board: &LabBoard) -> Result<(), LabError> {
        match board.arch {
            Arch::X86_64 => Ok(()),
            Arch { name, .. } => Err(failed!(
                "the selftests are for x86_64, and this machine is {name}"
            )),
        }
    }

    /// The kernel's release (`uname -r`).
    pub fn release(&self) -> String {
        self.release.to_string()
    }

    /// Returns the names of all tests: the kernel's and ours.
    pub fn tests(&self) -> Vec<String> {
        let own = own_tests().map(str::to_owned);
        self.kernels.keys().cloned().chain(own).collect()
    }

    /// Returns whether a test is our own.
    pub fn is_own(test: &str) -> bool {
        own_tests().any(|own| own == test)
    }

    /// Builds the given tests that are not built yet.
    pub fn build(&self, tests: &[String], progress: LabProgress) -> Result<Vec<Built>, LabError> {
        let missing = |test: &&String| !self.program(test).exists();
        let missing: Vec<&String> = tests.iter().filter(missing).collect();
        let mut said = BTreeMap::new();
        if !missing.is_empty() {
            let release = &self.release;
            let (count, plural) = (missing.len(), if missing.len() == 1 { "" } else { "s" });
            progress.say(format_args!(
                "building {count} selftest{plural} of Linux {release}"
            ));
            self.build_with(|suite| {
                let (own, kernels): (Vec<&String>, Vec<&String>) =
                    missing.iter().partition(|test| Self::is_own(test));
                let bar = progress.count(count as u64);
                for test in own {
                    bar.set_message(test.to_string());
                    said.insert(test.to_string(), suite.compile_own(test)?);
                    bar.inc(1);
                }
                if !kernels.is_empty() {
                    let text = suite.make_all(&kernels, |test| {
                        bar.set_message(test.to_owned());
                        bar.inc(1);
                    })?;
                    said.extend(kernels.iter().map(|test| (test.to_string(), text.clone())));
                }
                bar.finish_and_clear();
                Ok(())
            })?;
        }
        let built = |test: &String| {
            let program = self.program(test);
            let said = || said.get(test).map(|text| reason(test, text));
            Built {
                test: test.clone(),
                program: match program.exists() {
                    true => Ok(program),
                    false => Err(said().unwrap_or_default()),
                },
            }
        };
        Ok(tests.iter().map(built).collect())
    }

    /// Runs a build step. If it is interrupted, its files will not be used.
    fn build_with(&self, step: impl FnOnce(&Self) -> Result<(), LabError>) -> Result<(), LabError> {
        let busy = self.folder.join(BUSY);
        fs::create_dir_all(&self.folder).map_err(cannot("make", &self.folder))?;
        fs::write(&busy, "").map_err(cannot("write", &busy))?;
        step(self)?;
        fs::remove_file(&busy).map_err(cannot("remove", busy))
    }

    /// Returns the folder of our tests. Its name changes if they change.
    fn own(&self) -> PathBuf {
        let digest = OWN.digest();
        self.folder.join(format!("own-{digest:.16}"))
    }

    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    fn program(&self, test: &str) -> PathBuf {
        match self.kernels.get(test) {
            Some(path) => self.out().join(path),
            None => self.own().join(test),
        }
    }

    fn compiler(&self) -> Vec<String> {
        self.tools.compiler_of_programs(MACHINE, &self.bin())
    }

    /// Returns the command `make` in the folder of the kernel's tests.
    fn make(&self) -> Command {
        let mut make = in_place(&self.tools.bin().join("make"), &self.tools.bin());
        make.arg("-C")
            .arg(self.tools.selftests().join(FOLDER))
            .arg("ARCH=x86_64")
            .arg(format!("OUTPUT={}", self.out().display()))
            .arg(format!("CC={}", self.compiler().join(" ")))
            .arg(format!("EXTRA_CFLAGS={FLAGS}"));
        make
    }

    /// Asks the Makefile for the names of the tests.
    fn list(&self) -> Result<BTreeMap<String, PathBuf>, LabError> {
        let mut make = self.make();
        make.args(["--silent", "--no-print-directory", "--eval", LIST]);
        let output = make
            .arg("vmbell-list")
            .output()
            .map_err(cannot("run", self.tools.bin().join("make")))?;
        let (text, out) = (String::from_utf8_lossy(&output.stdout), self.out());
        let test = |line: &str| {
            let path = Path::new(line).strip_prefix(&out).ok()?;
            let name = path.file_name()?.to_str()?;
            Some((name.to_owned(), path.to_owned()))
        };
        let found: BTreeMap<_, _> = text.lines().filter_map(test).collect();
        if found.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().last().unwrap_or("it has none");
            let release = &self.release;
            return Err(failed!(
                "cannot list the selftests of Linux {release}: {said}"
            ));
        }
        Ok(found)
    }

    /// Builds as many of these kernel tests as possible, and returns the output. `made` is called for each test that
    /// was built.
    fn make_all(&self, tests: &[&String], mut made: impl FnMut(&str)) -> Result<String, LabError> {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut make = self.make();
        let targets: BTreeMap<String, &str> = tests
            .iter()
            .map(|test| (self.program(test).display().to_string(), test.as_str()))
            .collect();
        make.args(["--keep-going", "--output-sync=target"])
            .arg(format!("-j{jobs}"))
            .args(targets.keys());
        // A test that could not be built has no program, so the exit status does not matter.
        let (_, text) = run_by_line(&make, &self.tools.bin(), |line| {
            let last = line.split_whitespace().last();
            if let Some(test) = last.and_then(|word| targets.get(word)) {
                made(test);
            }
        })?;
        Ok(text)
    }

    /// Compiles one of our tests, and returns the compiler's output.
    fn compile_own(&self, test: &str) -> Result<String, LabError> {
        let own = self.own();
        let words = self.compiler();
        let program = PathBuf::from(&words[0]);
        let harness = self.tools.selftests().join("tools/testing/selftests");
        let mut compiler = in_place(&program, &self.tools.bin());
        compiler
            .args(&words[1..])
            .args(["-O2", "-Wall", "-pthread"])
            .args(FLAGS.split(' '))
            .arg(format!("-I{}", harness.display()))
            .arg(own.join(format!("{test}.c")))
            .arg("-o")
            .arg(own.join(test));
        let spawned = unfinished::spawn(&compiler, Stdio::inherit(), Stdio::piped());
        let (mut child, running) = spawned.map_err(cannot("run", &program))?;
        let mut said = Vec::new();
        if let Some(mut stderr) = child.stderr.take() {
            let read = stderr.read_to_end(&mut said);
            read.map_err(cannot("read from", &program))?;
        }
        let status = running.wait(&mut child);
        status.map_err(cannot("wait for", program))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Returns the names of our own tests.
fn own_tests() -> impl Iterator<Item = &'static str> {
    OWN.0.iter().filter_map(|(name, _)| name.strip_suffix(".c"))
}

/// Returns the errors in the test's own part of the build's output, or otherwise the first errors, which are about code
/// it is linked with. The part of a target that could not be built ends with a line of `make` that names it.
fn reason(test: &str, text: &str) -> Vec<String> {
    let ends = [format!("/{test}] Error"), format!("/{test}.o] Error")];
    let (mut errors, mut start) = (Vec::new(), 0);
    for line in text.lines() {
        if line.contains("error:") || line.contains("undefined reference") {
            errors.push(without_folder(line).to_owned());
        } else if ends.iter().any(|end| line.contains(end)) {
            errors.drain(..start);
            break;
        } else if line.contains(" *** ") {
            start = errors.len();
        }
    }
    errors.truncate(QUOTED);
    errors
}

/// Shortens a line of the compiler or linker to start at the source file's name.
fn without_folder(line: &str) -> &str {
    let line = line.split_once("-ld: ").map_or(line, |(_, rest)| rest);
    let file = line.split(':').next().unwrap_or_default();
    let start = file.rfind('/').map_or(0, |at| at + 1);
    line[start..].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_our_tests_is_named_after_its_file() {
        let own: Vec<&str> = own_tests().collect();
        assert_eq!(
            own,
            [
                "ioeventfd_groups_test",
                "ioeventfd_ring_test",
                "ioeventfd_stress_test",
                "ioeventfd_test",
                "irqfd_resample_test"
            ]
        );
    }

    #[test]
    fn a_test_that_does_not_compile_has_the_compilers_words_about_it() {
        let text = "gcc -c /src/a_test.c -o /out/a_test.o\n\
                    /include/asm/kvm.h:7:9: error: no such type\n\
                    make: *** [Makefile:3: /out/a_test.o] Error 1\n\
                    gcc b_test.c -o /out/b_test\n\
                    /usr/bin/x86_64-linux-gnu-ld: /src/b_test.c:775: undefined reference to `f'\n\
                    collect2: error: ld returned 1 exit status\n\
                    make: *** [../lib.mk:155: /out/b_test] Error 1\n";
        assert_eq!(reason("a_test", text), ["kvm.h:7:9: error: no such type"]);
        let said = [
            "b_test.c:775: undefined reference to `f'",
            "collect2: error: ld returned 1 exit status",
        ];
        assert_eq!(reason("b_test", text), said);
        // The library of the test was not built.
        assert_eq!(reason("c_test", text).len(), QUOTED);
        // Only the compiler was run, not the tests.
        assert_eq!(
            reason("d_test", "d_test.c:1:2: error: no\n"),
            ["d_test.c:1:2: error: no"]
        );
        assert!(reason("c_test", "").is_empty());
    }
}
