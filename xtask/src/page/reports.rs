//! The pages that are tested, made from real runs and from reports derived from one run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::recording;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vmbell_report::{
    Backend, Exits, Kind, Outcome, Report, Row, Status, Timing, Vmm, parse, visible,
};

/// A short run of every row, on the backend that every machine has.
const ALL: &[&str] = &["--all", "--runs=5"];
/// A short run of rows with additional doorbells registered.
const SCAN: &[&str] = &[
    "portio-*",
    "hypercall-*",
    "--runs=5",
    "--doorbells=1,10,100,1000",
];
const SHORT: &[&str] = &[
    "--backend=usermode",
    "--min-time=2ms",
    "--run-timeout=2m",
    "--quiet",
    "--style=none",
    "--export-json",
];

/// A name that must have no effect on a page.
pub(super) const HOSTILE: &str = "<img src=http://example.org/x onerror=alert(1)>\"'&amp;<script>alert(2)</script>\u{1b}[31m\u{202e}";

/// Writes all pages, and `pages.json` with each page's name and, for each row whose numbers are drawn, the number of
/// columns with this row.
pub(super) fn write(vmbell: &Path, folder: &Path) -> Result<()> {
    let maker = Maker { vmbell, folder };
    let all = maker.measure("all", ALL)?;
    let again = maker.measure("again", ALL)?;
    let scan = maker.measure("scan", SCAN)?;
    let mut emulated = wide(&all);
    emulated.timing = Timing::Emulated;
    let pages = [
        maker.page("bench", std::slice::from_ref(&all))?,
        maker.page("runs", &[backends(&all), backends(&again)])?,
        maker.page("scan", &[scan])?,
        maker.page("vmm", &[vmms(&all)])?,
        maker.page("hostile", &[hostile(&all), hostile(&vmms(&all))])?,
        maker.page("emulated", &[emulated])?,
        maker.recorded()?,
    ];
    fs::write(
        folder.join("pages.json"),
        Value::from(pages.to_vec()).to_string(),
    )?;
    Ok(())
}

struct Maker<'a> {
    vmbell: &'a Path,
    folder: &'a Path,
}

impl Maker<'_> {
    fn measure(&self, name: &str, what: &[&str]) -> Result<Report> {
        let path = self.folder.join(format!("{name}.json"));
        let mut command = Command::new(self.vmbell);
        command.arg("bench").args(what).args(SHORT).arg(&path);
        let status = command.status().context("cannot run vmbell")?;
        ensure!(status.success(), "vmbell bench failed: {status}");
        Ok(parse(&fs::read_to_string(&path)?)?)
    }

    /// Makes the page of these reports with the command.
    fn page(&self, name: &str, reports: &[Report]) -> Result<Value> {
        let mut files = Vec::new();
        for (place, report) in reports.iter().enumerate() {
            let file = format!("{name}-{place}.json");
            fs::write(self.folder.join(&file), vmbell_report::json(report))?;
            files.push(file);
        }
        self.write(name, &files)?;
        Ok(json!({"name": name, "dots": dots(reports)}))
    }

    /// Makes the page of a recording, which has no dots.
    fn recorded(&self) -> Result<Value> {
        let file = "recorded.jsonl";
        fs::write(self.folder.join(file), recording::text())?;
        self.write("recorded", &[file.to_owned()])?;
        Ok(json!({"name": "recorded", "dots": {}}))
    }

    fn write(&self, name: &str, files: &[String]) -> Result<()> {
        let mut command = Command::new(self.vmbell);
        command
            .current_dir(self.folder)
            .arg("report")
            .arg("--output")
            .arg(self.folder.join(format!("{name}.html")))
            .args(files);
        let output = command.output().context("cannot run vmbell")?;
        ensure!(
            output.status.success(),
            "vmbell report failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// Counts the dots of each name: one for each row whose numbers are of the same kind as the first report's.
fn dots(reports: &[Report]) -> BTreeMap<String, usize> {
    let mut dots = BTreeMap::new();
    let timing = reports.first().map(|report| report.timing);
    for report in reports {
        let is_drawn = |row: &&Row| {
            let is_emulated = report
                .vmms()
                .iter()
                .any(|vmm| vmm.name == row.backend && vmm.emulated);
            row.median().is_some_and(|ns| ns > 0.0) && !is_emulated
        };
        let of_report = report.timing;
        if of_report == Timing::Emulated || Some(of_report) != timing {
            continue;
        }
        for row in report.results.iter().filter(is_drawn) {
            // The page shows names with control characters escaped.
            let name = visible(&row.command);
            *dots.entry(name).or_default() += 1;
        }
    }
    dots
}

/// Returns the report as if a second backend had measured the same rows, but could not measure all of them.
fn backends(report: &Report) -> Report {
    let mut two = report.clone();
    let backend = |name: &str, emulates_kernel_mode| Backend {
        name: name.to_owned(),
        why: "made from a report".to_owned(),
        emulates_kernel_mode,
    };
    two.backends = vec![backend("usermode", false), backend("kvm", true)];
    let guests = report
        .results
        .iter()
        .filter(|row| row.backend == "usermode");
    two.results.extend(guests.enumerate().map(|(place, row)| {
        let row = Row {
            backend: "kvm".to_owned(),
            ..row.clone()
        };
        if place % 7 == 6 { failed(row) } else { row }
    }));
    two
}

/// Returns the report with numbers as wide as a noisy machine makes them.
fn wide(report: &Report) -> Report {
    let mut wide = report.clone();
    for measured in wide.results.iter_mut().filter_map(Row::measured_mut) {
        measured.times.spread = Some(12.345);
        measured.memory = Some(123_456);
        if let Some(ratio) = &mut measured.ratio {
            ratio.value = 123_456.0;
            ratio.ci_low = Some(98_765.0);
            ratio.ci_high = Some(1_234_567.0);
        }
    }
    wide
}

fn failed(row: Row) -> Row {
    Row {
        outcome: Outcome::Failed {
            reason: Some("made to fail".to_owned()),
        },
        ..row
    }
}

/// Returns the report as if VMMs had measured its rows, one of them on an emulated CPU.
fn vmms(report: &Report) -> Report {
    const NAMES: [(&str, f64, bool); 4] = [
        ("qemu-pc", 1.0, false),
        ("qemu-microvm", 0.9, false),
        ("alioth", 0.8, false),
        ("tcg", 40.0, true),
    ];
    let mut all = report.clone();
    all.results.clear();
    all.backends.clear();
    all.kind = Kind::Vmms {
        vmms: NAMES.map(|(name, _, emulated)| vmm(name, emulated)).into(),
    };
    for (name, factor, emulated) in NAMES {
        all.backends.push(Backend {
            name: name.to_owned(),
            ..Backend::default()
        });
        // The number of rows in the guest image.
        let rows = report.results.iter();
        let guests = rows.filter(|row| row.backend == "usermode").take(24);
        let of_vmm = |row: &Row| {
            let mut row = row.clone();
            row.backend = name.to_owned();
            row.timing_valid = !emulated;
            if let Some(measured) = row.measured_mut() {
                measured.times.median *= factor;
                let more = |count: f64| count + f64::from(u8::from(emulated));
                measured.exits = measured.exits.map(|exits| Exits {
                    total: exits.total.map(more),
                    userspace: exits.userspace.map(more),
                });
                measured.exit_reasons = Some(vmbell_report::ExitReasons {
                    kvm_exit: [
                        ("IO_INSTRUCTION".to_owned(), 1.0),
                        ("EXTERNAL_INTERRUPT".to_owned(), 0.01),
                    ]
                    .into(),
                    kvm_userspace_exit: [("KVM_EXIT_IO".to_owned(), 1.0)].into(),
                });
            }
            row
        };
        all.results.extend(guests.map(of_vmm));
    }
    all
}

fn vmm(name: &str, emulated: bool) -> Vmm {
    Vmm {
        name: name.to_owned(),
        status: Status::Ok,
        reason: None,
        last_output: None,
        program: None,
        version: Some(format!("{name} 1.0")),
        boots: 2,
        emulated,
        guest: None,
        repeated: None,
        exits_reason: None,
    }
}

/// Returns the report with markup, quotes, control characters and long words in all its texts.
fn hostile(report: &Report) -> Report {
    let mut report = report.clone();
    report.results.truncate(12);
    let long = "incomprehensibilities".repeat(8);
    for row in &mut report.results {
        row.command = format!("{HOSTILE}{}", row.command);
        row.note = Some(format!("{HOSTILE}{long}"));
    }
    report.host.cpu = format!("{HOSTILE}{long}");
    report.host.kernel = HOSTILE.to_owned();
    report.started = HOSTILE.to_owned();
    if let Kind::Paths(paths) = &mut report.kind {
        paths.spin = HOSTILE.to_owned();
    }
    report
}
