//! What `cargo vmbell-check` builds: which crates are hooked, and that builds with different flags are not mixed.
//!
//! The application's own test, `fixture/app/tests/hooks.rs`, asserts what the stand-in for the checker sees of each
//! operation. The test knows from the environment and from `cfg(vmbell_check)` what to expect.

use std::fs;

use crate::support::{Fixture, compiled, stderr, succeed};

const APP: [&str; 3] = ["test", "-p", "app"];
const ALL: [&str; 4] = ["app", "macros", "subject", "vmbell-check"];
const HOST: &str = "x86_64-unknown-linux-gnu";

#[test]
fn builds_are_hooked_and_never_mixed_with_those_of_cargo_test() {
    let fixture = Fixture::new();
    let plain = |fixture: &Fixture| succeed(fixture.cargo().args(APP));
    let check = |fixture: &Fixture| succeed(fixture.check().args(APP));

    assert_eq!(compiled(&plain(&fixture)), ALL);
    let first = check(&fixture);
    assert_eq!(compiled(&first), ALL);
    assert!(
        first.contains("hooking loads, stores, atomic operations and fences with rustc"),
        "{first}"
    );
    // After switching back and forth, `cargo test` and the checker each find their own build complete, and the test
    // passes.
    assert!(compiled(&plain(&fixture)).is_empty());
    assert!(compiled(&check(&fixture)).is_empty());

    // Runs cargo without the wrapper in the checker's folder: makes a stale build that the checker must not use.
    let builds = fixture.builds();
    let mut by_hand = fixture.cargo();
    by_hand
        .args(["test", "--tests", "--target", HOST, "-p", "app"])
        .env("CARGO_TARGET_DIR", &builds[0]);
    assert_eq!(compiled(&succeed(&mut by_hand)), ALL);
    check(&fixture);

    // Each set of flags has its own folder.
    let atomics = succeed(fixture.check().args(APP).arg("--atomics-only"));
    assert_eq!(compiled(&atomics), ALL);
    assert!(
        atomics.contains("plain and volatile loads and stores are not hooked"),
        "{atomics}"
    );
    assert!(
        atomics.contains("builds of other toolchains or flags: 1 "),
        "{atomics}"
    );
    assert_eq!(fixture.builds().len(), 2);
    check(&fixture);

    let removed = succeed(fixture.check().arg("clean"));
    assert!(removed.contains("removed"), "{removed}");
    assert!(fixture.builds().is_empty());
    assert!(compiled(&plain(&fixture)).is_empty());
}

#[test]
fn flags_profile_and_wrapper_of_the_user_stay_in_effect() {
    let fixture = Fixture::new();
    let log = fixture.path().join("wrapper.log");
    let wrapper = fixture.script(
        "wrapper",
        &format!("echo \"$@\" >> '{}'\nexec \"$@\"", log.display()),
    );
    fs::create_dir(fixture.path().join(".cargo")).unwrap();
    let config = format!("[target.{HOST}]\nrustflags = [\"--cfg=of_the_configuration\"]\n");
    fs::write(fixture.path().join(".cargo/config.toml"), config).unwrap();
    // `panic=abort` is allowed here: cargo ignores it for tests, and the program does not contain the checker.
    let elsewhere = fixture.path().join("elsewhere");
    succeed(
        fixture
            .check()
            .args(APP)
            .arg("--target-dir=elsewhere")
            .env("RUSTC_WRAPPER", &wrapper)
            .env("CARGO_PROFILE_DEV_PANIC", "abort")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
    );
    assert!(fixture.builds().is_empty());
    assert_eq!(
        fs::read_dir(elsewhere.join("vmbell-check"))
            .unwrap()
            .count(),
        1
    );

    let log = fs::read_to_string(log).unwrap();
    let call = |name: &str| {
        let crate_name = format!("--crate-name {name} ");
        log.lines()
            .find(|line| line.contains(&crate_name))
            .unwrap_or_else(|| panic!("no {name} in {log}"))
    };
    for (name, hooked) in [
        ("subject", true),
        ("app", true),
        ("hooks", true),
        ("vmbell_check", false),
    ] {
        let call = call(name);
        assert_eq!(call.contains("-Zsanitizer=thread"), hooked, "{call}");
        assert!(call.contains("--cfg=vmbell_check"), "{call}");
        assert!(call.contains("--cfg=of_the_configuration"), "{call}");
        assert!(call.contains("opt-level=1"), "{call}");
    }
    for name in ["build_script_build", "macros", "probe"] {
        let call = call(name);
        assert!(
            !call.contains("sanitizer") && !call.contains("vmbell_check"),
            "{call}"
        );
    }
}

#[test]
fn checker_that_aborts_on_panic_is_refused() {
    let fixture = Fixture::new();
    let output = fixture
        .check()
        .args(APP)
        .env("RUSTFLAGS", "-Cpanic=abort")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(
        message.contains("error: vmbell-check is compiled with panic=abort"),
        "{message}"
    );
}

#[test]
fn checker_that_lacks_a_hook_does_not_link() {
    let fixture = Fixture::new();
    let source = fixture.path().join("engine/src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("__tsan_write2 \"write2\",", "")).unwrap();
    let output = fixture.check().args(APP).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    // The message of lld or of GNU ld: the linker takes all of the spare hooks or none.
    let message = stderr(&output);
    let collide = ["duplicate symbol", "multiple definition"]
        .iter()
        .any(|words| message.contains(words));
    assert!(collide && message.contains("__tsan_"), "{message}");
}

#[test]
fn program_is_built_and_run() {
    let fixture = Fixture::new();
    let output = fixture
        .check()
        .args(["run", "-q", "-p", "app"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "7 96\n",
        "{}",
        stderr(&output)
    );
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn failed_test_is_status_1() {
    let fixture = Fixture::new();
    let test = "#[test]\nfn fails() { vmbell_check::watch(0, 0); panic!(\"on purpose\"); }\n";
    fs::write(fixture.path().join("app/tests/hooks.rs"), test).unwrap();
    let output = fixture.check().args(APP).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("on purpose"));
}

/// A test of the application leaves a record, as the checker does.
#[test]
fn records_of_weaker_orders_make_a_table_and_files() {
    let fixture = Fixture::new();
    let record = r##"{"version":2,"program":"hooks","test":"weak","number":0,
        "unchanged":[{"model":"RC11","executions":3}],"minimal":true,"explorations":1,"executions":4,
        "sites":[{"file":"subject/src/lib.rs","line":7,"function":"take","owner":"tested code","operation":"load",
        "order":"Acquire","effects":{"RC11":{"least":"Relaxed","limit":null,"breaks":[]}},"together":"Relaxed"}]}"##;
    let test = format!(
        "#[test]\nfn weak() {{ vmbell_check::watch(0, 0);\n\
         let site = std::env::var(\"VMBELL_CHECK_WEAKEN_SITE\").unwrap_or_default();\n\
         if site == \"none.rs:1\" {{ return; }}\n\
         let folder = std::env::var(\"VMBELL_CHECK_WEAKEN\").unwrap();\n\
         std::fs::write(folder + \"/1-0.json\", r##\"{record}\"##).unwrap(); }}\n"
    );
    fs::write(fixture.path().join("app/tests/hooks.rs"), test).unwrap();
    let weaken = |options: &[&str]| {
        let args = [&APP[..], &["-q", "--weaken"], options].concat();
        let output = fixture.check().args(args).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), stdout, stderr(&output))
    };
    let (code, text, errors) =
        weaken(&["--export-json=table.json", "--export-markdown", "table.md"]);
    assert_eq!(code, Some(0), "{errors}");
    let row = "subject/src/lib.rs:7  take      load Acquire  not needed  Relaxed   no test";
    assert!(text.contains(row), "{text}");
    assert!(
        errors.contains("1 exploration with changes, 4 executions"),
        "{errors}"
    );
    let file = |name| fs::read_to_string(fixture.path().join(name)).unwrap();
    assert!(file("table.md").contains("| take | load Acquire | not needed |"));
    assert!(file("table.json").contains("\"result\": \"not needed\""));
    let builds = fixture.builds();
    let left = fs::read_dir(&builds[0]).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.starts_with("weaken-")));

    let (_, text, errors) = weaken(&["--export-json", "-"]);
    assert!(text.starts_with("{\n") && text.ends_with("}\n"), "{text}");
    assert!(
        errors.contains(row) && errors.contains("test result: ok"),
        "{errors}"
    );
    assert!(!fixture.path().join("-").exists());
    let (code, _, errors) = weaken(&["--export-json=-", "--export-html=-"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("can go to standard output"), "{errors}");

    assert_eq!(weaken(&["--fail-unneeded"]).0, Some(1));
    let (code, _, errors) = weaken(&["--site=none.rs:1"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no test explores a scenario"), "{errors}");
}
