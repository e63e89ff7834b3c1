//! The progress bar, on stderr and only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use vmbell_bench::{Observer, Phase, Sample};
use vmbell_report::Status;
use vmbell_report::units;

/// A progress bar that is drawn between runs, on the measuring thread: a thread that redraws it by a
/// timer would take CPU time from what is measured.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A progress bar; it draws nothing unless `shown`.
    pub(super) fn new(shown: bool) -> Self {
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{prefix:<10} [{bar:30}] {pos}/{len}, {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar }
    }
}

impl Observer for Progress {
    fn phase(&mut self, phase: Phase, steps: u64) {
        self.bar.set_prefix(match phase {
            Phase::Calibrate => "Calibrate",
            Phase::WarmUp => "Warm up",
            Phase::Measure => "Measure",
        });
        self.bar.set_length(steps);
        self.bar.set_position(0);
        self.bar.reset_eta();
    }

    fn step(&mut self, name: &str, sample: Option<&Sample>) {
        self.bar.set_message(match sample {
            Some(sample) => format!("{name} {}", units::time(sample.ns_per_op())),
            None => name.to_owned(),
        });
        self.bar.inc(1);
    }

    fn lost(&mut self, name: &str, status: Status, reason: &str) {
        self.bar
            .println(format!("{name} {}: {reason}", status.name()));
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
