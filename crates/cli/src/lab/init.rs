//! Finds the `vmbell` that is process 1 in L1: this program itself, or one that was built for L1's architecture.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use vmbell_lab::board::LabBoard;
use vmbell_lab::initramfs::ElfFacts;

/// The program for this board.
pub(super) fn find(board: &LabBoard) -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where vmbell is")?;
    let arch = board.arch.name;
    let variable = format!("VMBELL_{}", arch.to_ascii_uppercase());
    if board.is_native() {
        return Ok(own);
    }
    let path = if let Some(path) = env::var_os(&variable) {
        PathBuf::from(path)
    } else if let Some(path) = built(&own, &target(board)) {
        path
    } else {
        bail!(
            "the lab needs a vmbell for {arch} as the first program of its Linux: build one with \
             `cargo build --release --target {target} -p vmbell-cli`, or name one in the variable {variable}",
            target = target(board)
        );
    };
    check(board, &path)?;
    Ok(path)
}

fn target(board: &LabBoard) -> String {
    format!("{}-unknown-linux-musl", board.arch.name)
}

/// The program that cargo built for `target`, with this program's profile or else with `release`.
fn built(own: &Path, target: &str) -> Option<PathBuf> {
    let folder = own.parent()?;
    let profiles = [folder.file_name()?, "release".as_ref()];
    // A profile's folder is in cargo's target folder, or in a folder for the target triple below it.
    let roots = folder.ancestors().skip(1).take(2);
    let paths = roots
        .flat_map(|root| profiles.map(|profile| root.join(target).join(profile).join("vmbell")));
    paths.into_iter().find(|path| path.is_file())
}

/// Refuses a program that cannot be process 1 in this board's Linux.
fn check(board: &LabBoard, path: &Path) -> anyhow::Result<()> {
    let arch = board.arch.name;
    let facts = ElfFacts::read(path, arch)?;
    if facts.arch != arch {
        bail!(
            "{} is a program for {}, and the lab needs a vmbell for {arch}",
            path.display(),
            facts.arch
        );
    }
    if facts.interpreter.is_some() {
        bail!(
            "{} is linked dynamically, and the lab needs a static vmbell: build it with `--target {}`",
            path.display(),
            target(board)
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "init_test.rs"]
mod tests;
