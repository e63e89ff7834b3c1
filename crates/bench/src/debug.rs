//! Subjects with one fixed behaviour each, so that tests can drive the command to each of its ends.
//! `vmbell list` does not show them and no glob matches them; only their exact names run them.

use std::time::Duration;

use super::{
    BenchEntry, CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting,
};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::Group;

pub(super) fn entries() -> Vec<BenchEntry> {
    let entry =
        |name, description, make: fn(&SubjectOptions) -> Result<Box<dyn Subject>, SubjectError>| {
            BenchEntry::new(Group::Debug, name, description, make)
        };
    vec![
        entry("debug-double", "takes 200 ns, always", |_| {
            Ok(Box::new(Constant {
                name: "debug-double",
                ns: 200.0,
            }))
        })
        .with_reference("debug-constant"),
        entry("debug-constant", "takes 100 ns, always", |_| {
            Ok(Box::new(Constant {
                name: "debug-constant",
                ns: 100.0,
            }))
        }),
        entry("debug-skip", "cannot be measured", |_| {
            Err(SubjectError::Skipped("debug-skip is always skipped".into()))
        }),
        entry("debug-fail", "fails in its first run", |_| {
            Ok(Box::new(Fails))
        }),
        entry("debug-loop", "runs until it is stopped", |options| {
            Ok(Box::new(Loops {
                limit: Some(options.limit.clone()),
            }))
        }),
        entry("debug-stuck", "runs forever and cannot be stopped", |_| {
            Ok(Box::new(Loops { limit: None }))
        }),
    ]
}

/// Reports the same time in every run.
struct Constant {
    name: &'static str,
    ns: f64,
}

impl Subject for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            spin: Some(SpinPolicy::Sleep),
            ..SubjectSetting::default()
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "at most 2^32 operations")]
    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        Ok(RunSample {
            ops,
            elapsed_ns: self.ns * ops as f64,
            light: Some(ops),
            ..RunSample::default()
        })
    }
}

/// Fails in every run.
struct Fails;

impl Subject for Fails {
    fn name(&self) -> &'static str {
        "debug-fail"
    }

    fn run(&mut self, _ops: u64) -> Result<RunSample, SubjectError> {
        Err(SubjectError::failed("debug-fail", "it always does"))
    }
}

/// Runs until the limit ends the run, or forever if there is no limit.
struct Loops {
    limit: Option<CommandLimit>,
}

impl Subject for Loops {
    fn name(&self) -> &'static str {
        "debug-loop"
    }

    fn run(&mut self, _ops: u64) -> Result<RunSample, SubjectError> {
        while self.limit.as_ref().is_none_or(|limit| !limit.is_run_over()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(SubjectError::TimedOut {
            subject: self.name().to_owned(),
        })
    }
}
