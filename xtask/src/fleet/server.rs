//! A server in the test: a child process that is killed at the end, and HTTP requests to it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The time limit for a server to start, and for its answer to become right.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub(super) struct TestServer {
    child: Child,
    pub(super) address: String,
}

impl TestServer {
    /// Starts `command`, which listens on the address in `option`, and waits until it answers.
    pub(super) fn start(command: &mut Command, option: &str, ready: &str) -> Result<Self> {
        let address = free_address()?;
        let child = command
            .arg(format!("{option}={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let mut server = Self { child, address };
        until(&format!("an answer of {ready}"), || {
            if let Some(status) = server.child.try_wait().context("cannot ask for a child")? {
                bail!("the server ended: {status}");
            }
            Ok(server.get(ready, &[]).ok().map(drop))
        })?;
        Ok(server)
    }

    /// Returns the current result of a PromQL query: the samples with their labels.
    pub(super) fn query(&self, expression: &str) -> Result<Vec<ScrapedSample>> {
        let text = self.get("/api/v1/query", &[("query", expression)])?;
        let answer: Value = serde_json::from_str(&text).context("an answer is not JSON")?;
        ensure!(
            answer["status"] == "success",
            "'{expression}' is refused: {text}"
        );
        let samples = answer["data"]["result"]
            .as_array()
            .with_context(|| format!("'{expression}' gives no vector: {text}"))?;
        samples.iter().map(ScrapedSample::of).collect()
    }

    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<String> {
        let mut request =
            minreq::get(format!("http://{}{path}", self.address)).with_timeout(PATIENCE.as_secs());
        for (name, value) in parameters {
            request = request.with_param(*name, *value);
        }
        let answer = request
            .send()
            .with_context(|| format!("cannot ask for {path}"))?;
        let text = answer.as_str().context("an answer is not UTF-8")?;
        ensure!(answer.status_code == 200, "{path} is refused: {text}");
        Ok(text.to_owned())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sample of a vector.
#[derive(Debug)]
pub(super) struct ScrapedSample {
    labels: Value,
    pub(super) value: f64,
}

impl ScrapedSample {
    fn of(sample: &Value) -> Result<Self> {
        let value = sample["value"][1]
            .as_str()
            .context("a sample has no value")?;
        Ok(Self {
            labels: sample["metric"].clone(),
            value: value.parse().context("a sample is not a number")?,
        })
    }

    /// Returns a label's value; empty if the sample has no label of this name.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels[name].as_str().unwrap_or_default()
    }
}

/// Calls `ask` until there is an answer.
pub(super) fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "there was not {what} within {} s",
            PATIENCE.as_secs()
        );
        sleep(Duration::from_millis(200));
    }
}

fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
    Ok(listener.local_addr()?.to_string())
}
