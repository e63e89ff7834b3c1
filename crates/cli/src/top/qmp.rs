//! Names of a QEMU's memory regions, which its QMP socket tells: `info mtree -f`.
//!
//! QEMU is asked once. What it answers is not trusted: its length and the time are limited, and names are shortened.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use vmbell_top::model::Space;
use vmbell_top::names::Region;

/// How long an answer may be.
const LIMIT: u64 = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A QEMU and its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Qmp {
    pub(super) pid: u32,
    socket: PathBuf,
}

impl FromStr for Qmp {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('=');
        let parts = parts.and_then(|(pid, socket)| Some((pid.parse().ok()?, socket)));
        match parts {
            Some((pid, socket)) if pid > 0 && !socket.is_empty() => Ok(Self {
                pid,
                socket: socket.into(),
            }),
            _ => Err("expected PID=SOCKET"),
        }
    }
}

impl Qmp {
    /// Asks for the regions.
    pub(super) fn regions(&self) -> Result<Vec<Region>> {
        let socket = &self.socket;
        let answer = ask(socket).with_context(|| format!("--qmp: {}", socket.display()))?;
        let regions = regions(&answer);
        if regions.is_empty() {
            bail!("--qmp: {}: QEMU names no memory regions", socket.display());
        }
        Ok(regions)
    }
}

fn ask(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(LIMIT)).lines();
    let mut answer = |command: Value| -> Result<Value> {
        stream.write_all(format!("{command}\n").as_bytes())?;
        for line in &mut lines {
            let mut line: Value = serde_json::from_str(&line?).context("it is not QMP")?;
            if let Some(error) = line["error"]["desc"].as_str() {
                bail!("QEMU refuses: {error}");
            }
            // The greeting and events have none.
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
        }
        bail!("QEMU closed the socket");
    };
    answer(json!({"execute": "qmp_capabilities"}))?;
    let tree = json!({"command-line": "info mtree -f"});
    let tree = answer(json!({"execute": "human-monitor-command", "arguments": tree}))?;
    let tree = tree.as_str().context("it is not QMP")?;
    Ok(tree.to_owned())
}

/// The regions of devices in the address spaces of memory and ports.
fn regions(tree: &str) -> Vec<Region> {
    let mut space = None;
    let mut regions = Vec::new();
    for line in tree.lines().map(str::trim) {
        if line.starts_with("FlatView") {
            space = None;
        } else if line.starts_with("AS \"memory\"") {
            space = Some(Space::Mmio);
        } else if line.starts_with("AS \"I/O\"") {
            space = Some(Space::Port);
        } else if let (Some(space), Some(region)) = (space, region(line)) {
            let (from, to, name) = region;
            regions.push(Region::new(space, from..=to, name));
        }
    }
    regions
}

/// `00000000febf1000-00000000febf1fff (prio 0, i/o): virtio-pci-notify @0000000000003000`.
fn region(line: &str) -> Option<(u64, u64, &str)> {
    let (range, rest) = line.split_once(" (")?;
    let (kind, name) = rest.split_once("): ")?;
    if !kind.ends_with("i/o") {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let name = name.split_once(" @").map_or(name, |(name, _)| name);
    Some((number(from)?, number(to)?, name))
}

#[cfg(test)]
#[path = "qmp_test.rs"]
mod tests;
