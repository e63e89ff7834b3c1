//! `vmbell lab prepare`, `status` and `clean`, for the lab's cache.

use std::process::ExitCode;

use anyhow::bail;
use humantime::format_rfc3339_seconds;

use super::machine::default_cpus;
use super::parts::{LabParts, boards};
use crate::args::exports::{BlockExportArgs, BlockExports};
use crate::output::deliver::show;
use crate::output::print_line;
use crate::output::style::Style;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::{EmulatorKind, LabBoard};
use vmbell_lab::boot::{Settings, TimeMode};
use vmbell_lab::cache::{Cache, DiskSize};
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::saved::Store;
use vmbell_lab::{Lab, LabProgress, PackageRecipe, ProvisionKind, Recipe};
use vmbell_report::{Block, Cell, Column, Table};

/// The maximum number of characters of an entry's name that are shown.
const SHORT: usize = 18;

/// Prepares what is missing, saves the default machines, and prints what is prepared.
pub(super) fn prepare(
    arch: Option<&str>,
    parts: &LabParts,
    depth: u32,
) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch, depth > 1)?;
    let mut emulators = Vec::new();
    let choices = parts.choices()?;
    parts.check(board, &choices, true)?;
    for choice in choices {
        let board = choice.board(board)?;
        // `bench vmms` runs QEMU in L1, whatever emulates L1.
        let carried = match board.emulator {
            EmulatorKind::Qemu => None,
            EmulatorKind::Bochs(_) => Some(parts.carried_qemu(host)?.to_string()),
        };
        let settings = Settings::default();
        let prepared = parts.prepare(host, &board, &settings, &choice)?;
        print_line(prepared.kernel.title)?;
        let lab = parts.open(host, board, &settings, &choice);
        save(&lab, depth, &parts.progress())?;
        for emulator in [Some(prepared.emulator.to_string()), carried] {
            let is_new = |emulator: &String| !emulators.contains(emulator);
            emulators.extend(emulator.filter(is_new));
        }
    }
    emulators.iter().try_for_each(print_line)?;
    print_line(Cache::user()?.root().display())?;
    Ok(ExitCode::SUCCESS)
}

/// Saves the default machines for this depth, one for each mode. Needs a `vmbell` for the machine's architecture.
fn save(lab: &anyhow::Result<Lab>, depth: u32, progress: &LabProgress) -> anyhow::Result<()> {
    let lab = match lab {
        Ok(lab) => lab,
        Err(error) => {
            progress.say(format_args!("no machine was saved: {error:#}"));
            return Ok(());
        }
    };
    let mut reasons = Vec::new();
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
        if let Some(reason) = reason
            && !reasons.contains(&reason)
        {
            progress.say(format_args!("no machine was saved: {reason}"));
            reasons.push(reason);
        }
    }
    Ok(())
}

/// Shows the cache's entries, the saved machines, and what is missing for this board and these kernels; fails if an
/// entry is damaged.
pub(super) fn status(
    arch: Option<&str>,
    verify: bool,
    kernels: &[KernelVersion],
    exports: &BlockExportArgs,
) -> anyhow::Result<ExitCode> {
    let exports = BlockExports::open(exports)?;
    let cache = Cache::user()?;
    let store = Store::user(DiskSize(0))?;
    let (host, board) = boards(arch, false)?;
    let (entries, are_good) = entries(&cache, host, verify)?;
    let (machines, are_machines_good) = machines(&store, verify)?;
    let missing: Vec<PackageRecipe> = packages(host, &board, kernels)
        .into_iter()
        .filter(|packages| !cache.folder(&packages.recipe().entry()).exists())
        .collect();
    let mut absent = Table::new("missing", missing.iter().map(|packages| packages.name()));
    let why = format!("not prepared for {}", board.arch.name);
    absent.add(
        Column::words(""),
        missing.iter().map(|_| Some(Cell::from(&why))),
    );
    let places = [("cache", cache.root()), ("saved machines", store.root())];
    let places = places.map(|(what, path)| (what.to_owned(), path.display().to_string()));
    let mut blocks = vec![Block::Facts(places.into())];
    let tables = [entries, machines, absent].into_iter();
    blocks.extend(tables.filter(|table| !table.is_empty()).map(Block::Table));
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish("The lab's cache", &blocks);
    show(Style::Auto, stdout_is_taken, &blocks)?;
    exported?;
    Ok(match are_good && are_machines_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A row of the status: sizes or a time, and what it is or why it is damaged.
type StatusRow = ([Option<String>; 2], String);

/// A table of such rows, with shortened names.
fn status_table(title: &str, numbers: [&str; 2], rows: Vec<(String, StatusRow)>) -> Table {
    let names = rows
        .iter()
        .map(|(name, _)| name.chars().take(SHORT).collect::<String>());
    let mut table = Table::new(title, names);
    for (place, number) in numbers.into_iter().enumerate() {
        let cells = rows
            .iter()
            .map(|(_, (numbers, _))| numbers[place].clone().map(Cell::from));
        table.add(Column::numbers(number), cells);
    }
    let cells = rows.iter().map(|(_, (_, what))| Some(Cell::from(what)));
    table.add(Column::words("what it is"), cells);
    table
}

/// The cache's entries, and whether all are undamaged.
fn entries(cache: &Cache, host: Arch, verify: bool) -> anyhow::Result<(Table, bool)> {
    let all = LabBoard::ALL.into_iter();
    let all = all.flat_map(|board| [board, board.nesting()]);
    let current: Vec<Recipe> = all
        .flat_map(|board| packages(host, &board, &[]))
        .map(|packages| packages.recipe())
        .collect();
    let is_old = |name: &str| match ProvisionKind::of_entry(name) {
        // Entries of other kinds depend on what a run asked for.
        Some(kind) => {
            current.iter().any(|recipe| recipe.kind == kind)
                && current.iter().all(|recipe| recipe.entry() != name)
        }
        None => true,
    };
    let mut are_good = true;
    let mut rows = Vec::new();
    for (name, entry) in cache.entries()? {
        let checked = entry.and_then(|entry| match verify {
            true => entry.verify().map(|()| entry),
            false => Ok(entry),
        });
        let row = match checked {
            Ok(entry) => {
                let manifest = entry.manifest();
                let downloaded = manifest.packages.iter().map(|package| package.size).sum();
                let sizes = [manifest.size(), downloaded];
                let note = match is_old(&name) {
                    true => ", of another version of vmbell",
                    false => "",
                };
                let sizes = sizes.map(|size| Some(DiskSize(size).to_string()));
                (sizes, format!("{}{note}", manifest.title))
            }
            Err(error) => {
                are_good = false;
                ([None, None], error.to_string())
            }
        };
        rows.push((name, row));
    }
    let table = status_table("prepared", ["size", "downloaded"], rows);
    Ok((table, are_good))
}

/// The saved machines, and whether all are undamaged.
fn machines(store: &Store, verify: bool) -> anyhow::Result<(Table, bool)> {
    let mut are_good = true;
    let mut rows = Vec::new();
    for listed in store.list()? {
        let row = match &listed.manifest {
            None => Err("its manifest is damaged".to_owned()),
            Some(manifest) => {
                let title = &manifest.key.title;
                let checked = match verify {
                    true => store.open(&manifest.key).map(drop),
                    false => Ok(()),
                };
                checked
                    .map(|()| title.clone())
                    .map_err(|error| format!("{title}: {error}"))
            }
        };
        are_good &= row.is_ok();
        let used = format_rfc3339_seconds(listed.used);
        let facts = [listed.size.to_string(), used.to_string()];
        let row = match row {
            Ok(title) => (facts.map(Some), title),
            Err(error) => ([None, None], error),
        };
        rows.push((listed.name, row));
    }
    let table = status_table("saved machine", ["size", "last used"], rows);
    Ok((table, are_good))
}

/// Prints a key for a CI's cache, made from the first digits of the recipes' hashes.
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
