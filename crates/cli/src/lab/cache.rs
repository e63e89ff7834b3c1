//! `vmbell lab prepare`, `status` and `clean`, which work on the lab's cache.

use std::process::ExitCode;

use super::parts::{Parts, board};
use vmbell_lab::Recipe;
use vmbell_lab::board::Board;
use vmbell_lab::cache::{Cache, Size};

/// Prepares what is missing, and prints what has been prepared.
pub(super) fn prepare(parts: &Parts) -> anyhow::Result<ExitCode> {
    let lab = parts.open()?;
    println!(
        "{}\n{}\n{}",
        lab.kernel.title,
        lab.qemu,
        Cache::user()?.root().display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Lists the entries of the cache, and fails if one is damaged.
pub(super) fn status(verify: bool) -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    let board = board()?;
    let mut good = true;
    let current = recipes(&board).map(|recipe| format!("{}-{}", recipe.kind, recipe.hash()));
    println!("{}", cache.root().display());
    for (name, entry) in cache.entries()? {
        let checked = entry.and_then(|entry| {
            if verify {
                entry.verify().map(|()| entry)
            } else {
                Ok(entry)
            }
        });
        let short: String = name.chars().take(18).collect();
        match checked {
            Ok(entry) => {
                let manifest = entry.manifest();
                let downloaded = manifest.packages.iter().map(|package| package.size).sum();
                let note = if name.starts_with("kernel-") || current.contains(&name) {
                    ""
                } else {
                    ", of another version of vmbell"
                };
                println!(
                    "{short}  {}, {}, downloaded {}{note}",
                    manifest.title,
                    Size(manifest.size()),
                    Size(downloaded)
                );
            }
            Err(error) => {
                good = false;
                println!("{short}  {error}");
            }
        }
    }
    for name in &current {
        if !cache.root().join(name).exists() {
            let kind = name.split('-').next().unwrap_or(name);
            println!("{kind:18}  not prepared");
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a key for a CI's cache: the beginnings of the recipes' hashes.
pub(super) fn key() -> anyhow::Result<ExitCode> {
    let part = |recipe: Recipe| format!("{}-{:.12}", recipe.kind, recipe.hash());
    println!("vmbell-lab-{}", recipes(&board()?).map(part).join("-"));
    Ok(ExitCode::SUCCESS)
}

fn recipes(board: &Board) -> [Recipe; 2] {
    [Recipe::qemu(board), Recipe::linux(board)]
}

/// Removes everything from the cache.
pub(super) fn clean() -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    println!("removed {} from {}", cache.clean()?, cache.root().display());
    Ok(ExitCode::SUCCESS)
}
