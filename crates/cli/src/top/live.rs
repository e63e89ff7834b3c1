//! The live screen: reads keys and draws, and counts again when an interval ends.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::interval::TopInterval;
use super::screen::{Action, TopScreen};
use super::terminal::{self, Tty};
use super::{text, view};
use crate::exit::Exit;
use crate::output::locale;
use crate::output::print_shown;

/// How often signals and the terminal's size are checked.
const SLICE: Duration = Duration::from_millis(100);

/// Shows tables on the terminal until a key or a signal ends it, or until `left` of them were shown; the last one then stays, and
/// is left in `interval`.
pub(super) fn run(
    mut next: impl FnMut() -> Result<TopInterval>,
    interval: &mut Option<TopInterval>,
    delay: Duration,
    mut left: Option<u64>,
    interrupted: &AtomicBool,
) -> Result<Exit> {
    let mut tty = Tty::enter()?;
    let mut screen = TopScreen::new(delay);
    let mut counted = Instant::now();
    let mut is_old = true;
    loop {
        let drawn = match is_old || tty.is_resized() {
            true => draw(&mut tty, &mut screen, interval.as_ref()),
            false => Ok(()),
        };
        if interrupted.load(Ordering::Acquire) {
            // This also happens when the terminal is gone, which raises SIGHUP.
            return Ok(Exit::Interrupted);
        }
        drawn?;
        if left == Some(0) {
            break;
        }
        let rest = (counted + screen.delay).saturating_duration_since(Instant::now());
        if rest.is_zero() {
            counted = Instant::now();
            *interval = Some(next()?);
            left = left.map(|left| left - 1);
            is_old = true;
            continue;
        }
        let keys = match tty.keys(rest.min(SLICE)) {
            Err(_) if interrupted.load(Ordering::Acquire) => return Ok(Exit::Interrupted),
            keys => keys?,
        };
        is_old = !keys.is_empty();
        for key in keys {
            match screen.press(key, interval.as_ref().unwrap_or(&TopInterval::default())) {
                Action::Nothing => {}
                Action::Quit => return Ok(Exit::Good),
                Action::Suspend => tty.suspend()?,
                Action::Repaint => tty.repaint()?,
            }
        }
    }
    drop(tty);
    if let Some(interval) = interval {
        print_shown(&text::text(interval, terminal::width()))?;
    }
    Ok(Exit::Good)
}

fn draw(tty: &mut Tty, screen: &mut TopScreen, interval: Option<&TopInterval>) -> Result<()> {
    let result = tty.screen.draw(|frame| {
        view::draw(frame, screen, interval);
        for cell in &mut frame.buffer_mut().content {
            if let Cow::Owned(symbol) = locale::shown(cell.symbol()) {
                cell.set_symbol(&symbol);
            }
        }
    });
    result.map(drop).context("cannot draw on the terminal")
}

#[cfg(test)]
#[path = "live_test.rs"]
mod tests;
