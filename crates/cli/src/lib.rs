//! The command line: one file a subcommand, and the only place that names a backend.
//!
//! Results go to stdout and everything else to stderr, so that `vmbell bench --export-json - | jq`
//! needs no further flag. `exit` has the exit statuses.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

// Its macros are for all others.
#[macro_use]
mod output;

mod advice;
mod args;
mod backends;
mod bench;
mod bench_args;
mod columns;
mod compare;
mod compare_args;
mod completions;
mod confine;
mod deliver;
mod exit;
mod exports;
mod features;
mod gate;
mod given;
mod interleave;
mod interrupt;
mod kvm_trace;
mod lab;
mod list;
mod locale;
mod man;
mod measure_args;
mod measured;
mod net;
mod probe;
mod probe_devices;
mod process;
mod program;
mod progress;
mod remedy;
mod report;
mod run;
mod run_image;
mod stat;
mod style;
mod suggest;
mod suites;
mod supervise;
mod text;
mod time_unit;
mod top;
mod values;
mod version;
mod virtqueue;
mod vmm;
// The unit tests wait as those of the library do.
#[cfg(test)]
#[path = "../../vmm/tests/harness/wait.rs"]
mod wait;

pub use run::main;
