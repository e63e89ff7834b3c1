//! Measures subjects side by side and makes a report of the numbers.
//!
//! A [`Subject`] performs operations and times them from inside. An [`Entry`] of the
//! [catalogue](catalogue::all) makes one. [`run`] measures many of them interleaved by a [`Plan`] and
//! keeps a [`Record`]. [`compare`] decides which row is compared with which, and [`assemble()`] makes a
//! report of the record, with medians, spreads and ratios.
//!
//! ```
//! use std::sync::Mutex;
//! use std::time::{Duration, Instant};
//! use vmbell_bench::{
//!     Clock, Entry, Limit, Options, Plan, Record, Sample, Silent, Subject, SubjectError,
//!     run,
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
//!     fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
//!         let started = Instant::now();
//!         (0..ops).for_each(|_| std::thread::yield_now());
//!         let elapsed_ns = started.elapsed().as_secs_f64() * 1e9;
//!         Ok(Sample { ops, elapsed_ns, ..Sample::default() })
//!     }
//! }
//!
//! let entries = [Entry::new(Group::Scenario, "yield", "sched_yield(2)", |_| Ok(Box::new(Yield)))];
//! let options = Options {
//!     cpus: vec![0],
//!     spin: SpinPolicy::Sleep,
//!     clock: Clock::with_frequency(1e9, true),
//!     limit: Limit::none(),
//!     timing: Timing::Native,
//!     marks: None,
//! };
//! let plan = Plan { runs: 3, min_time: Duration::from_millis(1), ..Plan::default() };
//! let record = Mutex::new(Record::of(&entries));
//! run(&entries, &options, &plan, &record, &mut Silent);
//! assert_eq!(record.into_inner().unwrap().series[0].samples.len(), 3);
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
mod debug;
mod floors;
pub mod host;
mod kernel_memory;
mod limit;
pub mod marks;
mod memory;
mod midr;
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

pub use assemble::{Context, assemble, paths};
pub use catalogue::{Entry, Factory, Remarks};
pub use clock::{Clock, ClockError};
pub use cpu_time::CpuTime;
pub use limit::{EarlyStop, Limit, Running};
pub use plan::Plan;
pub use record::{Record, Series};
pub use runner::{Observer, Phase, Silent, overtime, run};
pub use select::{SelectError, Wanted, picks, select, set_reference};
pub use subject::{Options, Sample, Setting, Subject, SubjectError};
