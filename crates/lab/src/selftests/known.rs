//! The list of known results: how a test ends in the lab on a kernel on which it does not pass, and why.

use std::collections::BTreeMap;

use super::TestVerdict;
use crate::board::EmulatorKind;
use crate::error::{LabError, failed};

/// The list that is embedded in this program.
const OWN: &str = include_str!("../../selftests/known.txt");
/// Follows a result if the test may also pass.
const MAY_PASS: char = '?';
/// The first character of a line that is ignored.
const COMMENT: char = '#';

/// The known results by kernel and test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownResults(BTreeMap<String, BTreeMap<String, KnownResult>>);

/// A known result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownResult {
    /// The result.
    pub result: TestVerdict,
    /// Whether the test may also pass, because its result depends on time.
    pub may_pass: bool,
    /// The cause of the result.
    pub cause: String,
}

impl KnownResults {
    /// Returns the list that is embedded in this program.
    pub fn own() -> Result<Self, LabError> {
        Self::parse(OWN)
    }

    /// Parses a list of lines `KERNEL TEST RESULT CAUSE`.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let mut known = Self::default();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            if text.trim().is_empty() || text.starts_with(COMMENT) {
                continue;
            }
            let mut words = text.split_whitespace();
            let (Some(kernel), Some(test), Some(word)) = (words.next(), words.next(), words.next())
            else {
                return Err(bad_line(line));
            };
            let name = word.strip_suffix(MAY_PASS).unwrap_or(word);
            let result = TestVerdict::ALL
                .into_iter()
                .find(|result| result.name() == name);
            let Some(result) = result.filter(|result| *result != TestVerdict::Pass) else {
                return Err(bad_line(line));
            };
            let cause = words.collect::<Vec<_>>().join(" ");
            let tests = known.0.entry(kernel.to_owned()).or_default();
            let entry = KnownResult {
                result,
                may_pass: name != word,
                cause,
            };
            if tests.insert(test.to_owned(), entry).is_some() {
                return Err(failed!(
                    "line {line} has a second result of {test} on {kernel}"
                ));
            }
        }
        Ok(known)
    }

    /// Returns a kernel's name in the list: the series of its release, the series of the tests if that differs, and
    /// `-vmx` on a CPU with Intel's VMX.
    pub fn kernel(release: &str, tests: &str, emulator: EmulatorKind) -> String {
        let name = match [release, tests].map(series) {
            [kernel, tests] if kernel == tests => kernel,
            [kernel, tests] => format!("{kernel}/{tests}"),
        };
        match emulator {
            EmulatorKind::Qemu => name,
            EmulatorKind::Bochs(_) => name + "-vmx",
        }
    }

    /// Returns whether the list has this kernel.
    pub fn has(&self, kernel: &str) -> bool {
        self.0.contains_key(kernel)
    }

    /// Returns the known result of a test; `None` if it has to pass.
    pub fn of(&self, kernel: &str, test: &str) -> Option<&KnownResult> {
        self.0.get(kernel)?.get(test)
    }

    /// Returns whether the result is the known result, or a pass of a test that may pass.
    pub fn agrees(&self, kernel: &str, test: &str, result: TestVerdict) -> bool {
        match self.of(kernel, test) {
            None => result == TestVerdict::Pass,
            Some(known) => {
                result == known.result || (known.may_pass && result == TestVerdict::Pass)
            }
        }
    }
}

fn bad_line(line: usize) -> LabError {
    failed!(
        "line {line} is not `KERNEL TEST RESULT CAUSE`, with the result skip, fail, timeout, crash or unbuilt, \
         and a `?` after it if the test may also pass"
    )
}

/// Returns the series of a release: `6.12` for `6.12.118+deb13-cloud-amd64`.
fn series(release: &str) -> String {
    let numbers = release.split(|c: char| !c.is_ascii_digit()).take(2);
    numbers.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::IntelCpu;

    #[test]
    fn a_test_that_is_not_listed_is_to_pass() {
        let text = "# a comment\n\n6.12  a_test  fail  a bug  of QEMU\n6.18/7.3 a_test skip\n6.12 b_test timeout? slow\n";
        let known = KnownResults::parse(text).unwrap();
        let releases = ["6.12.118+deb13-cloud-amd64", "6.12.43+deb12-cloud-amd64"];
        let kernel = KnownResults::kernel(releases[0], releases[1], EmulatorKind::Qemu);
        assert_eq!(kernel, "6.12");
        assert_eq!(known.of(&kernel, "a_test").unwrap().cause, "a bug of QEMU");
        for (test, result, agrees) in [
            ("a_test", TestVerdict::Fail, true),
            ("a_test", TestVerdict::Pass, false),
            ("b_test", TestVerdict::Timeout, true),
            ("b_test", TestVerdict::Pass, true),
            ("b_test", TestVerdict::Fail, false),
            ("c_test", TestVerdict::Pass, true),
            ("c_test", TestVerdict::Skip, false),
        ] {
            assert_eq!(
                known.agrees(&kernel, test, result),
                agrees,
                "{test} {result}"
            );
        }
        let releases = ["6.18.15+deb13-cloud-amd64", "7.3.4+deb13-cloud-amd64"];
        let other = KnownResults::kernel(releases[0], releases[1], EmulatorKind::Qemu);
        assert_eq!(other, "6.18/7.3");
        assert!(known.agrees(&other, "a_test", TestVerdict::Skip));
        assert!(!known.has("6.1"));
    }

    #[test]
    fn a_kernel_has_other_results_on_vmx() {
        let known = KnownResults::parse("6.12-vmx a_test fail no APICv\n").unwrap();
        let vmx = EmulatorKind::Bochs(IntelCpu::HASWELL);
        for (emulator, result) in [
            (EmulatorKind::Qemu, TestVerdict::Pass),
            (vmx, TestVerdict::Fail),
        ] {
            let kernel = KnownResults::kernel("6.12.118", "6.12.118", emulator);
            assert!(known.agrees(&kernel, "a_test", result), "{kernel}");
            assert_eq!(known.has(&kernel), emulator == vmx, "{kernel}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        for text in ["6.12 a_test", "6.12 a_test pass", "6.12 a_test broken why"] {
            let error = KnownResults::parse(&format!("# first\n{text}\n")).unwrap_err();
            assert!(error.to_string().starts_with("line 2 is not `KERNEL TEST"));
        }
        let error = KnownResults::parse("6.1 a skip\n6.1 a fail\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 has a second result of a on 6.1");
    }

    #[test]
    fn the_own_list_can_be_read_and_each_result_has_a_cause() {
        let known = KnownResults::own().unwrap();
        for (kernel, tests) in &known.0 {
            for (test, result) in tests {
                assert!(!result.cause.is_empty(), "{kernel} {test}");
            }
        }
    }
}
