//! The results of the selftests as a table and as JSON.

use serde::Serialize;

use crate::output::text::cleaned;
use vmbell_lab::selftests::{KnownResults, SelftestSuite, TestRun, TestVerdict};
use vmbell_report::{Block, Cell, Column, Table, shortened};

/// The widest reason in the table. `--json` has the whole text.
const WIDTH: usize = 100;

/// The results of one kernel.
#[derive(Debug, Serialize)]
pub(super) struct KernelResults {
    /// The kernel and its KVM.
    kernel: String,
    /// The release of the kernel that the tests come from.
    tests_of: String,
    /// The kernel's name in the list of known results.
    known_as: String,
    counts: VerdictCounts,
    tests: Vec<TestResults>,
}

/// The number of tests by result.
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

    /// Whether every test has its known result.
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

/// The results of one kernel: a row for each test, and the number of tests by result.
pub(super) fn blocks(kernel: &KernelResults) -> Vec<Block> {
    let title = format!("{}, selftests of Linux {}", kernel.kernel, kernel.tests_of);
    let tests = kernel.tests.iter();
    let mut table = Table::new("test", tests.clone().map(|test| &test.ran.test));
    let mut add = |column, cell: fn(&TestResults) -> String| {
        table.add(
            column,
            tests.clone().map(|test| Some(Cell::from(cell(test)))),
        );
    };
    add(Column::words("result"), |test| test.ran.result.to_string());
    add(Column::numbers("s"), |test| {
        format!("{:.1}", test.ran.seconds)
    });
    add(Column::words("remarks"), remarks);
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
    let counts = format!("{}: {verdict}", words.join(", "));
    vec![Block::text(title), Block::Table(table), Block::text(counts)]
}

/// Whose test it is, whether its result differs, and the cause.
fn remarks(test: &TestResults) -> String {
    let TestRun {
        test: name,
        result,
        reason,
        ..
    } = &test.ran;
    let own = SelftestSuite::is_own(name).then(|| "vmbell's".to_owned());
    let reason = shortened(&cleaned(&reason.join("; ")), WIDTH);
    let differs = (!test.known).then(|| format!("DIFFERS, known: {}", test.expected));
    let why = match &test.cause {
        // A skipped test prints its own reason.
        Some(cause) if test.known && !matches!(result, TestVerdict::Skip | TestVerdict::Pass) => {
            cause.clone()
        }
        _ => reason,
    };
    let why = Some(why).filter(|why| !why.is_empty());
    let remarks: Vec<String> = [own, differs, why].into_iter().flatten().collect();
    remarks.join("; ")
}

/// The counts of several kernels.
pub(super) fn counts(kernels: &[KernelResults]) -> Block {
    let mut table = Table::new("kernel", kernels.iter().map(|kernel| &kernel.kernel));
    for (place, (word, _)) in VerdictCounts::default().columns().into_iter().enumerate() {
        let counts = kernels
            .iter()
            .map(|kernel| kernel.counts.columns()[place].1);
        let cells = counts.map(|count| Some(Cell::from(count.to_string())));
        table.add(Column::numbers(word), cells);
    }
    Block::Table(table)
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
    use vmbell_report::{Screen, terminal};

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
            terminal(&blocks(&kernel), Screen::default()),
            "Linux 6.12.1, selftests of Linux 6.12.1\n\n\
             test            result    s  remarks\n\
             a_test          pass    0.2\n\
             b_test          skip    0.2  no /dev/x\n\
             c_test          pass    0.2  DIFFERS, known: fail\n\
             d_test          fail    0.2  a bug, too\n\
             ioeventfd_test  fail    0.2  vmbell's; DIFFERS, known: pass; not ok 1; exit status 1\n\n\
             2 pass, 1 skip, 2 fail, 0 timeout, 0 crash, 0 unbuilt: 2 differ from what is known\n"
        );
        let text = terminal(&[counts(&[kernel])], Screen::default());
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
