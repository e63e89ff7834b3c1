//! Which VMMs are asked for, and which of them are here: their programs and versions.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use super::args::{Accel, VmmArgs};
use super::launcher::{Launcher, known};
use super::serial;
use super::turns::{Column, Exits};
use crate::exit::{Exit, Usage};
use crate::output::print;
use crate::process::{self, Task};
use crate::program::no_kvm;
use crate::suggest::did_you_mean;

/// How long a program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The VMMs that were named; without names, all.
pub(super) fn chosen(args: &VmmArgs) -> Result<Vec<Launcher>> {
    let mut all = known();
    for template in &args.vmm {
        if all.iter().any(|other| other.name() == template.name) {
            let message = format!("two VMMs are called '{}'", template.name);
            return Err(Usage::new(message).into());
        }
        all.push(Launcher::Template(template.clone()));
    }
    if args.names.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<Launcher> = Vec::new();
    for name in &args.names {
        let Some(launcher) = all.iter().find(|launcher| launcher.name() == name) else {
            let names: Vec<&str> = all.iter().map(Launcher::name).collect();
            let hint = did_you_mean(name, &names);
            return Err(Usage::new(format!(
                "no VMM is called '{name}'{hint}; there are {}, and --vmm adds others",
                names.join(", ")
            ))
            .into());
        };
        if !chosen.contains(launcher) {
            chosen.push(launcher.clone());
        }
    }
    Ok(chosen)
}

/// Finds the program of a VMM and asks it for its version.
pub(super) fn column(launcher: Launcher, accel: Accel, stop: &AtomicBool) -> Column {
    let program = launcher.find();
    let version = program
        .as_deref()
        .ok()
        .and_then(|program| version_of(program, launcher.version()?, stop));
    let emulates = match accel {
        Accel::Auto => no_kvm().is_some(),
        Accel::Kvm => false,
        Accel::Tcg => true,
    };
    let accel_name = match &launcher {
        Launcher::Qemu(_) if emulates => "tcg",
        _ => "kvm",
    };
    let program = program.and_then(|program| match launcher.obstacle(accel) {
        Some(obstacle) => Err(obstacle),
        None => Ok(program),
    });
    Column {
        launcher,
        program,
        version,
        accel: accel_name,
        boots: Vec::new(),
        failure: None,
        repeated: None,
        exits: Exits::Off,
    }
}

/// Whether the VMM's program is not on this host.
pub(super) fn is_missing(column: &Column) -> bool {
    column.launcher.find().is_err() && !matches!(column.launcher, Launcher::Template(_))
}

/// The first line that a program prints about its version.
pub(crate) fn version_of(program: &Path, option: &str, stop: &AtomicBool) -> Option<String> {
    let words: [OsString; 2] = [program.into(), option.into()];
    let ended = process::run(&Task {
        words: &words,
        limit: VERSION_LIMIT,
        most: super::turns::MOST_OUTPUT,
        stop,
        is_complete: &|_| false,
    });
    let output = ended.ok()?.output;
    let text = String::from_utf8_lossy(&output);
    let mut lines = text.lines().map(serial::cleaned);
    lines.find(|line| !line.is_empty())
}

/// `--list`.
pub(super) fn list(launchers: &[Launcher], stop: &AtomicBool) -> Result<Exit> {
    let widest = launchers.iter().map(|launcher| launcher.name().len()).max();
    let widest = widest.unwrap_or_default();
    let mut text = String::new();
    for launcher in launchers {
        let found = match launcher.find() {
            Ok(program) => {
                let option = launcher.version();
                let version = option.and_then(|option| version_of(&program, option, stop));
                let version = version.map_or_else(String::new, |version| format!("  {version}"));
                format!("{}{version}", program.display())
            }
            Err(reason) => format!("not found: {reason}"),
        };
        text.push_str(&format!("{:widest$}  {found}\n", launcher.name()));
    }
    print(&text)?;
    Ok(Exit::Good)
}

/// What was looked for, and how to add a VMM.
pub(super) fn none_found(columns: &[Column]) -> String {
    let mut text = "error: there is no VMM that can run here:\n".to_owned();
    for column in columns {
        if let Err(reason) = &column.program {
            text.push_str(&format!("  {}: {reason}\n", column.launcher.name()));
        }
    }
    text + "install one, or name any other by its command line: \
            --vmm NAME='COMMAND ... {image} {cmdline} ...'\n"
}
