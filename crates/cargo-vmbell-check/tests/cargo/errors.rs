//! What `cargo vmbell-check` refuses before it compiles anything: each error is one line, and the exit status says who
//! has to fix it.

use std::fs;

use crate::support::{Fixture, fail};

#[test]
fn wrong_arguments_are_status_2() {
    let fixture = Fixture::new();
    let cases: [(&[&str], &str); 6] = [
        (&[], "no command given: try `cargo vmbell-check test`"),
        (&["tset"], "unknown command `tset`"),
        (&["test", "--package"], "`--package` needs a value"),
        (&["test", "--doc"], "doc tests cannot be checked"),
        (
            &["test", "-p", "bare"],
            "nothing would be checked: `bare` does not depend on vmbell-check",
        ),
        (
            &["test", "--manifest-path", "none/Cargo.toml"],
            "manifest path `none/Cargo.toml` does not exist",
        ),
    ];
    for (args, expected) in cases {
        let message = fail(fixture.check().args(args), 2);
        assert!(message.starts_with(expected), "{args:?}: {message}");
    }
}

#[test]
fn package_of_the_current_folder_is_the_one_that_must_depend_on_the_checker() {
    let fixture = Fixture::new();
    let message = fail(
        fixture
            .check()
            .arg("test")
            .current_dir(fixture.path().join("bare")),
        2,
    );
    assert!(
        message.contains("`bare` does not depend on vmbell-check"),
        "{message}"
    );
    fs::remove_dir_all(fixture.path().join("app")).unwrap();
    let manifest = fixture.path().join("Cargo.toml");
    fs::write(&manifest, "[workspace]\nmembers = [\"bare\"]\n").unwrap();
    let message = fail(fixture.check().args(["test", "--workspace"]), 2);
    assert!(
        message.contains("`bare` does not depend on vmbell-check"),
        "{message}"
    );
}

#[test]
fn folder_without_a_package_is_an_error() {
    let fixture = Fixture::new();
    let empty = tempfile::tempdir().unwrap();
    let message = fail(fixture.check().arg("test").current_dir(empty.path()), 2);
    assert!(
        message.starts_with("could not find `Cargo.toml` in"),
        "{message}"
    );
}

#[test]
fn wrapper_of_the_workspace_is_refused() {
    let fixture = Fixture::new();
    for name in [
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    ] {
        let message = fail(fixture.check().arg("test").env(name, "other"), 2);
        assert!(
            message.starts_with("RUSTC_WORKSPACE_WRAPPER is `other`"),
            "{message}"
        );
    }
    let message = fail(
        fixture
            .check()
            .arg("test")
            .env("CARGO_BUILD_RUSTC_WRAPPER", "tools/cache"),
        2,
    );
    assert!(
        message.contains("relative rustc-wrapper `tools/cache`"),
        "{message}"
    );
}

#[test]
fn missing_tools_are_status_1() {
    let fixture = Fixture::new();
    let message = fail(
        fixture.check().arg("test").env("CARGO", "/nowhere/cargo"),
        1,
    );
    assert!(
        message.starts_with("cannot start `/nowhere/cargo`"),
        "{message}"
    );
    let message = fail(
        fixture.check().arg("test").env("RUSTC", "/nowhere/rustc"),
        1,
    );
    assert!(
        message.starts_with("cannot start `/nowhere/rustc`"),
        "{message}"
    );
    let message = fail(fixture.check().arg("test").env("RUSTC", "/bin/true"), 1);
    assert!(
        message.starts_with("cannot read the version of `/bin/true`"),
        "{message}"
    );
}

#[test]
fn other_platform_is_named() {
    let fixture = Fixture::new();
    let message = fail(
        fixture
            .check()
            .args(["test", "--target", "riscv64gc-unknown-linux-gnu"]),
        1,
    );
    assert!(
        message.contains("`riscv64gc-unknown-linux-gnu` is another platform"),
        "{message}"
    );
    let rustc = fixture.script(
        "rustc",
        "echo 'rustc 1.99.0'\necho 'host: riscv64gc-unknown-linux-gnu'",
    );
    let message = fail(fixture.check().arg("test").env("RUSTC", rustc), 1);
    assert!(
        message.contains("`riscv64gc-unknown-linux-gnu` is another platform"),
        "{message}"
    );
}

#[test]
fn toolchain_that_refuses_a_flag_is_named_with_the_flag() {
    let fixture = Fixture::new();
    // Every call without the flag goes to the real compiler.
    let refusing = |flag: &str| {
        let script = format!(
            "for arg; do case \"$arg\" in {flag}*) echo \"error: unknown option\" >&2; exit 1;; esac; done\n\
             exec rustc \"$@\""
        );
        fixture.script("rustc", &script)
    };
    for (flag, args) in [
        ("-Zsanitizer=thread", ["test", "-q"]),
        ("-Zexternal-clangrt", ["test", "-q"]),
        ("-Zshare-generics=n", ["test", "-q"]),
        ("-Cpasses=tsan", ["test", "--atomics-only"]),
    ] {
        let message = fail(fixture.check().args(args).env("RUSTC", refusing(flag)), 1);
        let expected = format!("does not accept `{flag}` (unknown option); install a toolchain");
        assert!(
            message.starts_with("rustc 1.") && message.contains(&expected),
            "{message}"
        );
    }
    let message = fail(
        fixture
            .check()
            .arg("test")
            .env("RUSTC", refusing("--target")),
        1,
    );
    assert!(
        message.contains(" cannot compile for x86_64-unknown-linux-"),
        "{message}"
    );
}

#[test]
fn help_and_version_need_no_package() {
    let fixture = Fixture::new();
    let empty = tempfile::tempdir().unwrap();
    for args in [&["--help"][..], &["test", "--help"], &["test", "-h"]] {
        let output = fixture
            .check()
            .args(args)
            .current_dir(empty.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("cargo add --dev vmbell-check"));
    }
    let output = fixture.check().arg("--version").output().unwrap();
    assert_eq!(
        output.stdout,
        concat!("cargo-vmbell-check ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()
    );
}
