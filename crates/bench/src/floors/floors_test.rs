//! Each floor runs, and its runs end.

use std::time::Duration;

use super::*;
use crate::affinity::{allowed_cpus, default_pair};
use crate::{CommandLimit, RunSample, SubjectError, SubjectOptions, TickClock};
use vmbell_hypervisor::SpinPolicy;

fn options(cpus: Vec<usize>) -> SubjectOptions {
    SubjectOptions {
        cpus,
        spin: SpinPolicy::Sleep,
        clock: TickClock::with_frequency(1e9, true),
        limit: CommandLimit::none(),
        timing: vmbell_report::Timing::Native,
        marks: None,
    }
}

fn run(name: &str, options: &SubjectOptions, ops: u64) -> Result<RunSample, SubjectError> {
    let entry = entries()
        .into_iter()
        .find(|entry| entry.name() == name)
        .unwrap();
    let mut subject = entry.subject(options)?;
    assert_eq!(subject.name(), name);
    subject.run(ops)
}

#[test]
fn every_floor_performs_what_it_is_asked_for() {
    let options = options(default_pair(&allowed_cpus().unwrap()));
    for entry in entries() {
        match run(entry.name(), &options, 50) {
            Ok(sample) => {
                assert_eq!(sample.ops, 50, "{}", entry.name());
                assert!(sample.elapsed_ns > 0.0, "{}", entry.name());
                assert_eq!((sample.light, sample.heavy), (None, 0));
            }
            Err(SubjectError::Skipped(_)) if options.second_cpu().is_none() => {}
            Err(error) => panic!("{}: {error}", entry.name()),
        }
    }
}

#[test]
fn floors_across_cores_are_skipped_on_one_cpu() {
    let options = options(vec![allowed_cpus().unwrap()[0]]);
    for entry in entries() {
        let name = entry.name();
        let is_skipped = matches!(run(name, &options, 1), Err(SubjectError::Skipped(_)));
        assert_eq!(is_skipped, needs_two_cpus(name), "{name}");
    }
}

#[test]
fn an_absent_cpu_fails_instead_of_hanging() {
    let here = allowed_cpus().unwrap()[0];
    for cpus in [vec![here, 1023], vec![1023, here]] {
        assert!(matches!(
            run(round_trip::CROSS_CORE, &options(cpus), 1),
            Err(SubjectError::Failed { .. })
        ));
    }
}

#[test]
fn every_floor_ends_by_its_limit() {
    let mut options = options(default_pair(&allowed_cpus().unwrap()));
    options.limit = CommandLimit::none().with_run_timeout(Some(Duration::from_millis(50)));
    for entry in entries() {
        let mut subject = match entry.subject(&options) {
            Ok(subject) => subject,
            Err(SubjectError::Skipped(_)) if options.second_cpu().is_none() => continue,
            Err(error) => panic!("{}: {error}", entry.name()),
        };
        let _running = options.limit.begin_run();
        let ended = subject.run(1 << 40);
        assert!(
            matches!(ended, Err(SubjectError::TimedOut { .. })),
            "{}: {ended:?}",
            entry.name()
        );
    }
}
