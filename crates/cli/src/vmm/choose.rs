//! Which VMMs are asked for, and which of them are here.

use anyhow::Result;

use super::args::VmmArgs;
use super::launcher::{Launcher, Vmm, known};
use crate::columns::{Column, version_of};
use crate::exit::{Exit, Usage};
use crate::output::print;
use crate::suggest::did_you_mean;
use vmbell_bench::Limit;

/// The VMMs that were named; without names, all.
pub(super) fn chosen(args: &VmmArgs) -> Result<Vec<Launcher>> {
    let mut all = known();
    for template in &args.vmm {
        if let Some(program) = template.program() {
            let name = &template.name;
            let Some(place) = all.iter().position(|vmm| vmm.name() == name) else {
                let names: Vec<&str> = all.iter().map(Launcher::name).collect();
                let hint = did_you_mean(name, &names);
                return Err(Usage::new(format!(
                    "--vmm: no VMM is called '{name}'{hint}, so its whole command line is needed, with {{image}}"
                ))
                .into());
            };
            all[place] = all[place].with_program(program);
            continue;
        }
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

/// Whether the VMM's program is not on this host, and the user did not name it.
pub(super) fn is_missing(column: &Column<Vmm>) -> bool {
    column.way.launcher.find().is_err() && matches!(column.way.launcher, Launcher::Known(_, None))
}

/// `--list`.
pub(super) fn list(launchers: &[Launcher], stop: &Limit) -> Result<Exit> {
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
pub(super) fn none_found(columns: &[Column<Vmm>]) -> String {
    let mut text = "error: no VMM can run here:\n".to_owned();
    for column in columns {
        if let Err(reason) = &column.program {
            text.push_str(&format!("  {}: {reason}\n", column.way.launcher.name()));
        }
    }
    text + "install one, or name any other by its command line: \
            --vmm NAME='COMMAND ... {image} {cmdline} ...'\n"
}
