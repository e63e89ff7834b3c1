//! The subcommands other than `bench`, and `--help`.

use std::fs;

use super::common::{json, stdout, vmbell};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use serde_json::Value;

const FLOORS: [&str; 6] = [
    "floor-getppid",
    "floor-eventfd-write",
    "floor-futex-same-core",
    "floor-futex-cross-core",
    "floor-cache-line",
    "floor-signal",
];

#[test]
fn list_describes_every_entry_and_hides_debug_ones() {
    let text = stdout(&mut vmbell("list"));
    for name in FLOORS {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.len() > name.len() + 10, "{line}");
    }
    assert!(!text.contains("debug-"), "{text}");
}

#[test]
fn list_as_json_has_the_same_entries() {
    let text = stdout(&mut vmbell("list"));
    let items = json(&mut vmbell("list --json"));
    let names: Vec<&str> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, listed);
}

#[test]
fn list_says_which_entries_need_a_device() {
    let text = stdout(&mut vmbell("list --backend usermode"));
    let items = stdout(&mut vmbell("list --backend usermode --json"));
    let items: Value = serde_json::from_str(&items).unwrap();
    for (line, item) in text.lines().zip(items.as_array().unwrap()) {
        let name = item["name"].as_str().unwrap();
        let needs = name.starts_with("passthrough-");
        let device = needs.then_some("edu");
        assert_eq!(item["device"].as_str(), device, "{name}");
        assert_eq!(line.ends_with("(needs the device edu)"), needs, "{line}");
    }
}

#[test]
fn list_shows_what_each_suite_has() {
    let list = |suite: &str| stdout(&mut vmbell(&["list", suite]));
    assert_eq!(list("paths"), stdout(&mut vmbell("list")));
    assert!(list("rings").starts_with("--split "));
    assert!(list("eoi").contains("pv-eoi-off") && list("eoi").contains("pv-eoi-on"));
    assert!(list("vmms").contains("qemu-microvm"));
    assert!(list("net").contains("vmbell-vhost"));
}

#[test]
fn help_shows_the_commands_for_pages_and_completions() {
    let help = stdout(&mut vmbell("--help"));
    for command in ["completions", "man "] {
        let begin = format!("\n  {command}");
        assert!(help.contains(&begin), "{help}");
    }
}

#[test]
fn manual_pages_have_the_usual_sections_and_footer() {
    let sections = |page: &str| -> Vec<String> {
        let titles = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        titles.map(|title| title.replace('"', "")).collect()
    };
    let page = stdout(&mut vmbell("man"));
    let expected = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "COMMANDS",
        "EXIT STATUS",
        "EXAMPLES",
    ];
    assert_eq!(sections(&page), expected, "{page}");
    let folder = tempfile::tempdir().unwrap();
    vmbell(&["man", "--all"])
        .arg(folder.path())
        .assert()
        .success();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let page = fs::read_to_string(entry.path()).unwrap();
        let title = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        let of_name = format!(".TH {} 1 ", name.trim_end_matches(".1").to_uppercase());
        let source = concat!(
            "\"vmbell ",
            env!("CARGO_PKG_VERSION"),
            "\" \"vmbell manual\""
        );
        assert!(title.starts_with(&of_name), "{title}");
        assert!(title.ends_with(source), "{title}");
        for section in sections(&page) {
            assert_eq!(section, section.to_uppercase(), "{name}");
            assert_ne!(section, "EXTRA", "{name}");
        }
        let command = name.trim_end_matches(".1").replacen("vmbell", "man", 1);
        let words: Vec<&str> = command.split('-').collect();
        assert_eq!(stdout(&mut vmbell(&words[..])), page, "{name}");
        names.push(name);
    }
    for name in ["vmbell.1", "vmbell-man.1", "vmbell-lab-kernel-selftests.1"] {
        assert!(names.iter().any(|other| other == name), "{names:?}");
    }
    assert!(names.iter().all(|name| !name.contains("help")), "{names:?}");
}

#[test]
fn every_suite_that_measures_here_exports_and_shows_its_report() {
    let folder = tempfile::tempdir().unwrap();
    for suite in [
        &["paths", "floor-getppid", "--only"][..],
        &["rings", "--bufs", "100", "--one-thread"],
        &["eoi", "--backend", "usermode", "--deterministic", "-n", "5"],
    ] {
        let json = folder.path().join(suite[0]);
        let mut command = vmbell("bench");
        command
            .args(suite)
            .args(["--runs", "2", "--seed", "7", "--no-warnings"]);
        command.arg("--export-json").arg(&json);
        let shown = command.assert().success().stderr(is_empty());
        assert!(!shown.get_output().stdout.is_empty(), "{suite:?}");
        let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        let times = report["results"][0]["times"].as_array();
        assert_eq!(
            (&report["seed"], times.map(Vec::len)),
            (&7.into(), Some(2)),
            "{report}"
        );
        let mut command = vmbell("bench");
        command
            .args(suite)
            .args(["--runs", "1", "--style", "none", "--export-csv", "-"]);
        assert!(stdout(&mut command).starts_with("command,"), "{suite:?}");
    }
}

#[test]
fn suite_paths_is_the_default() {
    let report = |words: &[&str]| {
        let row = [
            "--only",
            "floor-getppid",
            "--runs",
            "1",
            "--export-json",
            "-",
        ];
        let text = stdout(vmbell(words).args(row));
        let report: Value = serde_json::from_str(&text).unwrap();
        report["results"][0]["command"].clone()
    };
    assert_eq!(report(&["bench"]), report(&["bench", "paths"]));
}

#[test]
fn help_the_manual_and_probe_have_what_people_look_for() {
    let rows: [(&str, &[&str]); 7] = [
        ("--version", &[env!("CARGO_PKG_VERSION")]),
        ("--help", &["Examples:", "124"]),
        ("bench --help", &["--export-json", "runs"]),
        ("man", &[".TH", "130"]),
        ("man bench", &["vmbell\\-bench", "export\\-markdown"]),
        ("man lab", &["vmbell\\-lab", "deterministic"]),
        (
            "probe -v",
            &[
                "kernel",
                "TSC",
                "/dev/kvm",
                "seccomp user notification",
                "protection keys",
                "yama",
                "open files",
                "backend usermode",
                "pio-doorbell",
            ],
        ),
    ];
    for (words, texts) in rows {
        let assert = vmbell(words).assert().success().stderr(is_empty());
        let page = String::from_utf8_lossy(&assert.get_output().stdout);
        for text in texts {
            assert!(page.contains(text), "{words}: no {text} in\n{page}");
        }
    }
}

#[test]
fn probe_answers_in_forty_lines_and_in_the_other_forms() {
    let text = stdout(&mut vmbell("probe"));
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.contains("\nusermode  "), "{text}");
    let html = stdout(&mut vmbell("probe --export-html -"));
    assert!(html.starts_with("<!DOCTYPE html>"), "{html}");
    assert!(html.contains(">usermode</th>"), "{html}");
}

#[test]
fn probe_gives_a_reason_with_every_no() {
    let probe = json(&mut vmbell("probe --json"));
    let answers = probe["features"]
        .as_object()
        .unwrap()
        .iter()
        .chain(probe["backends"]["usermode"].as_object().unwrap());
    for (name, answer) in answers {
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert_eq!(answer["supported"] == true, reason.is_empty(), "{name}");
    }
    assert!(probe["host"]["kernel"].as_str().unwrap().contains("Linux"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        vmbell(&["completions", shell])
            .assert()
            .success()
            .stdout(contains("export-json").and(contains("probe")));
    }
    // The generator for fish omits the values of positional arguments.
    for shell in ["bash", "zsh"] {
        let script = stdout(&mut vmbell(&["completions", shell]));
        assert!(script.contains("portio-wildcard-eventfd"), "{shell}");
        let words = script.split(|c: char| !c.is_alphanumeric() && c != '-');
        let of_debug_rows: Vec<&str> = words.filter(|word| word.starts_with("debug-")).collect();
        assert_eq!(of_debug_rows, [""; 0], "{shell}");
    }
}

#[test]
fn no_subcommand_is_a_usage_error_with_help() {
    vmbell(&[]).assert().code(2).stderr(contains("Usage:"));
}

#[test]
fn a_limit_of_the_address_space_is_named_as_the_cause() {
    let program = assert_cmd::cargo::cargo_bin!("vmbell");
    let command = format!(
        "ulimit -v 150000; exec {} bench --backend usermode",
        program.display()
    );
    let mut shell = assert_cmd::Command::new("sh");
    shell
        .args(["-c", &command])
        .assert()
        .code(1)
        .stderr(contains("may map 146 MiB only"));
}
