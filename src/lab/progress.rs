//! What preparation tells the person who waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines and a bar on the standard error stream; the bar only on a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    quiet: bool,
}

/// A bar that follows a folder until it is dropped.
#[derive(Debug)]
pub struct Following {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Progress {
    /// With `quiet`, nothing is said at all.
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// One line.
    pub fn say(&self, line: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("lab: {line}");
        }
    }

    /// A bar of bytes that follows the growth of `folder`.
    pub fn follow(&self, folder: PathBuf, total: u64) -> Following {
        let bar = self.bar(
            total,
            "{decimal_bytes:>10} / {decimal_total_bytes} {bar:30} {decimal_bytes_per_sec} {eta}",
        );
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (bar, stop) = (bar.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    bar.set_position(folder_size(&folder));
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

    /// A bar that counts steps.
    pub fn count(&self, total: u64) -> ProgressBar {
        self.bar(total, "{pos:>4} / {len} {bar:30} {msg}")
    }

    fn bar(&self, total: u64, template: &str) -> ProgressBar {
        let target = if self.quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(total), target).with_style(style)
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
