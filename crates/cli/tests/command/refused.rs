//! Arguments that are refused before anything is measured: each block of `refused/*.md` is a command with its status
//! and output, in which `[..]` matches any text. `REFUSED=overwrite` rewrites the output.

use std::{env, fs};

use super::common::vmbell;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/refused");

/// The status of a command, and what it prints.
fn shown(line: &str) -> String {
    let words = shell_words::split(line).unwrap();
    assert_eq!(words[0], "vmbell", "{line}");
    // There is no kernel to boot, no program to download with, and no cache.
    let output = vmbell("")
        .args(&words[1..])
        .env("PATH", "/nonexistent")
        .env("XDG_CACHE_HOME", "/dev/null")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    format!("? {}\n{}", output.status.code().unwrap(), text.trim_end())
}

fn is_like(text: &str, expected: &str) -> bool {
    let is_line = |(line, expected): (&str, &str)| match expected.split_once("[..]") {
        Some((begin, end)) => line.starts_with(begin) && line.ends_with(end),
        None => line == expected,
    };
    text.lines().count() == expected.lines().count()
        && text.lines().zip(expected.lines()).all(is_line)
}

#[test]
fn wrong_arguments_are_refused_with_what_to_write() {
    let is_anew = env::var_os("REFUSED").is_some_and(|value| value == "overwrite");
    let (mut count, mut differences) = (0, String::new());
    for file in fs::read_dir(FOLDER).unwrap() {
        let path = file.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        let mut commands = page.split("\n$ ");
        let mut anew = commands.next().unwrap().to_owned();
        for command in commands {
            let (line, rest) = command.split_once('\n').unwrap();
            let end = rest.find("```").unwrap_or(rest.len());
            let (expected, prose) = rest.split_at(end);
            let mut text = shown(line);
            if is_like(&text, expected.trim_end()) {
                expected.trim_end().clone_into(&mut text);
            } else {
                differences += &format!("{}: $ {line}\n{text}\n\n", path.display());
            }
            let before_prose = if prose.is_empty() { "" } else { "\n" };
            anew += &format!("\n$ {line}\n{text}\n{before_prose}{prose}");
            count += 1;
        }
        if is_anew {
            fs::write(&path, anew).unwrap();
        } else {
            assert!(!differences.is_empty() || anew == page, "{path:?}");
        }
    }
    assert!(count > 90, "only {count} commands were found");
    assert!(is_anew || differences.is_empty(), "{differences}");
}
