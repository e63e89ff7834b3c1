//! A variant of the workload as an entry of the bench: one operation is one buffer.

use super::{Role, Threads, WorkloadOptions, run};
use crate::affinity::{self, Pinned};
use crate::{BenchEntry, RunSample, Subject, SubjectError, SubjectSetting};
use vmbell::sync::Mutex;
use vmbell_report::Group;

/// Makes an entry `name` for the variant `options`. The plan, not [`WorkloadOptions::bufs`], sets the number of buffers
/// of a run. The driver runs on the first CPU, the device on the second if there is one.
pub fn entry(name: &str, description: &str, options: WorkloadOptions) -> BenchEntry {
    let subject = name.to_owned();
    let make = move |bench: &crate::SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
        let driver = bench.first_cpu();
        Ok(Box::new(WorkloadSubject {
            name: subject.clone(),
            options,
            driver,
            device: match options.threads {
                Threads::One => None,
                Threads::Two => Some(bench.second_cpu().unwrap_or(driver)),
            },
        }))
    };
    // There is no guest, so this is a cost of the host alone.
    BenchEntry::new(Group::Floor, name, description, make)
}

struct WorkloadSubject {
    name: String,
    options: WorkloadOptions,
    driver: usize,
    device: Option<usize>,
}

impl Subject for WorkloadSubject {
    fn name(&self) -> &str {
        &self.name
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: std::iter::once(self.driver).chain(self.device).collect(),
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let options = WorkloadOptions {
            bufs: ops,
            ..self.options
        };
        let _pinned =
            Pinned::to(&[self.driver]).map_err(|error| SubjectError::failed(&self.name, error))?;
        let unpinned = Mutex::new(None);
        let on_thread = |role| {
            // The driver's thread is the measuring thread, which is already pinned.
            let Some(cpu) = self.device.filter(|_| role == Role::Device) else {
                return;
            };
            if let Err(error) = affinity::pin(&[cpu]) {
                *unpinned.lock() = Some(error);
            }
        };
        let tally =
            run(&options, &on_thread).map_err(|error| SubjectError::failed(&self.name, error))?;
        if let Some(error) = unpinned.into_inner() {
            return Err(SubjectError::failed(&self.name, error));
        }
        let counts = [
            ("kicks", tally.kicks),
            ("calls", tally.calls),
            ("spurious wake-ups", tally.spurious),
            ("resets", tally.resets),
        ];
        Ok(RunSample {
            ops: tally.bufs,
            elapsed_ns: tally.time.as_secs_f64() * 1e9,
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
            ..RunSample::default()
        })
    }
}
