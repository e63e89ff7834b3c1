//! Which VMMs are requested, and which of them are on this host.

use anyhow::Result;

use super::args::VmmsArgs;
use super::launcher::{VmmCandidate, VmmLauncher, known};
use super::template::{self, VmmTemplate};
use crate::exit::{Exit, Usage};
use crate::output::print;
use crate::suites::boots::{BootColumn, version_of};
use vmbell_bench::{CommandLimit, did_you_mean};
use vmbell_report::{Block, Screen, terminal};

/// The named VMMs; without names, all.
pub(super) fn chosen(args: &VmmsArgs) -> Result<Vec<VmmLauncher>> {
    let mut all = known();
    for template in &args.vmm {
        add(&mut all, template).map_err(|error| Usage::new(format!("--vmm: {error}")))?;
    }
    if args.names.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<VmmLauncher> = Vec::new();
    for name in &args.names {
        let launcher =
            named(&all, name).map_err(|error| Usage::new(format!("{error}; --vmm adds others")))?;
        if !chosen.contains(launcher) {
            chosen.push(launcher.clone());
        }
    }
    Ok(chosen)
}

/// Adds a VMM of --vmm, or replaces the program of a known one.
fn add(all: &mut Vec<VmmLauncher>, template: &VmmTemplate) -> Result<(), String> {
    let name = &template.name;
    let known = all.iter().position(|vmm| vmm.name() == name);
    match (template.program(), known) {
        (Some(program), Some(place)) => all[place] = all[place].with_program(program),
        (Some(_), None) => {
            let names: Vec<&str> = all.iter().map(VmmLauncher::name).collect();
            let hint = did_you_mean(name, &names);
            return Err(format!(
                "no VMM is called '{name}'{hint}, so --vmm needs its whole command line, with {{image}}"
            ));
        }
        (None, Some(_)) => return Err(format!("two VMMs are called '{name}'")),
        (None, None) => all.push(VmmLauncher::Template(template.clone())),
    }
    Ok(())
}

/// The VMM of this name.
fn named<'l>(all: &'l [VmmLauncher], name: &str) -> Result<&'l VmmLauncher, String> {
    let found = all.iter().find(|launcher| launcher.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(VmmLauncher::name).collect();
        let hint = did_you_mean(name, &names);
        format!(
            "no VMM is called '{name}'{hint} (known: {})",
            names.join(", ")
        )
    })
}

/// The program that the lab copies for the VMM of this name, if any. `command` is that of `--vmm`. Fails if name and
/// command do not match.
pub(crate) fn program_in_lab(name: &str, command: Option<&str>) -> Result<Option<String>, String> {
    let mut all = known();
    if let Some(command) = command {
        let template = template::parse(&format!("{name}={command}"));
        add(&mut all, &template.map_err(|error| error.to_string())?)?;
    }
    Ok(named(&all, name)?.program_in_lab().map(str::to_owned))
}

/// Whether the VMM's program is not on this host, and the user did not name it.
pub(super) fn is_missing(column: &BootColumn<VmmCandidate>) -> bool {
    column.way.launcher.find().is_err()
        && matches!(column.way.launcher, VmmLauncher::Known(_, None))
}

/// Prints the paths of these VMMs and their versions.
pub(super) fn list(launchers: &[VmmLauncher], stop: &CommandLimit) -> Result<Exit> {
    let found = launchers.iter().map(|launcher| {
        let found = match launcher.find() {
            Ok(program) => {
                let option = launcher.version();
                let version = option.and_then(|option| version_of(&program, option, stop));
                let version = version.map_or_else(String::new, |version| format!("  {version}"));
                format!("{}{version}", program.display())
            }
            Err(reason) => format!("not found: {reason}"),
        };
        (launcher.name().to_owned(), found)
    });
    let facts = Block::Facts(found.collect());
    print(&terminal(&[facts], Screen::default()))?;
    Ok(Exit::Good)
}

/// Says what was searched for, and how to add a VMM.
pub(super) fn none_found(columns: &[BootColumn<VmmCandidate>]) -> String {
    let mut text = "error: no VMM can run here:\n".to_owned();
    for column in columns {
        if let Err(reason) = &column.program {
            text.push_str(&format!("  {}: {reason}\n", column.way.launcher.name()));
        }
    }
    text + "install one, or name any other by its command line: \
            --vmm NAME='COMMAND ... {image} {cmdline} ...'\n"
}
