//! What a VM does: from outside while it is paused, and by its guest's output while it runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::traffic::Obstacle;
use super::vm::{MEMORY, SweptVm};
use crate::output::text::last_words;
use crate::process::{ProgramEnd, Reached, TimeLeft};
use vmbell_bench::CommandLimit;
use vmbell_sweep::diagnosis::Behaviour;
use vmbell_sweep::guest::{self, Ready, Said};
use vmbell_sweep::memory::GuestMemory;
use vmbell_sweep::process::{UnreadEventfd, cpu_time, unread_eventfds};
use vmbell_sweep::ring::RingState;

/// What is seen of a paused VM.
pub(super) struct Peek {
    /// The ring.
    pub(super) ring: RingState,
    /// The VMM's unread eventfds.
    pub(super) unread: Vec<UnreadEventfd>,
}

/// How long a VMM that cannot be looked at may take to exit.
const EXIT: Duration = Duration::from_millis(200);

/// Looks at a paused VM. The outer error is this host's, which refuses access; the inner one is the guest's, or that of
/// a VMM that ended.
pub(super) fn peek(
    vm: &mut dyn SweptVm,
    ready: &Ready,
    stop: &CommandLimit,
) -> Result<Result<Peek>, Obstacle> {
    let pid = vm.process().id();
    let looked = GuestMemory::of_process(pid, MEMORY).map_err(anyhow::Error::new);
    let looked = looked.and_then(|memory| {
        let unread = unread_eventfds(pid)
            .with_context(|| format!("cannot list the descriptors of process {pid}"))?;
        Ok((memory, unread))
    });
    let (memory, unread) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let process = vm.process();
            let ended = process.until_output(|_| false, &mut TimeLeft::new(EXIT), stop);
            return match ended.context("cannot read the VMM's output")? {
                Reached::End(None) => Ok(Err(error)),
                _ => Err(error.into()),
            };
        }
    };
    let ring = ready.place.read(&memory).map_err(anyhow::Error::new);
    Ok(ring.map(|ring| Peek { ring, unread }))
}

/// What a guest has said until now.
pub(super) fn heard(vm: &mut dyn SweptVm) -> Result<Said> {
    let process = vm.process();
    process
        .read_output()
        .context("cannot read the VMM's output")?;
    Ok(guest::said(process.printed()[0]))
}

/// Waits until the guest has said what is waited for. `None` if it is asked to stop.
fn wait(
    vm: &mut dyn SweptVm,
    limit: Duration,
    stop: &CommandLimit,
    is_enough: impl Fn(&[u8], &Said) -> bool,
) -> Result<Option<Behaviour>> {
    let pid = vm.process().id();
    let (begun, used) = (Instant::now(), cpu_time(pid));
    let mut said = Said::default();
    let is_found = |output: &[u8]| {
        said = guest::said(output);
        // A guest that misses a notification goes on to say what helped.
        let is_known = said.losing.is_none() && is_enough(output, &said);
        said.fault.is_some() || said.failed.is_some() || is_known
    };
    let reached = vm
        .process()
        .until_output(is_found, &mut TimeLeft::new(limit), stop)
        .context("cannot read the VMM's output")?;
    Ok(Some(match (reached, said) {
        (
            _,
            Said {
                fault: Some(fault), ..
            },
        ) => Behaviour::Found(fault),
        (
            _,
            Said {
                failed: Some(reason),
                ..
            },
        ) => Behaviour::Failed(reason),
        (Reached::Mark, _) => Behaviour::WentOn,
        (Reached::End(Some(ProgramEnd::Stopped)), _) => return Ok(None),
        (Reached::End(Some(ProgramEnd::TimeLimit)), _) => {
            let used = cpu_time(pid).saturating_sub(used);
            Behaviour::Silent {
                // A guest that halts uses next to nothing, and one that spins on a busy host may get little.
                ran: u128::from(used) > begun.elapsed().as_nanos() / 10,
            }
        }
        (Reached::End(Some(ProgramEnd::TooMuch)), _) => Behaviour::Cut,
        (Reached::End(_), _) => {
            let words = vm
                .process()
                .printed()
                .into_iter()
                .rev()
                .find_map(last_words);
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            Behaviour::Failed(format!("the VMM ended{words}"))
        }
    }))
}

/// Waits until the guest has printed where its ring is. Its traffic begins later.
pub(super) fn started(
    vm: &mut dyn SweptVm,
    limit: Duration,
    stop: &CommandLimit,
) -> Result<Ready, Obstacle> {
    let is_ready =
        |output: &[u8], said: &Said| said.none.is_some() || guest::ready(output).is_some();
    let Some(behaviour) = wait(vm, limit, stop, is_ready)? else {
        return Err(Obstacle::Stopped);
    };
    let output = vm.process().printed()[0];
    if let Some(reason) = guest::said(output).none {
        return Err(Obstacle::HasNone(reason));
    }
    match (behaviour, guest::ready(output)) {
        (Behaviour::WentOn, Some(ready)) => Ok(ready),
        (Behaviour::Failed(reason), _) => Err(Obstacle::Failed(reason)),
        _ => {
            let [output, errors] = vm.process().printed();
            let words = last_words(errors).or_else(|| last_words(output));
            let words = words.map(|words| format!("; its last words: {words}"));
            Err(Obstacle::Failed(format!(
                "the guest did not start{}",
                words.unwrap_or_default()
            )))
        }
    }
}

/// Waits until the guest has made the step with this number.
pub(super) fn judge(
    vm: &mut dyn SweptVm,
    step: u64,
    limit: Duration,
    stop: &CommandLimit,
) -> Result<Option<Behaviour>> {
    wait(vm, limit, stop, |_, said| said.step >= step)
}
