//! Progress messages and bars for the user.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::records::{ProgressStep, StepFilter};
use crate::time_left::TimeLeft;

/// Prints lines to standard error, and a bar if standard error is a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabProgress {
    quiet: bool,
}

/// A bar that shows the size of a folder until it is dropped.
#[derive(Debug)]
pub struct Following {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl LabProgress {
    /// With `quiet`, nothing is printed.
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Prints one line.
    pub fn say(&self, line: impl std::fmt::Display) {
        if !self.quiet {
            // The reader may have closed the pipe (`2>&1 | head`).
            let _ = writeln!(io::stderr(), "lab: {line}");
        }
    }

    /// Shows a bar with the number of bytes in `folder` until the result is dropped. `total` is their final number.
    /// `others` bytes of other files in the folder are not counted.
    pub fn follow(&self, folder: PathBuf, total: u64, others: u64) -> Following {
        let bar = self.bar(
            total,
            "{decimal_bytes:>10} / {decimal_total_bytes} {bar:30} {decimal_bytes_per_sec}{left}",
        );
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (bar, stop) = (bar.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    bar.set_position(folder_size(&folder).saturating_sub(others));
                    thread::park_timeout(Duration::from_millis(200));
                }
            })
        };
        Following {
            bar,
            stop,
            watcher: Some(watcher),
        }
    }

    /// Makes a bar that counts steps.
    pub fn count(&self, total: u64) -> ProgressBar {
        self.bar(total, "{pos:>4} / {len} {bar:30} {msg}")
    }

    /// Shows a spinner until L1's first output.
    pub fn wait(&self) -> WaitingSpinner {
        self.spin("in L1")
    }

    /// Shows a spinner with the elapsed time and the activity `what`, until the result is dropped.
    pub fn spin(&self, what: &'static str) -> WaitingSpinner {
        let bar = progress_bar(!self.quiet, "lab: {spinner} {elapsed} {msg}");
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        WaitingSpinner(bar)
    }

    fn bar(&self, total: u64, template: &str) -> ProgressBar {
        let bar = progress_bar(!self.quiet, template);
        bar.set_length(total);
        bar
    }
}

/// Makes a bar on standard error, if it is `shown` and standard error is a terminal. It is drawn by the thread that
/// moves it, at most five times per second, because that thread may be measuring.
pub fn progress_bar(shown: bool, template: &str) -> ProgressBar {
    let target = match shown {
        true => ProgressDrawTarget::stderr_with_hz(5),
        false => ProgressDrawTarget::hidden(),
    };
    let style = style(template, TimeLeft::default());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// The style of a bar, in whose template `{left}` is the time that is left by this estimate: `, 12s left`.
pub fn style(template: &str, left: TimeLeft) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("left", left)
        .progress_chars("=> ")
}

/// A spinner, shown until it is dropped or a stream of [`around`](Self::around) is written to. It becomes a bar when
/// the program reports its progress.
#[derive(Debug)]
pub struct WaitingSpinner(ProgressBar);

/// The style of the bar.
const STEPS: &str = "lab: {elapsed} [{bar:30}] {pos}/{len}{left}  {wide_msg}";

impl WaitingSpinner {
    /// Wraps `stream`: the first write to it removes the spinner.
    pub fn around<W: Write>(&self, stream: W) -> impl Write + use<W> {
        HeardOutput {
            bar: self.0.clone(),
            stream,
        }
    }
}

impl WaitingSpinner {
    /// Wraps the program's standard error: takes out the progress records and shows them.
    pub fn around_messages<W: Write>(&self, stream: W) -> impl Write + use<W> {
        let bar = self.0.clone();
        StepFilter::new(self.around(stream), move |step| show(&bar, step))
    }
}

/// Shows a step of the program, unless the program has written something.
fn show(bar: &ProgressBar, step: ProgressStep<'_>) {
    if bar.is_finished() {
        return;
    }
    if bar.length().is_none() {
        bar.set_position(step.done);
        // The duration of the boot is no guide to the duration of the steps, so the estimate begins now.
        bar.set_style(style(STEPS, TimeLeft::default()));
    }
    bar.set_length(step.all);
    bar.set_position(step.done);
    bar.set_message(step.name.to_owned());
}

impl Drop for WaitingSpinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

struct HeardOutput<W> {
    bar: ProgressBar,
    stream: W,
}

impl<W: Write> Write for HeardOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
        self.bar.finish_and_clear();
    }
}

fn folder_size(folder: &Path) -> u64 {
    let list = std::fs::read_dir(folder)
        .map(|list| list.flatten().collect())
        .unwrap_or_else(|_| Vec::new());
    let size = |item: &std::fs::DirEntry| match item.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_size(&item.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    list.iter().map(size).sum()
}
