//! Tests of the command line.

use std::ffi::OsString;

use super::{Invocation, Request, parse};
use crate::hooks::Hooks;

fn invocation(args: &[&str]) -> Invocation {
    match parse(args.iter().map(OsString::from).collect()).unwrap() {
        Request::Cargo(invocation) => invocation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_of_cargo_pass_unchanged() {
    let args = [
        "test",
        "--test",
        "rings",
        "lost",
        "--features=a b",
        "--",
        "--atomics-only",
        "--help",
        "-q",
    ];
    let invocation = invocation(&args);
    assert_eq!(invocation.cargo_args, args[1..]);
    assert_eq!(invocation.hooks, Hooks::All);
    assert!(!invocation.quiet);
}

#[test]
fn doc_tests_are_left_out_unless_targets_are_chosen() {
    assert_eq!(
        invocation(&["test", "name"]).cargo_args,
        ["name", "--tests"]
    );
    assert_eq!(
        invocation(&["t", "--", "name"]).cargo_args,
        ["--tests", "--", "name"]
    );
    for chosen in ["--lib", "--bins", "--test=a", "--all-targets"] {
        assert_eq!(invocation(&["test", chosen]).cargo_args, [chosen]);
    }
    assert!(invocation(&["build"]).cargo_args.is_empty());
    assert!(matches!(
        parse(vec!["test".into(), "--doc".into()]),
        Err(crate::error::Error::DocTests)
    ));
}

#[test]
fn own_options_are_taken_out() {
    for (target, folder) in [
        (&["--target=t"][..], &["--target-dir", "d"][..]),
        (&["--target", "t"], &["--target-dir=d"]),
    ] {
        let args = [&["run", "--atomics-only"], target, folder].concat();
        let invocation = invocation(&args);
        assert_eq!(invocation.hooks, Hooks::Atomics);
        assert_eq!(invocation.target.as_deref(), Some("t"));
        assert_eq!(invocation.target_dir.as_deref(), Some("d".as_ref()));
        assert!(invocation.cargo_args.is_empty());
    }
}

#[test]
fn the_options_of_weaken_are_taken_out_and_refused_without_it() {
    let invocation = invocation(&[
        "test",
        "--weaken",
        "--site=ring.rs:7",
        "--bound",
        "900",
        "--test",
        "rings",
    ]);
    assert_eq!(invocation.cargo_args, ["--test", "rings"]);
    assert_eq!(invocation.weaken.site.as_deref(), Some("ring.rs:7"));
    assert_eq!(invocation.weaken.bound, Some(900));
    for (args, message) in [
        (
            &["test", "--fail-unneeded"][..],
            "`--fail-unneeded` needs --weaken",
        ),
        (&["test", "--site", "a.rs:1"], "`--site` needs --weaken"),
        (&["run", "--weaken"], "only `cargo vmbell-check test`"),
        (
            &["test", "--weaken", "--site", "ring.rs"],
            "is not FILE:LINE",
        ),
        (&["test", "--weaken", "--bound=0"], "is not a number"),
    ] {
        let error = parse(args.iter().map(OsString::from).collect()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.status(), 2);
    }
}

#[test]
fn packages_and_configuration_are_noted_in_each_form() {
    let invocation = invocation(&[
        "build",
        "-pa",
        "-p",
        "b",
        "--package=c@1",
        "--config",
        "x=1",
        "-Zy",
        "--locked",
    ]);
    assert_eq!(invocation.packages, ["a", "b", "c@1"]);
    assert_eq!(invocation.config_args, ["--config", "x=1"]);
    assert_eq!(
        invocation.metadata_args,
        ["--config", "x=1", "-Z", "y", "--locked"]
    );
    let given = [
        "--package",
        "a",
        "--package",
        "b",
        "--package",
        "c@1",
        "--config",
        "x=1",
        "-Z",
        "y",
        "--locked",
    ];
    assert_eq!(invocation.cargo_args, given);
}

#[cfg(unix)]
#[test]
fn argument_that_is_not_utf8_is_left_to_cargo() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(vec![b'-', b'p', 0xff]);
    match parse(vec!["build".into(), odd.clone()]).unwrap() {
        Request::Cargo(invocation) => assert_eq!(invocation.cargo_args, [odd]),
        other => panic!("{other:?}"),
    }
}
