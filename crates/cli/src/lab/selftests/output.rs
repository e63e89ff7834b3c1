//! The results of the selftests as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::output::text::cleaned;
use vmbell_lab::selftests::{Known, Ran, Suite, Verdict};
use vmbell_report::{pad, shortened, width};

/// The widest reason in the table; `--json` has all of it.
const WIDTH: usize = 100;

/// The results of one kernel.
#[derive(Debug, Serialize)]
pub(super) struct Kernel {
    /// The kernel and its KVM.
    kernel: String,
    /// The release of the kernel whose tests these are.
    tests_of: String,
    /// How the list of known results names it.
    known_as: String,
    counts: Counts,
    tests: Vec<Test>,
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
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
struct Test {
    #[serde(flatten)]
    ran: Ran,
    /// Whether the result is the known one.
    known: bool,
    /// The known result, and its cause if it is not a pass.
    expected: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl Kernel {
    /// Compares what ran with the known results of the kernel `name`.
    pub(super) fn new(title: &str, tests_of: &str, name: &str, known: &Known, ran: &[Ran]) -> Self {
        let test = |ran: &Ran| {
            let entry = known.of(name, &ran.test);
            Test {
                known: known.agrees(name, &ran.test, ran.result),
                expected: entry.map_or(Verdict::Pass, |entry| entry.result),
                cause: entry.map(|entry| entry.cause.clone()),
                ran: ran.clone(),
            }
        };
        let tests: Vec<Test> = ran.iter().map(test).collect();
        let mut counts = Counts::default();
        for test in &tests {
            *match test.ran.result {
                Verdict::Pass => &mut counts.pass,
                Verdict::Skip => &mut counts.skip,
                Verdict::Fail => &mut counts.fail,
                Verdict::Timeout => &mut counts.timeout,
                Verdict::Crash => &mut counts.crash,
                Verdict::Unbuilt => &mut counts.unbuilt,
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

impl Counts {
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
pub(super) fn table(kernel: &Kernel) -> String {
    let width = kernel.tests.iter().map(|test| test.ran.test.len()).max();
    let width = width.unwrap_or_default().max("test".len());
    let mut text = format!(
        "{}, selftests of Linux {}\n\n{:width$}  result        s\n",
        kernel.kernel, kernel.tests_of, "test"
    );
    for test in &kernel.tests {
        let Ran {
            test: name,
            result,
            seconds,
            reason,
        } = &test.ran;
        let own = if Suite::is_own(name) { "vmbell's" } else { "" };
        let reason = shortened(&cleaned(&reason.join("; ")), WIDTH);
        let remarks = match &test.cause {
            _ if !test.known => vec![format!("DIFFERS, known: {}", test.expected), reason],
            // A test that is skipped says why itself.
            Some(cause) if !matches!(result, Verdict::Skip | Verdict::Pass) => vec![cause.clone()],
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
pub(super) fn counts(kernels: &[Kernel]) -> String {
    let widest = kernels.iter().map(|kernel| width(&kernel.kernel)).max();
    let widest = widest.unwrap_or_default();
    let mut text = format!("\n{:widest$}", "kernel");
    for (word, _) in Counts::default().columns() {
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
pub(super) fn json(kernels: &[Kernel]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct All<'a> {
        kernels: &'a [Kernel],
    }
    Ok(serde_json::to_string_pretty(&All { kernels })? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        let list =
            "6.12 b_test skip no device\n6.12 c_test fail a bug\n6.12 d_test fail a bug, too\n";
        let known = Known::parse(list).unwrap();
        let ran = |test: &str, result, reason: &[&str]| Ran {
            test: test.to_owned(),
            result,
            reason: reason.iter().map(|line| (*line).to_owned()).collect(),
            seconds: 0.25,
        };
        let ran = [
            ran("a_test", Verdict::Pass, &[]),
            ran("b_test", Verdict::Skip, &["no /dev/x"]),
            ran("c_test", Verdict::Pass, &[]),
            ran("d_test", Verdict::Fail, &["a.c:7: x"]),
            ran(
                "ioeventfd_test",
                Verdict::Fail,
                &["not ok 1", "exit status 1"],
            ),
        ];
        Kernel::new("Linux 6.12.1", "6.12.1", "6.12", &known, &ran)
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
