//! The files of the package in the places where Debian has them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{output, sbom};
use crate::release::Built;

const DOC: &str = "usr/share/doc/vmbell";

/// The completions: the shell and its file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/vmbell"),
    ("zsh", "usr/share/zsh/vendor-completions/_vmbell"),
    ("fish", "usr/share/fish/vendor_completions.d/vmbell.fish"),
];

/// Lays the tree out anew and returns its folder.
pub(super) fn lay_out(root: &Path, tree: &Path, built: &Built) -> Result<PathBuf> {
    if tree.exists() {
        fs::remove_dir_all(tree).context("cannot remove the tree of an earlier package")?;
    }
    let program = tree.join("usr/bin/vmbell");
    write(&program, &fs::read(&built.program)?)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    output(Command::new("strip").arg("--strip-unneeded").arg(&program))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        write(&tree.join(file), script.as_bytes())?;
    }
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    output(Command::new(&program).args(["man", "--all"]).arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        compress(&page?.path())?;
    }
    for unit in ["vmbell-bench.service", "vmbell-bench.timer"] {
        let text = fs::read(root.join("deploy/systemd").join(unit))?;
        write(&tree.join("usr/lib/systemd/system").join(unit), &text)?;
    }
    let doc = tree.join(DOC);
    write(&doc.join("README.md"), &fs::read(root.join("README.md"))?)?;
    write(
        &doc.join("CHANGELOG.md"),
        &fs::read(root.join("CHANGELOG.md"))?,
    )?;
    compress(&doc.join("CHANGELOG.md"))?;
    write(&doc.join("changelog"), changelog(built)?.as_bytes())?;
    compress(&doc.join("changelog"))?;
    write(&doc.join("copyright"), copyright(root)?.as_bytes())?;
    write(&doc.join("vmbell.cdx.json"), sbom::write(root)?.as_bytes())?;
    Ok(tree.to_owned())
}

/// The changelog that dpkg's tools read; the one for people is beside it.
fn changelog(built: &Built) -> Result<String> {
    let time = format!("@{}", built.epoch);
    let date = output(Command::new("date").env("LC_ALL", "C").args([
        "--utc",
        "--rfc-email",
        "--date",
        &time,
    ]))?;
    Ok(format!(
        "vmbell ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {}  {date}",
        built.version, built.maintainer
    ))
}

fn copyright(root: &Path) -> Result<String> {
    let mut text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                    Upstream-Name: vmbell\n\nFiles: *\nCopyright: 2026 the authors of vmbell\n\
                    License: Apache-2.0 or BSD-3-Clause\n \
                    On Debian systems the Apache licence is in /usr/share/common-licenses/Apache-2.0.\n .\n"
        .to_owned();
    for line in fs::read_to_string(root.join("LICENSE-BSD-3-Clause"))?.lines() {
        text.push(' ');
        text.push_str(if line.trim().is_empty() { "." } else { line });
        text.push('\n');
    }
    Ok(text)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o644)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Compresses a file as Debian's packages have it: without its name and time.
fn compress(path: &Path) -> Result<()> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut gzip = Command::new("gzip")
        .args(["-9", "-n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run gzip")?;
    let mut stdin = gzip.stdin.take().context("gzip has no input")?;
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes));
    let done = gzip.wait_with_output().context("cannot wait for gzip")?;
    let fed = feeder
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that feeds gzip panicked"))?;
    fed.context("cannot write to gzip")?;
    ensure!(done.status.success(), "gzip ended with {}", done.status);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    write(&path.with_file_name(format!("{name}.gz")), &done.stdout)?;
    fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
}
