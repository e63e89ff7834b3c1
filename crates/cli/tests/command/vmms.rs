//! `vmbell bench vmms` with doubles of VMMs: shell scripts that print what a VMM would.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use predicates::prelude::*;
use tempfile::TempDir;

use super::common::{read_json, stdout, vmbell};
use super::doubles::{Doubles, printed, shared};
use super::report::read_valid;

#[test]
fn vmms_stand_side_by_side_and_the_best_is_marked() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000));
    let text = stdout(&mut doubles.command("one two", "--runs 2"));
    assert_eq!(shared(&text, "cpuid"), "cpuid 100 ns* 200 ns", "{text}");
    assert!(text.contains("boots by pvh"), "{text}");
    assert!(text.contains("the FADT names no PM timer"), "{text}");
}

#[test]
fn ratios_are_to_the_first_vmm() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000));
    let text = stdout(&mut doubles.command("two one", "--runs 1 --ratios"));
    assert_eq!(shared(&text, "cpuid"), "cpuid 1 0.50*", "{text}");
}

#[test]
fn vmms_take_turns_in_the_order_of_a_seed() {
    let mut doubles = Doubles::new();
    let (log, report) = (doubles.path("log"), doubles.path("report.json"));
    for name in ["a", "b", "c"] {
        doubles = doubles.boots_after(&format!("printf {name} >> $folder/log"), name);
    }
    let order = |seed: &str| {
        let _ = fs::remove_file(&log);
        let args = format!("--runs 9 --export-json {report} {seed}");
        doubles.command(&["a", "b", "c"], &args).assert().code(0);
        fs::read_to_string(&log).unwrap()
    };
    let first = order("");
    let turns: BTreeSet<&[u8]> = first.as_bytes().chunks(3).collect();
    let whole = turns
        .iter()
        .all(|turn| b"abc".iter().all(|vmm| turn.contains(vmm)));
    assert!(first.len() == 27 && whole, "{first}");
    // All nine turns have the same order by chance less than once in a million runs.
    assert!(turns.len() > 1, "{first}");
    let seed = read_json(Path::new(&report))["seed"].to_string();
    assert_eq!(order(&format!("--seed {seed}")), first);
}

#[test]
fn a_vmm_is_given_the_image_its_words_a_disk_and_the_cpus_that_are_asked_for() {
    let script =
        "head -c 4 $1 > $folder/seen; echo \" $2\" >> $folder/seen; wc -c < $3 >> $folder/seen
        grep Cpus_allowed_list /proc/self/status >> $folder/seen";
    let doubles = Doubles::new().boots_after(script, "one");
    let report = doubles.path("report.json");
    let args =
        format!("--runs 1 --ops 7 --batches 3 --rows cpuid,timer --cpu 0 --export-json {report}");
    doubles.command("one", &args).assert().code(0);
    assert_eq!(
        fs::read_to_string(doubles.path("seen")).unwrap(),
        "\x7fELF ops=7 batches=3 verbose only=cpuid,timer\n1048576\nCpus_allowed_list:\t0\n"
    );
    let cpus = &read_json(Path::new(&report))["cpus"];
    assert_eq!(cpus, &serde_json::json!([0]));
}

#[test]
fn what_is_exported_conforms_to_the_schema() {
    let doubles = Doubles::new()
        .prints("one", &printed(1000))
        .prints("two", &printed(2000))
        .prints("bad", "");
    let report = doubles.path("report.json");
    let args = ["--style", "none", "--export-json", &report];
    doubles
        .command(&["one", "two", "bad"], &args)
        .assert()
        .code(1);
    let report = read_valid(Path::new(&report));
    let ratio = &report["results"][2]["ratio"];
    assert_eq!(
        (&ratio["reference"], &ratio["value"]),
        (&"cpuid (one)".into(), &2.0.into())
    );
}

#[test]
fn markdown_and_csv_can_go_to_stdout() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let text = stdout(&mut doubles.command("one", "--export-markdown -"));
    assert!(text.contains("| `cpuid` | 100 ns |"), "{text}");
    let text = stdout(&mut doubles.command("one", "--runs 1 --export-csv -"));
    assert!(text.contains("cpuid,scenario,one,,1,10,100\n"), "{text}");
}

#[test]
fn what_a_vmm_printed_can_be_kept() {
    let doubles = Doubles::new().script("one", "echo out; echo err >&2");
    let kept = doubles.path("kept");
    doubles
        .command(&["one"], &["--keep", &kept])
        .assert()
        .code(1);
    let read = |name: &str| fs::read_to_string(Path::new(&kept).join(name)).unwrap();
    assert_eq!(
        (&*read("one-1.log"), &*read("one-1.err")),
        ("out\n", "err\n")
    );
}

#[test]
fn the_list_says_where_programs_are() {
    let text = stdout(vmbell("list vmms").env("PATH", "/nonexistent"));
    assert!(
        text.contains("alioth            not found: alioth is not on PATH\n"),
        "{text}"
    );
    assert!(
        shared(&text, "vmbell").contains(concat!(" vmbell ", env!("CARGO_PKG_VERSION"), " (")),
        "{text}"
    );
}

#[test]
fn the_image_can_be_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("probe.elf");
    let args = ["bench", "vmms", "image", "-o", path.to_str().unwrap()];
    vmbell(&args).assert().code(0);
    assert_eq!(&fs::read(&path).unwrap()[..4], b"\x7fELF");
    let args = [
        "bench",
        "vmms",
        "image",
        "-o",
        path.to_str().unwrap(),
        "--format",
        "bzimage",
    ];
    vmbell(&args).assert().code(0);
    assert_eq!(&fs::read(&path).unwrap()[0x202..0x206], b"HdrS");
}

#[test]
fn an_image_that_cannot_be_written_is_an_error() {
    vmbell("bench vmms image -o /nonexistent/probe.elf")
        .assert()
        .code(1)
        .stderr(predicate::str::contains(
            "cannot write the image to '/nonexistent/probe.elf': No such file or directory",
        ));
}

#[test]
fn every_command_that_measures_says_what_to_doubt() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    let commands = [
        doubles.command("one", "--runs 1"),
        vmbell("bench debug-constant -v --runs 2"),
        vmbell("bench eoi --backend usermode --deterministic -n 9"),
        vmbell("bench rings --bufs 500 --one-thread --cpu 0"),
    ];
    for mut command in commands {
        // The CPU counts as emulated, which is a reason to doubt all times.
        let assert = command.env("VMBELL_TIMING", "emulated").assert();
        let said = "warning: the CPU is emulated; counts are exact";
        assert.stderr(predicate::str::contains(said));
    }
    let mut quiet = doubles.command("one", "--runs 1 --quiet");
    let assert = quiet.env("VMBELL_TIMING", "emulated").assert();
    assert.stderr(predicate::str::contains("warning").not());
}

#[test]
fn a_row_that_does_not_exist_is_refused_before_anything_boots() {
    let doubles = Doubles::new();
    let booted = doubles.path("booted");
    let doubles = doubles.script("one", &format!(": > '{booted}'\n"));
    for (rows, hint) in [
        (
            "nope",
            "no row has this name; the rows are cpuid, hypercall, ",
        ),
        ("cpuid,cpiud", "no row has this name, did you mean 'cpuid'?"),
        ("cpuid,", "no row has this name"),
        ("linux-boot", "the row linux-boot needs --linux"),
        (
            "virtio-net-notify",
            "the row virtio-net-notify needs the device net: add it to --virtio",
        ),
    ] {
        doubles
            .command(&["one"], &["--rows", rows])
            .assert()
            .code(2)
            .stderr(predicate::str::contains(hint));
    }
    assert!(!Path::new(&booted).exists());
}

#[test]
fn vmms_that_measure_no_row_are_no_success() {
    let numbers = "\"operations\":10,\"samples\":[1000,1000,1000]";
    let nothing = printed(1000).replace(numbers, "\"reason\":\"it did not come\"");
    Doubles::new()
        .prints("one", &nothing)
        .command("one", "--runs 1")
        .assert()
        .code(77)
        .stdout(predicate::str::contains("it did not come"));
}

#[test]
fn one_batch_of_one_operation_has_no_plural() {
    let doubles = Doubles::new().prints("one", &printed(1000));
    doubles
        .command("one", "--runs 1 --batches 1 --ops 1")
        .assert()
        .stdout(predicate::str::contains(
            "1 batch of 1 operation of each row",
        ));
}
