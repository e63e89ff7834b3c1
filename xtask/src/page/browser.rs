//! Chromium without a window, and a page in it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::devtools::Devtools;
use super::view::View;
use crate::debian;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The highest picture that is taken, in pixels.
const HIGHEST: u32 = 6000;

/// A running Chromium, which ends with this value.
#[derive(Debug)]
pub(super) struct Chromium {
    child: Child,
    devtools: Devtools,
    /// Its profile, which is removed after it has ended.
    _profile: TempDir,
}

impl Chromium {
    pub(super) fn start() -> Result<Self> {
        let is_root = debian::is_root();
        let path = match find() {
            Some(path) => path,
            None if is_root => install()?,
            None => {
                bail!("no Chromium: install one, for example by 'sudo apt-get install chromium'")
            }
        };
        let profile = TempDir::new().context("cannot make a folder for Chromium's profile")?;
        let mut command = Command::new(path);
        command
            .args([
                "--headless",
                "--remote-debugging-port=0",
                "--no-first-run",
                "--disable-gpu",
            ])
            // Pictures are the same on each machine.
            .args(["--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        if is_root {
            // Chromium refuses to sandbox what root runs.
            command.arg("--no-sandbox");
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run Chromium")?;
        let devtools = address(&mut child).and_then(|url| Devtools::connect(&url));
        match devtools {
            Ok(devtools) => Ok(Self {
                child,
                devtools,
                _profile: profile,
            }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// Opens a page of the file system.
    pub(super) fn open(&mut self, path: &Path) -> Result<Open<'_>> {
        let url = format!("file://{}", path.display());
        let target =
            self.devtools
                .call(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.devtools.call(None, "Target.attachToTarget", target)?;
        let session = session["sessionId"]
            .as_str()
            .context("Chromium names no session")?;
        let mut open = Open {
            devtools: &mut self.devtools,
            session: session.to_owned(),
            url,
        };
        for domain in ["Page", "Log", "Runtime", "Network"] {
            open.call(&format!("{domain}.enable"), json!({}))?;
        }
        let to = json!({"url": open.url});
        open.call("Page.navigate", to)?;
        open.devtools
            .wait_for(&open.session, "Page.loadEventFired")?;
        Ok(open)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // With its main process all others end.
        let closed = self.devtools.call(None, "Browser.close", json!({}));
        if closed.is_ok() {
            let _ = self.child.wait();
        } else {
            end(&mut self.child);
        }
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// The address that Chromium prints when it is ready. What it prints later is read and thrown away.
fn address(child: &mut Child) -> Result<String> {
    const BEFORE: &str = "DevTools listening on ";
    let stderr = child.stderr.take().context("Chromium has no stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut printed = Vec::new();
    for line in lines.by_ref() {
        let line = line.context("cannot read what Chromium prints")?;
        if let Some(address) = line.strip_prefix(BEFORE) {
            let address = address.to_owned();
            thread::spawn(move || lines.for_each(drop));
            return Ok(address);
        }
        printed.push(line);
    }
    bail!("Chromium ends at once:\n{}", printed.join("\n"))
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_folders = |name: &str| {
        let mut paths = folders.iter().map(|folder| folder.join(name));
        paths.find(|path| path.is_file())
    };
    NAMES.into_iter().find_map(in_folders)
}

/// Installs the distribution's, as root.
fn install() -> Result<PathBuf> {
    debian::install("chromium")?;
    find().context("apt-get installed a chromium that is not on PATH")
}

/// An open page.
#[derive(Debug)]
pub(super) struct Open<'c> {
    devtools: &'c mut Devtools,
    session: String,
    url: String,
}

impl Open<'_> {
    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.devtools.call(Some(&self.session), method, params)
    }

    /// Looks at the page in this way.
    pub(super) fn show(&mut self, view: View) -> Result<()> {
        self.size(view.width, view.height)?;
        let scheme = json!({"name": "prefers-color-scheme", "value": view.scheme});
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"media": view.media, "features": [scheme]}),
        )?;
        Ok(())
    }

    fn size(&mut self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        Ok(())
    }

    /// The text that an expression, or the promise that it is, comes to.
    pub(super) fn ask(&mut self, script: &str) -> Result<String> {
        let script = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", script)?;
        let text = answer["result"]["value"].as_str();
        Ok(text
            .with_context(|| format!("no text but {answer}"))?
            .to_owned())
    }

    /// Presses the Tab key.
    pub(super) fn press_tab(&mut self) -> Result<()> {
        for kind in ["rawKeyDown", "keyUp"] {
            let key =
                json!({"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
            self.call("Input.dispatchKeyEvent", key)?;
        }
        Ok(())
    }

    /// A picture of the whole page.
    pub(super) fn picture(&mut self, view: View) -> Result<Vec<u8>> {
        let height: u32 = self
            .ask("String(document.documentElement.scrollHeight)")?
            .parse()?;
        self.size(view.width, height.clamp(view.height, HIGHEST))?;
        let picture = self.call("Page.captureScreenshot", json!({}))?;
        decoded(&picture)
    }

    /// The page on A4, as PDF.
    pub(super) fn paper(&mut self) -> Result<Vec<u8>> {
        const MARGIN: f64 = 1.0 / 2.54;
        let paper = json!({
            "paperWidth": 8.27, "paperHeight": 11.69,
            "marginTop": MARGIN, "marginBottom": MARGIN, "marginLeft": MARGIN, "marginRight": MARGIN,
        });
        let paper = self.call("Page.printToPDF", paper)?;
        decoded(&paper)
    }

    /// What must not happen while the page is open: requests but that for itself, errors and messages.
    pub(super) fn unexpected(&self) -> Vec<String> {
        let events = self.devtools.events(&self.session);
        let told = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Log.entryAdded" => Some(format!("log: {}", params["entry"]["text"])),
                "Runtime.exceptionThrown" => {
                    Some(format!("exception: {}", params["exceptionDetails"]))
                }
                "Runtime.consoleAPICalled" => Some(format!("console: {}", params["args"])),
                "Network.requestWillBeSent" if params["request"]["url"] != self.url.as_str() => {
                    Some(format!("request: {}", params["request"]["url"]))
                }
                _ => None,
            }
        };
        events.filter_map(told).collect()
    }

    /// Closes the page.
    pub(super) fn close(mut self) -> Result<()> {
        self.call("Page.close", json!({}))?;
        Ok(())
    }
}

fn decoded(answer: &Value) -> Result<Vec<u8>> {
    let data = answer["data"].as_str().context("Chromium sends no data")?;
    Ok(BASE64_STANDARD.decode(data)?)
}
