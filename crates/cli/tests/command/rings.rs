//! `vmbell bench rings` from outside.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use super::common::{json, stdout, vmbell};
use super::ends::{catches, send};
use assert_cmd::Command;
use kit::signals::hear_signals;
use kit::wait::{await_that, growing};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

/// `vmbell bench rings` with few buffers, on CPU 0, which every host has.
fn quick(words: &str) -> Command {
    vmbell(&format!("bench rings --bufs 500 --runs 3 --cpu 0 {words}"))
}

fn measured(words: &str) -> Value {
    json(quick(words).args(["--export-json", "-", "--style", "none"]))
}

fn variants(report: &Value) -> &[Value] {
    report["results"].as_array().unwrap()
}

fn runs(variant: &Value, of: &str) -> Vec<u64> {
    let runs = [&variant["counts"][of], &variant["events"][of]].map(Value::as_array);
    let runs = runs.into_iter().flatten().flatten();
    runs.map(|run| run.as_u64().unwrap()).collect()
}

fn names(report: &Value) -> Vec<&str> {
    let names = variants(report)
        .iter()
        .map(|variant| variant["command"].as_str().unwrap());
    names.collect()
}

#[test]
fn by_default_three_ways_to_poll_are_compared() {
    quick("").assert().success().stdout(
        contains("switches  --split --event-idx")
            .and(contains("runs      3 runs of each variant"))
            .and(contains("median  ± spread"))
            .and(contains("numbers of one buffer"))
            .and(contains("\n--wrap-counters  --no-wrap-counters  "))
            .and(contains("\n--wide-tokens    --no-wrap-counters  ")),
    );
}

#[test]
fn by_default_a_run_has_the_buffers_that_fit_in_half_a_second() {
    let words = "bench rings --one-thread --runs 1 --cpu 0 --export-json - --style none";
    let report = json(&mut vmbell(words));
    let buffers = variants(&report)[0]["ops"][0].as_u64().unwrap();
    assert!(
        buffers.is_power_of_two() && (4096..=1 << 20).contains(&buffers),
        "{buffers}"
    );
    // The numbers are the same for every variant: one kick for each buffer.
    for variant in variants(&report) {
        assert_eq!(runs(variant, "kicks"), [buffers], "{}", variant["command"]);
    }
}

#[test]
fn every_buffer_is_kicked_and_called_for_when_one_is_in_flight() {
    let report = measured("--one-thread --wrap-counters");
    let variant = &variants(&report)[0];
    for count in ["kicks", "calls"] {
        assert_eq!(runs(variant, count), [500; 3], "{count}");
    }
    assert_eq!(runs(variant, "spurious wake-ups"), [0; 3]);
    assert_eq!(variant["cpus"], serde_json::json!([0]));
    assert_eq!(variant["ratio"], Value::Null);
    assert_eq!(variant["exits"], Value::Null);
}

#[test]
fn a_pair_of_switches_is_measured_in_turns_with_a_ratio() {
    let report = measured("--event-idx --no-event-idx --batch 16 --seed 7");
    assert_eq!(names(&report), ["--no-event-idx", "--event-idx"]);
    assert_eq!(report["seed"], 7);
    let [old, new] = variants(&report) else {
        panic!("two variants");
    };
    assert_eq!(old["ratio"], Value::Null);
    let ratio = &new["ratio"];
    assert_eq!(ratio["reference"], "--no-event-idx");
    let at = |end: &str| ratio[end].as_f64().unwrap();
    assert!(0.0 < at("ci_low") && at("ci_low") <= at("value") && at("value") <= at("ci_high"));
    for variant in [old, new] {
        let times = variant["times"].as_array().unwrap();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|seconds| seconds.as_f64() > Some(0.0)));
    }
    if new["events"]["task-clock"].is_array() {
        assert_eq!(new["ratios"]["task-clock"]["reference"], "--no-event-idx");
    }
}

#[test]
fn events_are_counted_or_the_reason_is_given() {
    let report = measured("--packed --wide-tokens");
    let events = report["work"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 4);
    for event in events {
        let counted = event["scope"].is_string();
        assert_ne!(counted, event["reason"].is_string(), "{event}");
    }
    let instructions = events.last().unwrap();
    let text = stdout(&mut quick("--packed --wide-tokens"));
    match instructions["reason"].as_str() {
        Some(reason) => assert!(text.contains(reason), "{text}"),
        None => assert!(runs(&variants(&report)[0], "instructions")[0] > 500),
    }
}

#[test]
fn resets_are_counted() {
    let report = measured("--one-thread --no-wrap-counters --reset=100 --batch 10");
    assert!(runs(&variants(&report)[0], "resets")[0] >= 4);
    let report = measured("--one-thread --no-wrap-counters --reset");
    assert_eq!(runs(&variants(&report)[0], "resets"), [500; 3]);
}

#[test]
fn all_switches_of_virtio_test_are_taken() {
    for switch in ["event-idx", "indirect", "virtio-1", "delayed-interrupt"] {
        for no in ["", "no-"] {
            quick(&format!("--{no}{switch} --no-wrap-counters"))
                .assert()
                .success();
        }
    }
    quick("--batch=random --wrap-counters").assert().success();
    quick("--batch=7 --no-wrap-counters").assert().success();
}

#[test]
fn help_has_examples() {
    vmbell("bench rings --help")
        .assert()
        .success()
        .stdout(contains("Examples:").and(contains("--wrap-counters")));
}

#[test]
fn an_interrupt_keeps_whole_rounds_and_is_130() {
    let mut command = Process::new(assert_cmd::cargo::cargo_bin!("vmbell"));
    command
        .args(
            "bench rings --bufs 5000 --runs 100000 --one-thread --export-json - --style none"
                .split(' '),
        )
        .stdout(Stdio::piped());
    hear_signals(&mut command);
    let has_rounds = growing(Duration::from_millis(500)).any(|time| {
        let child = command.spawn().unwrap();
        await_that("a handler", || catches(&child, libc::SIGINT));
        std::thread::sleep(time);
        send(&child, libc::SIGINT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(130),
            "{:?}",
            output.status.signal()
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["interrupted"], true);
        let counts: Vec<usize> = variants(&report)
            .iter()
            .map(|variant| runs(variant, "kicks").len())
            .collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        counts[0] > 0
    });
    assert!(has_rounds);
}
