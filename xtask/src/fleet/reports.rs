//! Makes ten thousand reports from a real one, and runs the query in docs/fleet.md on them with DuckDB.
//!
//! Some hosts are slow, and half of the hosts have a slower kernel: the query has to find both. DuckDB comes from PyPI;
//! pip installs it once into the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::{artifacts, cache};
use vmbell_report::Report;
use vmbell_statistics::Random;

const VERSION: &str = "2.0.0";
/// Prints the ABI tag of Python's binary modules, which contains its version and the machine's architecture.
const ABI: &str = "import sysconfig; print(sysconfig.get_config_var('SOABI'))";
const REPORTS: usize = 10_000;
/// The slow hosts, slowest first, and the factor by which they are slower.
const SLOW: [(usize, f64); 3] = [(7_001, 2.0), (123, 1.8), (4_567, 1.6)];
/// The kernels, assigned to hosts in turn, with the factor of each.
const KERNELS: [(&str, f64); 2] = [("Linux 6.18.0", 1.0), ("Linux 6.19.0", 1.1)];
/// By how much hosts vary, in either direction.
const SCATTER: f64 = 0.02;
/// Prints the lines of the query as JSON, without the progress bar that DuckDB draws on stdout.
const SCRIPT: &str = "import duckdb, json, sys; duckdb.sql('SET enable_progress_bar = false'); \
    print(json.dumps(duckdb.sql(sys.stdin.read()).fetchall()))";

/// A line of the query's answer: the kind of series, its name, the number of hosts, and the factor of their cost.
type SeriesLine = (String, String, u64, f64);

/// Makes the reports in `folder` from `report`, and checks what the query finds.
pub(super) fn test(report: &str, folder: &Path) -> Result<()> {
    let report = vmbell_report::parse(report).context("cannot read the run's report")?;
    fs::create_dir(folder.join("reports"))?;
    let mut random = Random::new(1);
    for host in 0..REPORTS {
        let text = vmbell_report::json(&of_host(&report, host, &mut random));
        fs::write(folder.join(format!("reports/host-{host:05}.json")), text)?;
    }
    let begun = Instant::now();
    let lines = ask(folder)?;
    let took = begun.elapsed();
    let found: Vec<&SeriesLine> = lines.iter().filter(|line| line.0 == "host").collect();
    for (line, (host, factor)) in found.iter().zip(SLOW) {
        let name = format!("host-{host:05}");
        ensure!(
            line.1 == name && (line.3 / factor - 1.0).abs() < 2.0 * SCATTER,
            "the query says {line:?}, and {name} is the slow one, by {factor}"
        );
    }
    ensure!(
        found.len() == 10,
        "the query names {} hosts, and not 10",
        found.len()
    );
    let cost = |kernel: &str| {
        let named = |line: &&SeriesLine| line.0 == "kernel" && line.1.ends_with(kernel);
        let line = lines.iter().find(named);
        line.map(|line| line.3)
            .with_context(|| format!("the query says nothing of {kernel}"))
    };
    let drift = cost(KERNELS[1].0)? / cost(KERNELS[0].0)?;
    ensure!(
        (drift / KERNELS[1].1 - 1.0).abs() < 0.01,
        "the drift is {drift}"
    );
    println!("fleet: DuckDB finds the slow hosts and kernel among {REPORTS} reports in {took:.1?}");
    Ok(())
}

/// Makes the report of one host.
#[allow(clippy::cast_precision_loss, reason = "a number below 1000")]
fn of_host(report: &Report, host: usize, random: &mut Random) -> Report {
    let mut report = report.clone();
    let (kernel, factor) = KERNELS[host % KERNELS.len()];
    kernel.clone_into(&mut report.host.kernel);
    let slow = SLOW.iter().find(|(slow, _)| *slow == host);
    let factor = factor * slow.map_or(1.0, |(_, factor)| *factor);
    for row in &mut report.results {
        let scatter = 1.0 + SCATTER * (random.below(1001) as f64 / 500.0 - 1.0);
        if let Some(measured) = row.measured_mut() {
            measured.times.median *= factor * scatter;
            measured.times.spread = Some(SCATTER);
        }
    }
    report
}

/// Returns the answer of the query in docs/fleet.md, run in `folder`.
fn ask(folder: &Path) -> Result<Vec<SeriesLine>> {
    let docs = fs::read_to_string(artifacts::root().join("docs/fleet.md"))?;
    let query = docs
        .split_once("```sql\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (query, _) = query.context("docs/fleet.md has no query")?;
    fs::write(folder.join("query.sql"), query)?;
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .env("PYTHONPATH", duckdb()?)
        .stdin(fs::File::open(folder.join("query.sql"))?)
        .current_dir(folder)
        .output()
        .context("cannot run python3")?;
    ensure!(
        output.status.success(),
        "DuckDB does not run the query of docs/fleet.md: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("cannot read what the query answers")
}

/// Returns the folder with DuckDB for Python.
fn duckdb() -> Result<PathBuf> {
    let abi = Command::new("python3")
        .args(["-c", ABI])
        .output()
        .context("cannot run python3, which the query of docs/fleet.md is tried with")?;
    let abi = String::from_utf8_lossy(&abi.stdout);
    let name = format!("duckdb-{VERSION}-{}", abi.trim());
    cache::entry(&name, |folder| {
        let status = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"])
            .arg(folder)
            .arg(format!("duckdb=={VERSION}"))
            .status()
            .context("cannot run python3")?;
        ensure!(
            status.success(),
            "pip cannot install duckdb {VERSION}: it needs python3 with pip, and PyPI or a mirror of it"
        );
        Ok(())
    })
}
