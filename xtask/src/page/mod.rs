//! `cargo xtask page`: tests the page of `vmbell report` in a real browser.
//!
//! Playwright loads pages in Chromium, in a wide window and on a phone, light, dark and on paper. The pages show a run
//! that was just measured; reports made from it with hostile names, VMMs and other kinds of timing; and a recording of
//! `vmbell top`. `check.mjs` checks that each page draws every row, sends no request, reports no error, and passes
//! axe-core. Screenshots are left in `target/page/`.

mod recording;
mod reports;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{artifacts, cache, debian, release};

/// The npm packages, fetched once per user: the driver of the browser, and the accessibility checker.
const MODULES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Runs the whole test.
pub(crate) fn run() -> Result<()> {
    let folder = artifacts::root().join("target/page");
    fs::create_dir_all(&folder).context("cannot make a folder for pages")?;
    let modules = cache::entry(&format!("npm-{}", MODULES.join("-")), fetch)?;
    let chromium = match chromium() {
        Some(chromium) => chromium,
        None => {
            ensure!(
                debian::is_root(),
                "no Chromium: install one, for example by 'sudo apt-get install chromium'"
            );
            debian::install("chromium")?;
            chromium().context("apt-get installed a chromium that is not on PATH")?
        }
    };
    reports::write(&release::program()?, &folder)?;
    let script = artifacts::root().join("xtask/src/page/check.mjs");
    run_quietly(
        Command::new("node")
            .arg(script)
            .args([&modules, &chromium, &folder]),
    )
}

fn chromium() -> Option<PathBuf> {
    CHROMIUM.iter().find_map(|name| which::which(name).ok())
}

fn fetch(to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--ignore-scripts", "--prefix"]);
    run_quietly(npm.arg(to).args(MODULES))
        .with_context(|| format!("cannot fetch {}", MODULES.join(" and ")))
}

fn run_quietly(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| {
        format!("cannot run {name}: install npm, for example by 'apt-get install npm'")
    })?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}
