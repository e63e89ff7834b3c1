//! `floor-getppid`: the floor of everything that enters the kernel once.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use super::{in_pieces, raw};
use crate::affinity::Pinned;
use crate::{Limit, Options, Sample, Setting, Subject, SubjectError};

pub(super) const NAME: &str = "floor-getppid";

struct Getppid {
    cpu: usize,
    limit: Limit,
}

pub(super) fn make(options: &Options) -> Result<Box<dyn Subject>, SubjectError> {
    Ok(Box::new(Getppid {
        cpu: options.first_cpu(),
        limit: options.limit.clone(),
    }))
}

impl Subject for Getppid {
    fn name(&self) -> &str {
        NAME
    }

    fn setting(&self) -> Setting {
        Setting {
            cpus: vec![self.cpu],
            ..Setting::default()
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a run takes far less than 2^53 ns"
    )]
    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        let _pinned = Pinned::to(self.cpu).map_err(|e| SubjectError::failed(NAME, e))?;
        let started = Instant::now();
        in_pieces(NAME, &self.limit, (ops, 4096), |ops| {
            for _ in 0..ops {
                black_box(raw::getppid());
            }
            Ok::<(), Infallible>(())
        })?;
        Ok(Sample {
            ops,
            elapsed_ns: started.elapsed().as_nanos() as f64,
            ..Sample::default()
        })
    }
}
