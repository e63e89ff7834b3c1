//! The floors of one system call. `floor-getppid` is the floor of everything that enters the kernel once.
//! `floor-eventfd-write` is the cost of signalling an eventfd from any thread, including a vCPU's.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::{in_pieces, raw};
use crate::affinity::Pinned;
use crate::subject::nanoseconds;
use crate::{CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting};

pub(super) const GETPPID: &str = "floor-getppid";

struct Getppid {
    cpu: usize,
    limit: CommandLimit,
}

pub(super) fn make_getppid(options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
    Ok(Box::new(Getppid {
        cpu: options.first_cpu(),
        limit: options.limit.clone(),
    }))
}

impl Subject for Getppid {
    fn name(&self) -> &str {
        GETPPID
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: vec![self.cpu],
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let _pinned = Pinned::to(&[self.cpu]).map_err(|e| SubjectError::failed(GETPPID, e))?;
        let started = Instant::now();
        in_pieces(GETPPID, &self.limit, (ops, 4096), |ops| {
            for _ in 0..ops {
                black_box(raw::getppid());
            }
            Ok::<(), Infallible>(())
        })?;
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(started.elapsed()),
            ..RunSample::default()
        })
    }
}

pub(super) const EVENTFD_WRITE: &str = "floor-eventfd-write";

struct EventfdWrite {
    cpu: usize,
    limit: CommandLimit,
    eventfd: EventFd,
}

pub(super) fn make_eventfd_write(
    options: &SubjectOptions,
) -> Result<Box<dyn Subject>, SubjectError> {
    Ok(Box::new(EventfdWrite {
        cpu: options.first_cpu(),
        limit: options.limit.clone(),
        eventfd: EventFd::new(EFD_NONBLOCK).map_err(|e| SubjectError::failed(EVENTFD_WRITE, e))?,
    }))
}

impl Subject for EventfdWrite {
    fn name(&self) -> &str {
        EVENTFD_WRITE
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: vec![self.cpu],
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let failed = |error| SubjectError::failed(EVENTFD_WRITE, error);
        let _pinned =
            Pinned::to(&[self.cpu]).map_err(|e| SubjectError::failed(EVENTFD_WRITE, e))?;
        // An earlier run may have failed half-way, so the counter is reset. The read fails if the counter was zero,
        // which is not an error.
        let _ = self.eventfd.read();
        let started = Instant::now();
        in_pieces(EVENTFD_WRITE, &self.limit, (ops, 4096), |ops| {
            (0..ops).try_for_each(|_| raw::eventfd_write(&self.eventfd))
        })?;
        let elapsed = started.elapsed();
        // The kernel must have counted every write.
        let counted = self.eventfd.read().map_err(failed)?;
        if counted != ops {
            return Err(SubjectError::failed(
                EVENTFD_WRITE,
                format!("{ops} writes were counted as {counted}"),
            ));
        }
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(elapsed),
            ..RunSample::default()
        })
    }
}
