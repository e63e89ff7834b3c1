//! The results of the selftests as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::output::text::cleaned;
use vmbell_lab::selftests::{KnownResults, SelftestSuite, TestRun, TestVerdict};
use vmbell_report::{pad, shortened, width};

/// The widest reason in the table; `--json` has all of it.
const WIDTH: usize = 100;

/// The results of one kernel.
#[derive(Debug, Serialize)]
pub(super) struct KernelResults {
    /// The kernel and its KVM.
    kernel: String,
    /// The release of the kernel whose tests these are.
    tests_of: String,
    /// How the list of known results names it.
    known_as: String,
    counts: VerdictCounts,
    tests: Vec<TestResults>,
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct VerdictCounts {
    pass: usize,
    skip: usize,
    fail: usize,
    timeout: usize,
    crash: usize,
    unbuilt: usize,
    /// Results that differ from the known ones.
    differ: usize,
}

#[derive(Debug, Serialize)]
struct TestResults {
    #[serde(flatten)]
    ran: TestRun,
    /// Whether the result is the known one.
    known: bool,
    /// The known result, and its cause if it is not a pass.
    expected: TestVerdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl KernelResults {
    /// Compares what ran with the known results of the kernel `name`.
    pub(super) fn new(
        title: &str,
        tests_of: &str,
        name: &str,
        known: &KnownResults,
        ran: &[TestRun],
    ) -> Self {
        let test = |ran: &TestRun| {
            let entry = known.of(name, &ran.test);
            TestResults {
                known: known.agrees(name, &ran.test, ran.result),
                expected: entry.map_or(TestVerdict::Pass, |entry| entry.result),
                cause: entry.map(|entry| entry.cause.clone()),
                ran: ran.clone(),
            }
        };
        let tests: Vec<TestResults> = ran.iter().map(test).collect();
        let mut counts = VerdictCounts::default();
        for test in &tests {
            *match test.ran.result {
                TestVerdict::Pass => &mut counts.pass,
                TestVerdict::Skip => &mut counts.skip,
                TestVerdict::Fail => &mut counts.fail,
                TestVerdict::Timeout => &mut counts.timeout,
                TestVerdict::Crash => &mut counts.crash,
                TestVerdict::Unbuilt => &mut counts.unbuilt,
            } += 1;
            counts.differ += usize::from(!test.known);
        }
        Self {
            kernel: title.to_owned(),
            tests_of: tests_of.to_owned(),
            known_as: name.to_owned(),
            counts,
            tests,
        }
    }

    /// Whether each result is the known one.
    pub(super) fn is_known(&self) -> bool {
        self.counts.differ == 0
    }
}

impl VerdictCounts {
    fn columns(&self) -> [(&'static str, usize); 7] {
        [
            ("pass", self.pass),
            ("skip", self.skip),
            ("fail", self.fail),
            ("timeout", self.timeout),
            ("crash", self.crash),
            ("unbuilt", self.unbuilt),
            ("differ", self.differ),
        ]
    }
}

/// The results of one kernel, each test a line.
pub(super) fn table(kernel: &KernelResults) -> String {
    let width = kernel.tests.iter().map(|test| test.ran.test.len()).max();
    let width = width.unwrap_or_default().max("test".len());
    let mut text = format!(
        "{}, selftests of Linux {}\n\n{:width$}  result        s\n",
        kernel.kernel, kernel.tests_of, "test"
    );
    for test in &kernel.tests {
        let TestRun {
            test: name,
            result,
            seconds,
            reason,
        } = &test.ran;
        let own = if SelftestSuite::is_own(name) {
            "vmbell's"
        } else {
            ""
        };
        let reason = shortened(&cleaned(&reason.join("; ")), WIDTH);
        let remarks = match &test.cause {
            _ if !test.known => vec![format!("DIFFERS, known: {}", test.expected), reason],
            // A test that is skipped says why itself.
            Some(cause) if !matches!(result, TestVerdict::Skip | TestVerdict::Pass) => {
                vec![cause.clone()]
            }
            _ => vec![reason],
        };
        let mut remarks = [vec![own.to_owned()], remarks].concat();
        remarks.retain(|remark| !remark.is_empty());
        let line = format!(
            "{name:width$}  {result:8} {seconds:6.1}  {}",
            remarks.join("; ")
        );
        text += line.trim_end();
        text.push('\n');
    }
    let counts = kernel.counts.columns();
    let words = counts[..6]
        .iter()
        .map(|(word, count)| format!("{count} {word}"));
    let verdict = match kernel.counts.differ {
        0 => "all as known".to_owned(),
        1 => "1 differs from what is known".to_owned(),
        count => format!("{count} differ from what is known"),
    };
    let words: Vec<String> = words.collect();
    let _ = writeln!(text, "\n{}: {verdict}", words.join(", "));
    text
}

/// The counts of several kernels.
pub(super) fn counts(kernels: &[KernelResults]) -> String {
    let widest = kernels.iter().map(|kernel| width(&kernel.kernel)).max();
    let widest = widest.unwrap_or_default();
    let mut text = format!("\n{:widest$}", "kernel");
    for (word, _) in VerdictCounts::default().columns() {
        let _ = write!(text, "  {word:>7}");
    }
    text.push('\n');
    for kernel in kernels {
        text += &pad(&kernel.kernel, widest);
        for (_, count) in kernel.counts.columns() {
            let _ = write!(text, "  {count:7}");
        }
        text.push('\n');
    }
    text
}

/// The results of all kernels.
pub(super) fn json(kernels: &[KernelResults]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct SelftestsResults<'a> {
        kernels: &'a [KernelResults],
    }
    Ok(serde_json::to_string_pretty(&SelftestsResults { kernels })? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> KernelResults {
        let list =
            "6.12 b_test skip no device\n6.12 c_test fail a bug\n6.12 d_test fail a bug, too\n";
        let known = KnownResults::parse(list).unwrap();
        let ran = |test: &str, result, reason: &[&str]| TestRun {
            test: test.to_owned(),
            result,
            reason: reason.iter().map(|line| (*line).to_owned()).collect(),
            seconds: 0.25,
        };
        let ran = [
            ran("a_test", TestVerdict::Pass, &[]),
            ran("b_test", TestVerdict::Skip, &["no /dev/x"]),
            ran("c_test", TestVerdict::Pass, &[]),
            ran("d_test", TestVerdict::Fail, &["a.c:7: x"]),
            ran(
                "ioeventfd_test",
                TestVerdict::Fail,
                &["not ok 1", "exit status 1"],
            ),
        ];
        KernelResults::new("Linux 6.12.1", "6.12.1", "6.12", &known, &ran)
    }

    #[test]
    fn a_difference_is_marked_and_counted_and_a_known_result_has_its_cause() {
        let kernel = kernel();
        assert!(!kernel.is_known());
        assert_eq!(
            table(&kernel),
            "Linux 6.12.1, selftests of Linux 6.12.1\n\n\
             test            result        s\n\
             a_test          pass        0.2\n\
             b_test          skip        0.2  no /dev/x\n\
             c_test          pass        0.2  DIFFERS, known: fail\n\
             d_test          fail        0.2  a bug, too\n\
             ioeventfd_test  fail        0.2  vmbell's; DIFFERS, known: pass; not ok 1; exit status 1\n\n\
             2 pass, 1 skip, 2 fail, 0 timeout, 0 crash, 0 unbuilt: 2 differ from what is known\n"
        );
        let text = counts(&[kernel]);
        let row = text.lines().last().unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["2", "1", "2", "0", "0", "0", "2"]);
    }

    #[test]
    fn json_has_each_test_with_what_is_known_of_it() {
        let value: serde_json::Value = serde_json::from_str(&json(&[kernel()]).unwrap()).unwrap();
        let kernel = &value["kernels"][0];
        assert_eq!(kernel["counts"]["differ"], 2);
        let test = &kernel["tests"][2];
        assert_eq!(test["test"], "c_test");
        assert_eq!(test["result"], "pass");
        assert_eq!(test["expected"], "fail");
        assert_eq!(test["known"], false);
        assert_eq!(kernel["tests"][1]["reason"][0], "no /dev/x");
    }
}
