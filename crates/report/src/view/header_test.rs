use super::*;
use crate::sample;

/// What a line says of a report with this change.
fn line(of: fn(&Report) -> String, change: impl FnOnce(&mut Report)) -> String {
    let mut report = sample::report();
    change(&mut report);
    of(&report)
}

#[test]
fn mitigations_that_are_on_come_before_those_that_are_left_open() {
    let (on, open) = (("meltdown", "Mitigation: PTI"), ("mds", "Vulnerable"));
    for (found, expected) in [
        (&[on, open][..], "meltdown; left open: mds"),
        (&[on], "meltdown"),
        (&[open], "left open: mds"),
        (&[], "none"),
    ] {
        let text = line(mitigations, |report| {
            let all = found.iter();
            let all = all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            report.host.mitigations = all.collect();
        });
        assert_eq!(text, expected, "{found:?}");
    }
}

#[test]
fn the_cpus_say_what_runs_on_which() {
    for (pinned, spins, expected) in [
        (&[][..], true, "not pinned"),
        (&[3], true, "everything on 3"),
        (&[3, 3], true, "everything on 3"),
        (
            &[0, 2, 3],
            true,
            "guest on 0, its VMM and threads that wait for a doorbell on 2,3",
        ),
        (
            &[0, 2],
            false,
            "guest and its VMM on 0, threads that wait for a doorbell on 2",
        ),
    ] {
        let text = line(cpus, |report| {
            report.cpus = pinned.to_vec();
            for row in report.results.iter_mut().filter(|_| !spins) {
                row.setting.spin = None;
            }
        });
        assert_eq!(text, expected, "{pinned:?}");
    }
}

#[test]
fn a_host_is_told_with_what_is_known_of_it() {
    let text = line(host, |_| {});
    assert_eq!(
        text,
        "Linux 6.18.0, Example(R) CPU @ 2.50GHz, microcode 0x1, 2 CPUs, SMT off, itself under KVM, load 0.25"
    );
    let text = line(host, |report| {
        let host = &mut report.host;
        (host.cpus, host.smt, host.governor) = (1, Some(true), Some("powersave".to_owned()));
        (host.microcode, host.hypervisor, host.load) = (None, None, None);
    });
    assert_eq!(
        text,
        "Linux 6.18.0, Example(R) CPU @ 2.50GHz, 1 CPU, SMT on, governor powersave"
    );
    let text = line(host, |report| report.host.cpus = 0);
    assert!(text.contains(", an unknown number of CPUs, "), "{text}");
}

#[test]
fn the_quality_names_a_busy_host_and_rows_that_spread() {
    let good = "good: the host was quiet, and no row spreads by more than 10 %";
    let busy = "busy host, load 9.0 on 2 CPUs";
    let wide = "1 of 6 rows spread by more than 10.0 %";
    for (load, spread, expected) in [
        (0.25, 0.015, good.to_owned()),
        (9.0, 0.015, busy.to_owned()),
        (0.25, 0.5, wide.to_owned()),
        (9.0, 0.5, format!("{busy}; {wide}")),
    ] {
        let text = line(quality, |report| {
            report.host.load = Some(load);
            sample::of(&mut report.results[0]).times.spread = Some(spread);
        });
        assert_eq!(text, expected);
    }
}

#[test]
fn runs_say_how_long_they_were_and_what_ended_them() {
    let text = line(runs, |_| {});
    assert_eq!(
        text,
        "4 of about 15.0 ms each, interleaved in random order (seed 42), 1 warm-up round, 12.3 s in all"
    );
    let text = line(runs, |report| {
        (report.plan.finished, report.plan.warmup) = (3, 0);
        (report.plan.ops, report.interrupted) = (Some(1000), true);
    });
    assert_eq!(
        text,
        "3 (of 4 wanted) of 1000 operations each, interleaved in random order (seed 42), no warm-up, 12.3 s in all\
         ; INTERRUPTED before the end"
    );
    let text = line(runs, |report| {
        (report.plan.warmup, report.plan.ops) = (2, Some(2000));
        report.timed_out = true;
    });
    assert_eq!(
        text,
        "4 of 1000 to 2000 operations each, interleaved in random order (seed 42), 2 warm-up rounds, 12.3 s in all\
         ; TIME LIMIT reached before the end"
    );
}
