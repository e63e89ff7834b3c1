//! The boots in which the tests run. A second thread reads the tests' output while L1 runs, to find out which test
//! ended L1.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use indicatif::ProgressBar;

use vmbell::sync::Mutex;
use vmbell_lab::boot::Settings;
use vmbell_lab::selftests::{Built, TestEvent, TestRun, TestVerdict};
use vmbell_lab::{Lab, LabFailure, LabTask};

/// Time for the lab's own work, in addition to the tests' limits.
const MARGIN: Duration = Duration::from_secs(60);
/// How often a test may end L1 before that is its result: QEMU's emulation can also fail without the test's fault.
const CRASHES: u32 = 2;
/// Lines of L1's console that are kept after a crash.
const CONSOLE: usize = 6;
/// Words in the console lines that explain a crash.
const MARKS: [&str; 4] = ["BUG", "Oops", "RIP: 0010", "Kernel panic"];

/// L1's output, while it runs.
#[derive(Clone, Debug)]
struct HeardTests {
    lines: Arc<Mutex<HeardLines>>,
    bar: ProgressBar,
}

#[derive(Debug, Default)]
struct HeardLines {
    partial: Vec<u8>,
    begun: Option<String>,
    ended: Vec<TestRun>,
}

impl Write for HeardTests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.lock();
        lines.partial.extend_from_slice(bytes);
        while let Some(end) = lines.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = lines.partial.drain(..=end).collect();
            match serde_json::from_slice(&line)? {
                TestEvent::Begun(test) => {
                    self.bar.set_message(test.clone());
                    lines.begun = Some(test);
                }
                TestEvent::Ended(ran) => {
                    self.bar.inc(1);
                    lines.begun = None;
                    lines.ended.push(ran);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs tests in as many boots as needed: a test that ends L1 is tried again, and the other tests go on in another
/// boot.
#[derive(Debug)]
pub(super) struct SelftestRunner<'a> {
    lab: &'a Lab,
    settings: Settings,
    limit: Duration,
    bar: ProgressBar,
    results: Vec<TestRun>,
}

impl<'a> SelftestRunner<'a> {
    pub(super) fn new(lab: &'a Lab, settings: Settings, limit: Duration, bar: ProgressBar) -> Self {
        Self {
            lab,
            settings,
            limit,
            bar,
            results: Vec::new(),
        }
    }

    /// The results in the order of the tests.
    pub(super) fn run(mut self, built: &[Built]) -> anyhow::Result<Vec<TestRun>> {
        let mut left = Vec::new();
        for test in built {
            match &test.program {
                Ok(program) => left.push((test.test.as_str(), program.as_path())),
                Err(said) => self.end(&test.test, TestVerdict::Unbuilt, said.clone()),
            }
        }
        let mut crashes: BTreeMap<String, u32> = BTreeMap::new();
        while !left.is_empty() {
            let crash = self.boot(&left)?;
            if let Some((test, console)) = crash {
                let times = crashes.entry(test.clone()).or_default();
                *times += 1;
                if *times == CRASHES {
                    self.end(&test, TestVerdict::Crash, console);
                } else {
                    let progress = self.lab.progress;
                    progress.say(format_args!("L1 ended with {test}, which runs once more"));
                }
            }
            left.retain(|(test, _)| !self.results.iter().any(|ran| ran.test == *test));
        }
        self.bar.finish_and_clear();
        let place = |ran: &TestRun| built.iter().position(|test| test.test == ran.test);
        self.results.sort_by_key(place);
        Ok(self.results)
    }

    fn end(&mut self, test: &str, result: TestVerdict, reason: Vec<String>) {
        self.bar.inc(1);
        self.results.push(TestRun {
            test: test.to_owned(),
            result,
            reason,
            seconds: 0.0,
        });
    }

    /// Boots L1 with these tests. Returns the test that ended L1, with the console's last lines.
    fn boot(&mut self, tests: &[(&str, &Path)]) -> anyhow::Result<Option<(String, Vec<String>)>> {
        let heard = HeardTests {
            lines: Arc::default(),
            bar: self.bar.clone(),
        };
        let count = u32::try_from(tests.len()).unwrap_or(u32::MAX);
        self.settings.limits.program = self.limit.saturating_mul(count) + MARGIN;
        let task = self.task(tests);
        let result = self.lab.run_once(&task, &self.settings, heard.clone());
        let mut lines = heard.lines.lock();
        let begun = lines.begun.take();
        let any = begun.is_some() || !lines.ended.is_empty();
        self.results.append(&mut lines.ended);
        let error = match result {
            Ok(outcome) if outcome.ending.status() == 0 => return Ok(None),
            Ok(outcome) => bail!("the tests ended with {:?}", outcome.ending),
            Err(error) => error,
        };
        match (error.kind(), begun) {
            (LabFailure::Other, _) => Err(error.into()),
            (_, Some(test)) => Ok(Some((test, marks(&error.to_string())))),
            // L1 crashed after a test had ended.
            (LabFailure::Crash(_), None) if any => Ok(None),
            _ => Err(error.into()),
        }
    }

    fn task(&self, tests: &[(&str, &Path)]) -> LabTask {
        let inside = |(test, _): &(&str, &Path)| Path::new("/selftests").join(test);
        let limit = self.limit.as_secs_f64().ceil().to_string();
        let words = ["lab", "run-selftests", "--limit", &limit, "--"];
        let programs = tests.iter().map(inside);
        LabTask {
            program: self.lab.init.clone().into(),
            arguments: words
                .map(Into::into)
                .into_iter()
                .chain(programs.map(Into::into))
                .collect(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            directory: "/tmp".into(),
            with: tests
                .iter()
                .map(|test| (test.1.to_owned(), inside(test)))
                .collect(),
            ..LabTask::default()
        }
    }
}

/// The console lines that explain a crash, otherwise the last lines.
fn marks(console: &str) -> Vec<String> {
    let lines: Vec<&str> = console.lines().map(plain).collect();
    let says = |line: &&&str| MARKS.iter().any(|mark| line.contains(mark));
    let said: Vec<&str> = lines.iter().filter(says).copied().take(CONSOLE).collect();
    let said = match said.is_empty() {
        false => said,
        true => lines[lines.len().saturating_sub(CONSOLE)..].to_vec(),
    };
    let filled = said.into_iter().filter(|line| !line.is_empty());
    filled.map(str::to_owned).collect()
}

/// A console line without its timestamp.
fn plain(line: &str) -> &str {
    let text = line.trim_start_matches([' ', '|']);
    let after = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    after.map_or(text, |(_, rest)| rest).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_l1_prints_is_read_in_pieces_of_any_length() {
        let mut heard = HeardTests {
            lines: Arc::default(),
            bar: ProgressBar::hidden(),
        };
        let text = b"{\"begun\":\"a\"}\n{\"ended\":{\"test\":\"a\",\"result\":\"pass\",\"seconds\":1.5}}\n{\"begun\":\"b\"}\n";
        for piece in text.chunks(7) {
            heard.write_all(piece).unwrap();
        }
        let lines = heard.lines.lock();
        assert_eq!(lines.begun.as_deref(), Some("b"));
        assert_eq!(lines.ended.len(), 1);
        assert_eq!(lines.ended[0].result, TestVerdict::Pass);
        drop(lines);
        heard.write_all(b"no event\n").unwrap_err();
    }

    #[test]
    fn a_crash_is_told_by_the_lines_that_name_it() {
        let console = "L1's kernel panicked; its console ends with:\n\
                       \x20 | [   12.24] kernel BUG at virt/kvm/eventfd.c:860!\n\
                       \x20 | [   12.25] RIP: 0010:ioeventfd_write+0x9/0x10 [kvm]\n\
                       \x20 | [   12.26] R13: ffff888007c10000\n\
                       \x20 | [   12.27] Kernel panic - not syncing: Fatal exception\n";
        let said = [
            "kernel BUG at virt/kvm/eventfd.c:860!",
            "RIP: 0010:ioeventfd_write+0x9/0x10 [kvm]",
            "Kernel panic - not syncing: Fatal exception",
        ];
        assert_eq!(marks(console), said);
        assert_eq!(marks("a\nb\n"), ["a", "b"]);
    }
}
