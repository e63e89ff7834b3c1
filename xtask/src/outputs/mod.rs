//! Compares the outputs that the pages show with what the commands print.
//!
//! The commands of a page run one after the other in one shell, as its reader runs them, in a temporary folder with
//! links to the repository's files. Those in [`NOT_RUN`] are listed instead.

mod compare;
mod page;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::package::output;
use crate::{artifacts, child, release};
use compare::Comparison;
use page::Transcript;

/// Run the commands of pages and compare what they print with the outputs in the pages
///
/// Numbers, units of time and columns may differ, but a zero must be a zero, and with `--deterministic` numbers from 100
/// must be within a fifth. `...` matches any text in a line, and any lines if it is the whole line. A command runs if it
/// or a later command of its block has an output. Needs the lab and jq.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputsArgs {
    /// Write what the commands print to the pages; with `...` only where no other line differs
    #[arg(long)]
    update: bool,
    /// Only these pages, such as docs/lab.md [default: README.md and docs/*.md]
    #[arg(value_name = "PAGE")]
    pages: Vec<String>,
}

/// A page, the beginnings of its commands that are not run, and the reason why.
type NotRun = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const NOT_RUN: &[NotRun] = &[
    ("docs/checking.md", "cargo vmbell-check", "a project outside"),
    ("docs/comparing.md", "", "like docs/tutorial.md"),
    ("docs/findings.md", "cargo install", "`cargo test` builds it"),
    ("docs/fleet.md", "", "needs node_exporter: cargo xtask fleet"),
    ("docs/gate.md", "vmbell gate", "needs two versions of alioth"),
    ("docs/guide.md", "", "tested by embed/guide/tests/page.rs"),
    ("docs/kvm-unit-tests.md", "", "needs kvm-unit-tests"),
    ("docs/lab.md", "cargo build", "`cargo test` builds it"),
    ("docs/lab.md", "export", "a project outside"),
    ("docs/lab.md", "cargo test", "a project outside"),
    ("docs/lab.md", "vmbell lab kernel --deterministic --bisect", "takes minutes"),
    ("docs/lab.md", "vmbell lab kernel --deterministic --kernel debian:6.12 --kvm-patch", "compiles KVM"),
    ("docs/lab.md", "vmbell lab kernel selftests", "compiles the selftests"),
    ("docs/linux.md", "", "needs a terminal, and root for tap0"),
    ("docs/measuring.md", "", "depends on the host"),
    ("docs/network.md", "", "takes minutes"),
    ("docs/security.md", "", "needs a VM"),
    ("docs/top.md", "", "needs VMs: crates/cli/tests/lab_boot/top.rs"),
    ("docs/tutorial.md", "cargo vmbell-check", "compiles for a minute"),
    ("docs/vmm.md", "", "needs alioth, takes minutes"),
];

pub(crate) fn run(args: &OutputsArgs) -> Result<()> {
    let root = artifacts::root();
    let mut pages = args.pages.clone();
    if pages.is_empty() {
        let mut git = Command::new("git");
        git.args(["ls-files", "README.md", "docs/*.md"]);
        let listed = output(git.current_dir(root))?;
        pages = listed.lines().map(str::to_owned).collect();
    }
    check(root, NOT_RUN)?;
    let (mut ran, mut wrong) = (0, Vec::new());
    for page in &pages {
        let mut text = read(root, page)?;
        let mut transcripts = page::transcripts(&text);
        transcripts
            .retain(|transcript| !NOT_RUN.iter().any(|entry| is_of(entry, page, transcript)));
        if transcripts.is_empty() {
            continue;
        }
        let printed = shell(root, page, &transcripts)?;
        ran += transcripts.len();
        // Backwards, because a replacement moves the text after it.
        for (transcript, printed) in transcripts.iter().zip(&printed).rev() {
            if transcript.output.is_empty() {
                continue;
            }
            let comparison = Comparison::new(transcript, printed);
            if args.update {
                text.replace_range(transcript.place.clone(), &comparison.updated());
            } else {
                wrong.extend(comparison.diff(page));
            }
        }
        if args.update {
            fs::write(root.join(page), text).with_context(|| format!("cannot write {page}"))?;
        }
    }
    println!(
        "outputs: {ran} commands ran; these {} did not:",
        NOT_RUN.len()
    );
    for (page, command, reason) in NOT_RUN {
        println!("{page:23} {reason:40} {command}");
    }
    for line in &wrong {
        println!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        count => bail!("lines that differ: {count}"),
    }
}

/// Whether an entry names this command.
fn is_of(entry: &NotRun, page: &str, transcript: &Transcript) -> bool {
    entry.0 == page && transcript.command.starts_with(entry.1)
}

/// Returns an error if the list names a command that its page does not have.
fn check(root: &Path, list: &[NotRun]) -> Result<()> {
    for entry @ (page, begins, _) in list {
        let transcripts = page::transcripts(&read(root, page)?);
        let mut transcripts = transcripts.iter();
        ensure!(
            transcripts.any(|transcript| is_of(entry, page, transcript)),
            "{page} has no output of {begins:?}, which is listed as not run"
        );
    }
    Ok(())
}

fn read(root: &Path, page: &str) -> Result<String> {
    fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {page}"))
}

/// Runs the commands, and returns what each prints.
fn shell(root: &Path, page: &str, transcripts: &[Transcript]) -> Result<Vec<String>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        symlink(entry.path(), folder.path().join(entry.file_name()))?;
    }
    let mut path = OsString::new();
    let is_vmbell =
        |transcript: &Transcript| transcript.command.split(' ').any(|word| word == "vmbell");
    if transcripts.iter().any(is_vmbell) {
        path.push(release::program()?.with_file_name(""));
        path.push(":");
    }
    // cargo-vmbell-check.
    path.push(env::current_exe()?.with_file_name(""));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut script = "exec 2>&1\n".to_owned();
    let marker = |line: usize| format!("-- {page}:{line}");
    for transcript in transcripts {
        let (line, command) = (transcript.line, &transcript.command);
        // The same program, which is already built.
        let command = command.replace("cargo run --release -q --", "vmbell");
        // On a new line even if the output before does not end in one.
        script += &format!("printf '\\n%s\\n' '{}'\n{command}\n", marker(line));
        if transcript.output.is_empty() {
            script += "[ $? = 0 ] || exit\n";
        }
    }
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(folder.path());
    bash.env("PATH", path)
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS");
    let finished = child::run(&mut bash)?;
    let (mut printed, mut rest) = (Vec::new(), finished.stdout.as_str());
    for (index, transcript) in transcripts.iter().enumerate() {
        let Some((before, after)) = rest.split_once(&format!("\n{}\n", marker(transcript.line)))
        else {
            let failed = transcripts[..index].last().map_or(0, |failed| failed.line);
            bail!("{page}:{failed}: the command failed: {}", rest.trim_end());
        };
        if index > 0 {
            printed.push(before.to_owned());
        }
        rest = after;
    }
    printed.extend(transcripts.last().map(|_| rest.to_owned()));
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_listed_as_not_run_is_in_its_page() {
        let root = artifacts::root();
        check(root, NOT_RUN).unwrap();
        for (page, command) in [("docs/lab.md", "vmbell absent"), ("README.md", "$")] {
            let error = check(root, &[(page, command, "")]).unwrap_err();
            assert!(error.to_string().contains(command), "{error}");
        }
        check(root, &[("docs/absent.md", "", "")]).unwrap_err();
    }

    #[test]
    fn the_commands_of_a_page_share_a_shell_that_a_failed_one_ends() {
        let page = "$ at=1 && echo $at >new\n$ ls Cargo.toml new && echo err >&2\n...\n";
        let transcripts = page::transcripts(page);
        let printed = shell(artifacts::root(), "a.md", &transcripts).unwrap();
        assert_eq!(printed, ["", "Cargo.toml\nnew\nerr\n"]);
        // An output without a last newline is no failure.
        let transcripts = page::transcripts("$ printf one\none\n$ echo two\ntwo\n");
        let printed = shell(artifacts::root(), "a.md", &transcripts).unwrap();
        assert_eq!(printed, ["one", "two\n"]);
        assert!(!artifacts::root().join("new").exists());
        let transcripts = page::transcripts("$ false\n$ echo\n...\n");
        let error = shell(artifacts::root(), "a.md", &transcripts).unwrap_err();
        assert_eq!(error.to_string(), "a.md:1: the command failed: ");
    }
}
