//! Measures subjects side by side and makes a report of the results.
//!
//! A [`Subject`] performs operations and times them from inside. A [`BenchEntry`] of the [catalogue](catalogue::all)
//! makes a subject. [`run`] measures many subjects interleaved, according to a [`BenchPlan`], and keeps a [`Record`].
//! [`compare`] decides which row is compared with which, and [`assemble()`] turns the record into a report with
//! medians, spreads and ratios.
//!
//! ```
//! use vmbell::sync::Mutex;
//! use std::time::{Duration, Instant};
//! use vmbell_bench::{
//!     BenchEntry, BenchPlan, CommandLimit, Record, RunSample, SilentObserver, Subject, SubjectError,
//!     SubjectOptions, TickClock, run,
//! };
//! use vmbell_hypervisor::SpinPolicy;
//! use vmbell_report::{Group, Timing};
//!
//! struct Yield;
//!
//! impl Subject for Yield {
//!     fn name(&self) -> &str {
//!         "yield"
//!     }
//!
//!     fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
//!         let started = Instant::now();
//!         (0..ops).for_each(|_| std::thread::yield_now());
//!         let elapsed_ns = started.elapsed().as_secs_f64() * 1e9;
//!         Ok(RunSample { ops, elapsed_ns, ..RunSample::default() })
//!     }
//! }
//!
//! let entries = [BenchEntry::new(Group::Scenario, "yield", "sched_yield(2)", |_| Ok(Box::new(Yield)))];
//! let options = SubjectOptions {
//!     cpus: vec![0],
//!     spin: SpinPolicy::Sleep,
//!     clock: TickClock::with_frequency(1e9, true),
//!     limit: CommandLimit::none(),
//!     timing: Timing::Native,
//!     marks: None,
//! };
//! let plan = BenchPlan { runs: 3, min_time: Duration::from_millis(1), ..BenchPlan::default() };
//! let record = Mutex::new(Record::of(&entries));
//! run(&entries, &options, &plan, &record, &mut SilentObserver);
//! assert_eq!(record.into_inner().series[0].samples.len(), 3);
//! ```
//!
//! Everything in a run happens on the one thread that calls [`run`]; subjects may start their own.

pub mod affinity;
mod assemble;
mod calibrate;
pub mod catalogue;
mod clock;
pub mod compare;
mod cpu_time;
pub mod cpuid;
mod cpuinfo;
mod debug;
mod entry;
mod floors;
pub mod host;
mod kernel_memory;
mod limit;
pub mod marks;
mod memory;
pub mod perf;
mod plan;
mod ratios;
mod record;
mod runner;
pub mod scenario;
mod select;
pub mod stat;
mod subject;
pub mod timing;
pub mod workload;

pub use assemble::{ReportFacts, assemble, paths};
pub use clock::{ClockError, TickClock};
pub use cpu_time::CpuTime;
pub use entry::{BenchEntry, HOST, NeededDevice, Remarks, SubjectFactory};
pub use limit::{CommandLimit, EarlyStop, LimitedRun};
pub use plan::BenchPlan;
pub use record::{Record, SampleSeries};
pub use runner::{BenchPhase, Observer, SilentObserver, overtime, run};
pub use select::{SelectError, WantedEntries, did_you_mean, picks, select, set_reference, similar};
pub use subject::{RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting};
