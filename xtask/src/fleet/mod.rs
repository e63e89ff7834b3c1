//! `cargo xtask fleet`: tests the Prometheus and Grafana files in `deploy/` with the real programs.
//!
//! A Prometheus that has a week of a host's history on a different kernel scrapes a run of `vmbell bench` from the same
//! host through node_exporter. Then the run becomes 1.3 times as slow, and the alert has to fire. Finally, DuckDB
//! queries ten thousand reports.

mod history;
mod reports;
mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use self::server::{TestServer, until};
use crate::{artifacts, cache, debian, release};
use vmbell_lab::apt::Apt;

/// The benchmark: a short one, on the backend that every machine has.
const BENCH: &[&str] = &[
    "bench",
    "portio-wildcard-eventfd",
    "floor-eventfd-write",
    "--backend=usermode",
    "--runs=5",
    "--min-time=5ms",
    "--run-timeout=10m",
    "--quiet",
    "--style=none",
    "--export-openmetrics",
];
/// The row that becomes slower.
const ROW: &str = r#"scenario="portio-wildcard-eventfd",backend="usermode""#;
const FACTOR: f64 = 1.3;
const ALERT: &str = "VmbellRegressionAfterRollout";
/// Shorter intervals for the test than those in `deploy/prometheus/prometheus.yml`.
const INTERVALS: [(&str, &str); 2] = [
    ("scrape_interval: 30s", "scrape_interval: 1s"),
    ("evaluation_interval: 1m", "evaluation_interval: 1s"),
];

/// The distribution's packages with these programs.
const PACKAGES: [&str; 2] = ["prometheus", "prometheus-node-exporter"];

/// Runs the whole test.
pub(crate) fn run() -> Result<()> {
    let tools = tools()?;
    let deploy = artifacts::root().join("deploy");
    let rules = deploy.join("prometheus/vmbell.rules.yml");
    promtool(&tools, &["check", "rules"], &rules)?;
    promtool(
        &tools,
        &["test", "rules"],
        &deploy.join("prometheus/vmbell.rules_test.yml"),
    )?;

    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let textfiles = folder.path().join("textfiles");
    fs::create_dir(&textfiles)?;
    let metrics = textfiles.join("vmbell.prom");
    let vmbell = release::program()?;
    let report = folder.path().join("report.json");
    let status = Command::new(vmbell)
        .args(BENCH)
        .arg(&metrics)
        .arg("--export-json")
        .arg(&report)
        .status();
    let status = status.context("cannot run vmbell")?;
    ensure!(status.success(), "vmbell bench failed: {status}");
    let text = fs::read_to_string(&metrics)?;
    check_metrics(&tools, &text)?;

    let exporter = TestServer::start(
        Command::new(tools.join("prometheus-node-exporter"))
            .args([
                "--collector.disable-defaults",
                "--collector.textfile",
                "--log.level=error",
            ])
            .arg(format!(
                "--collector.textfile.directory={}",
                textfiles.display()
            )),
        "--web.listen-address",
        "/metrics",
    )?;
    let prometheus = prometheus(&tools, folder.path(), &text, &exporter.address)?;
    let measured = until("the run's figure", || {
        first(&prometheus, &format!("vmbell_operation_seconds{{{ROW}}}"))
    })?;
    ensure!(
        text.contains(&format!("}} {measured}\n")),
        "Prometheus says {measured}, which the run does not"
    );
    println!("fleet: Prometheus scrapes a run: {measured} s");
    let alert = format!("ALERTS{{alertname=\"{ALERT}\",alertstate=\"firing\"}}");
    until("a change by the rules", || {
        first(&prometheus, "count(vmbell:run:rollout)")
    })?;
    ensure!(
        prometheus.query(&alert)?.is_empty(),
        "{ALERT} fires without a regression"
    );

    let next = textfiles.join("next");
    fs::write(&next, history::slower(&text, FACTOR)?)?;
    fs::rename(&next, &metrics)?;
    let fired = until("the alert", || Ok(prometheus.query(&alert)?.pop()))?;
    ensure!(
        fired.label("scenario") == "portio-wildcard-eventfd",
        "{ALERT} is about {fired:?}"
    );
    let change = format!("vmbell:operation_seconds:change{{{ROW}}}");
    let change = first(&prometheus, &change)?.context("the change has gone")?;
    ensure!((change - FACTOR).abs() < 0.001, "the change is {change}");
    println!("fleet: {ALERT} fires at {FACTOR} times the time");

    let panels = panels(&prometheus, &deploy.join("grafana/vmbell.json"))?;
    println!("fleet: {panels} queries of the dashboard have samples");
    reports::test(&fs::read_to_string(report)?, folder.path())
}

/// Returns the folder with Prometheus, promtool and node_exporter. The packages (about 23 MB) are downloaded once per
/// user, and unpacked without root.
fn tools() -> Result<PathBuf> {
    let debian::DebianRelease { suite, arch } = debian::release()?;
    let files = cache::entry(&format!("prometheus-{suite}-{}", arch.package), |files| {
        let folder = TempDir::new().context("cannot make a folder for apt")?;
        let package = arch.package;
        let mut apt = Apt::new(folder.path().into(), package, package, "Prometheus", None)?;
        apt.update(|| eprintln!("fleet: no answer from the package sources yet"))?;
        for name in PACKAGES {
            let (name, package) = apt.resolve_alone(package, &[name])?;
            let package = [package];
            apt.download_alone(&name, &package)?;
            apt.unpack(&package[0], files)?;
        }
        Ok(())
    });
    Ok(files.context("cannot fetch Prometheus")?.join("usr/bin"))
}

/// Starts a Prometheus with the rules, the host's history, and a scrape of `exporter`.
fn prometheus(tools: &Path, folder: &Path, text: &str, exporter: &str) -> Result<TestServer> {
    let deploy = artifacts::root().join("deploy/prometheus");
    let mut configuration = fs::read_to_string(deploy.join("prometheus.yml"))?;
    let rules = deploy.join("vmbell.rules.yml");
    let rules = rules
        .to_str()
        .context("the path of the rules is not UTF-8")?;
    let places = [("localhost:9100", exporter), ("vmbell.rules.yml", rules)];
    for (old, new) in INTERVALS.into_iter().chain(places) {
        ensure!(configuration.contains(old), "prometheus.yml has no {old}");
        configuration = configuration.replace(old, new);
    }
    let file = folder.join("prometheus.yml");
    fs::write(&file, configuration)?;
    promtool(tools, &["check", "config"], &file)?;

    let past = folder.join("past");
    fs::write(&past, history::before(text, exporter)?)?;
    let data = folder.join("data");
    let status = Command::new(tools.join("promtool"))
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
        .args([&past, &data])
        .status()
        .context("cannot run promtool")?;
    ensure!(status.success(), "promtool makes no past: {status}");
    TestServer::start(
        Command::new(tools.join("prometheus"))
            .arg("--log.level=error")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg("--storage.tsdb.retention.time=30d"),
        "--web.listen-address",
        "/-/ready",
    )
}

fn promtool(tools: &Path, words: &[&str], file: &Path) -> Result<()> {
    let status = Command::new(tools.join("promtool"))
        .args(words)
        .arg(file)
        .status()
        .context("cannot run promtool")?;
    ensure!(status.success(), "promtool {} failed", words.join(" "));
    Ok(())
}

/// Checks the metrics with `promtool check metrics`, which reads them as node_exporter does.
fn check_metrics(tools: &Path, text: &str) -> Result<()> {
    let mut child = Command::new(tools.join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run promtool")?;
    let mut stdin = child.stdin.take().context("promtool has no input")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    let status = child.wait()?;
    ensure!(status.success(), "promtool check metrics failed: {status}");
    Ok(())
}

/// Returns the value of the first sample.
fn first(prometheus: &TestServer, expression: &str) -> Result<Option<f64>> {
    let samples = prometheus.query(expression)?;
    Ok(samples.first().map(|sample| sample.value))
}

/// Runs every query of the dashboard, and returns their number.
fn panels(prometheus: &TestServer, dashboard: &Path) -> Result<usize> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard)?)?;
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().context("no targets")? {
            let expression = target["expr"].as_str().context("no query")?;
            let mut query = expression.to_owned();
            for variable in ["$instance", "$backend", "$scenario"] {
                query = query.replace(variable, ".*");
            }
            ensure!(
                !prometheus.query(&query)?.is_empty(),
                "'{expression}' of the dashboard has no samples"
            );
            asked += 1;
        }
    }
    ensure!(asked > 0, "the dashboard asks nothing");
    Ok(asked)
}
