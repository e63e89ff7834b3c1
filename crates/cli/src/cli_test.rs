use std::collections::BTreeSet;

use clap::{Arg, Command};

use super::*;

/// The options of a command that `--help` shows, without `--help` and `--version`.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    options
        .filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

fn names(command: &Command) -> BTreeSet<&str> {
    options(command).filter_map(Arg::get_long).collect()
}

/// All commands that `--help` shows, with what they inherit.
fn commands() -> Vec<Command> {
    let mut root = Cli::command();
    root.build();
    let mut commands = vec![root];
    let mut next = 0;
    while let Some(command) = commands.get(next) {
        let inner = command.get_subcommands();
        let shown = inner.filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
        let shown: Vec<_> = shown.cloned().collect();
        commands.extend(shown);
        next += 1;
    }
    commands
}

fn command(name: &str) -> Command {
    let mut commands = commands().into_iter();
    commands
        .find(|command| command.get_bin_name() == Some(name))
        .unwrap()
}

#[test]
fn the_lab_shows_at_most_16_options() {
    let lab = command("vmbell lab");
    let sixteen = [
        "arch",
        "cpu",
        "deterministic",
        "depth",
        "device",
        "env",
        "functional",
        "kernel",
        "memory",
        "out",
        "quiet",
        "seed",
        "stdin",
        "timeout",
        "vcpus",
        "with",
    ];
    assert_eq!(names(&lab), BTreeSet::from(sixteen));
    assert!(lab.get_arguments().filter(|arg| arg.is_hide_set()).count() == 0);
}

#[test]
fn lab_kernel_has_all_options_of_the_lab() {
    for (plain, kernel) in [
        ("vmbell lab", "vmbell lab kernel"),
        ("vmbell lab prepare", "vmbell lab kernel prepare"),
    ] {
        let (plain, kernel) = (command(plain), command(kernel));
        assert!(names(&plain).is_subset(&names(&kernel)));
        assert!(names(&kernel).contains("kvm-patch"));
        assert!(!names(&plain).contains("kvm-patch"));
    }
}

#[test]
fn many_options_are_grouped_and_come_with_examples() {
    let long: Vec<Command> = commands()
        .into_iter()
        .filter(|command| options(command).count() > 8)
        .collect();
    assert!(long.len() > 8);
    for command in long {
        let name = command.get_bin_name().unwrap();
        for option in options(&command) {
            let heading = option.get_help_heading();
            assert!(heading.is_some(), "{name}: {option} is in no group");
        }
        let examples = command.get_after_help().map(ToString::to_string);
        assert!(
            examples.is_some_and(|text| text.contains("Examples:\n")),
            "{name} has no examples"
        );
    }
}

#[test]
fn help_fits_into_80_columns_as_it_is_laid_out() {
    for mut command in commands() {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        let after = command.get_after_help().map(ToString::to_string);
        let short = command.render_help().to_string();
        let long = command.render_long_help().to_string();
        for line in short.lines().chain(long.lines()) {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        // clap would break longer lines.
        for line in after.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn manual_pages_have_all_that_follows_the_options() {
    for command in commands() {
        let after = command.get_after_help().map(ToString::to_string);
        let lines = after.iter().flat_map(|text| text.lines());
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(' ')) {
            let is_section = man::SECTIONS.iter().any(|(heading, _)| *heading == line);
            assert!(is_section, "{line}");
        }
    }
}

#[test]
fn both_commands_that_run_a_program_in_the_lab_have_its_exit_statuses() {
    for name in ["vmbell lab", "vmbell lab kernel"] {
        let after = command(name).get_after_help().unwrap().to_string();
        assert!(after.contains("Exit status:\n  N "), "{name}: {after}");
        assert!(after.contains("VMBELL_STATE_LIMIT"), "{name}: {after}");
    }
}
