//! `vmbell lab prepare`, `status` and `clean`, which work on the lab's cache.

use std::process::ExitCode;

use anyhow::bail;
use humantime::format_rfc3339_seconds;

use super::machine::default_cpus;
use super::parts::{LabParts, boards};
use crate::output::print_line;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::LabBoard;
use vmbell_lab::boot::{Settings, TimeMode};
use vmbell_lab::cache::{Cache, DiskSize};
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::saved::Store;
use vmbell_lab::{Lab, LabProgress, PackageRecipe, ProvisionKind, Recipe};

/// Prepares what is missing, saves the machines that runs have by default, and prints what has been prepared.
pub(super) fn prepare(
    arch: Option<&str>,
    parts: &LabParts,
    depth: u32,
) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch, depth > 1)?;
    let mut qemu = None;
    for choice in parts.choices()? {
        let settings = Settings::default();
        let prepared = parts.prepare(host, &board, &settings, &choice)?;
        print_line(prepared.kernel.title)?;
        let lab = parts.open(host, board, &settings, &choice);
        save(&lab, depth, &parts.progress())?;
        qemu = Some(prepared.qemu);
    }
    if let Some(qemu) = qemu {
        print_line(qemu)?;
    }
    print_line(Cache::user()?.root().display())?;
    Ok(ExitCode::SUCCESS)
}

/// Saves the machines that runs of this depth have by default, one for each mode. It takes a `vmbell` for the machine's
/// architecture.
fn save(lab: &anyhow::Result<Lab>, depth: u32, progress: &LabProgress) -> anyhow::Result<()> {
    let lab = match lab {
        Ok(lab) => lab,
        Err(error) => {
            progress.say(format_args!("no machine was saved: {error:#}"));
            return Ok(());
        }
    };
    for mode in [
        TimeMode::Functional {
            cpus: default_cpus(depth),
        },
        TimeMode::Deterministic { seed: None },
    ] {
        let reason = lab.save(&Settings {
            depth,
            mode,
            ..Settings::default()
        })?;
        if let Some(reason) = reason {
            progress.say(format_args!("no machine was saved: {reason}"));
        }
    }
    Ok(())
}

/// Lists the entries of the cache and the saved machines, and what is missing for this board and these kernels; fails if an entry is damaged.
pub(super) fn status(
    arch: Option<&str>,
    verify: bool,
    kernels: &[KernelVersion],
) -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    let (host, board) = boards(arch, false)?;
    let mut good = true;
    let all = LabBoard::ALL.into_iter();
    let all = all.flat_map(|board| [board, board.nesting()]);
    let current: Vec<Recipe> = all
        .flat_map(|board| packages(host, &board, &[]))
        .map(|packages| packages.recipe())
        .collect();
    let is_old = |name: &str| match ProvisionKind::of_entry(name) {
        // Entries of kinds that are not among these depend on what a run asked for.
        Some(kind) => {
            current.iter().any(|recipe| recipe.kind == kind)
                && current.iter().all(|recipe| recipe.entry() != name)
        }
        None => true,
    };
    print_line(cache.root().display())?;
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
                let note = match is_old(&name) {
                    true => ", of another version of vmbell",
                    false => "",
                };
                print_line(format_args!(
                    "{short}  {}, {}, downloaded {}{note}",
                    manifest.title,
                    DiskSize(manifest.size()),
                    DiskSize(downloaded)
                ))?;
            }
            Err(error) => {
                good = false;
                print_line(format_args!("{short}  {error}"))?;
            }
        }
    }
    let store = Store::user(DiskSize(0))?;
    print_line(store.root().display())?;
    for listed in store.list()? {
        let short: String = listed.name.chars().take(18).collect();
        let Some(manifest) = &listed.manifest else {
            good = false;
            print_line(format_args!("{short}  its manifest is damaged"))?;
            continue;
        };
        let checked = match verify {
            true => store.open(&manifest.key).map(drop),
            false => Ok(()),
        };
        let title = &manifest.key.title;
        match checked {
            Ok(()) => print_line(format_args!(
                "{short}  {title}, {}, last used {}",
                listed.size,
                format_rfc3339_seconds(listed.used)
            ))?,
            Err(error) => {
                good = false;
                print_line(format_args!("{short}  {title}: {error}"))?;
            }
        }
    }
    for packages in packages(host, &board, kernels) {
        if !cache.folder(&packages.recipe().entry()).exists() {
            print_line(format_args!(
                "{:18}  not prepared for {}",
                packages.name(),
                board.arch.name
            ))?;
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a key for a CI's cache: the beginnings of the recipes' hashes.
pub(super) fn key(arch: Option<&str>, kernels: &[KernelVersion]) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch, false)?;
    let part =
        |packages: &PackageRecipe| format!("{}-{:.12}", packages.kind, packages.recipe().hash());
    let parts: Vec<String> = packages(host, &board, kernels).iter().map(part).collect();
    print_line(format_args!("vmbell-lab-{}", parts.join("-")))?;
    Ok(ExitCode::SUCCESS)
}

/// The packages for this board, with the distribution's kernel if none is named.
fn packages(host: Arch, board: &LabBoard, kernels: &[KernelVersion]) -> Vec<PackageRecipe> {
    let mut recipes = vec![PackageRecipe::qemu(host, board)];
    match kernels {
        [] => recipes.push(PackageRecipe::linux(board)),
        kernels => {
            recipes.extend(
                kernels
                    .iter()
                    .map(|kernel| PackageRecipe::debian(board, kernel)),
            );
        }
    }
    recipes.push(PackageRecipe::shell(board));
    recipes
}

/// Removes everything from the cache, and all saved machines.
pub(super) fn clean() -> anyhow::Result<ExitCode> {
    let cache = Cache::user()?;
    print_line(format_args!(
        "removed {} from {}",
        cache.clean()?,
        cache.root().display()
    ))?;
    let store = Store::user(DiskSize(0))?;
    let removed = store.remove_all()?;
    print_line(format_args!(
        "removed {} from {}",
        removed.freed,
        store.root().display()
    ))?;
    if removed.in_use.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "{} of the saved machines stay, because another `vmbell lab` uses them",
        removed.in_use.len()
    );
}
