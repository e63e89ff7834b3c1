use clap::Args;

use super::*;
use crate::suites::paths::args::PathsArgs;

fn forwarded(line: &[&str], left_out: &[&str]) -> Vec<OsString> {
    let command = PathsArgs::augment_args(Command::new("bench"));
    let words = std::iter::once(&"bench").chain(line);
    let matches = command.clone().try_get_matches_from(words).unwrap();
    words_of(&command, &matches, left_out)
}

use super::words as words_of;

#[test]
fn what_was_not_given_is_not_forwarded() {
    assert_eq!(forwarded(&[], &[]), [""; 0]);
}

#[test]
fn short_options_lists_flags_and_names_are_forwarded() {
    let line = [
        "portio-*",
        "-r5",
        "--only",
        "--doorbells",
        "1,10",
        "-C",
        "0,1",
        "--spin=spin",
        "--",
        "-x",
    ];
    assert_eq!(
        forwarded(&line, &[]),
        [
            "--only",
            "--doorbells=1",
            "--doorbells=10",
            "--runs=5",
            "--spin=spin",
            "--cpu=0,1",
            "--",
            "portio-*",
            "-x"
        ]
    );
}

#[test]
fn what_is_left_out_is_not_forwarded() {
    let line = ["--quiet", "--style", "basic", "--runs", "3"];
    assert_eq!(forwarded(&line, &["quiet", "style"]), ["--runs=3"]);
}

#[test]
fn what_is_forwarded_means_the_same() {
    let line = [
        "--all",
        "--backend",
        "kvm,usermode",
        "--min-time=2ms",
        "--warmup",
        "0",
    ];
    let once = forwarded(&line, &[]);
    let words: Vec<&str> = once.iter().map(|word| word.to_str().unwrap()).collect();
    assert_eq!(forwarded(&words, &[]), once);
}
