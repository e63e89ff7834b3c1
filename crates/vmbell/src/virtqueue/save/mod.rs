//! The states of both sides of a queue, as values and as bytes, and the checks that no other state passes.
//!
//! A state has all that decides how its side goes on and that the ring's memory does not hold (virtio 1.3, 2.7 and
//! 2.8). It is not trusted: every field is checked against the queue and against the other fields before the queue
//! changes. The caller saves and restores while neither side runs.

mod codec;
mod device;
mod driver;
mod error;
mod kind;

pub use device::{DeviceState, HeadState};
pub use driver::{BufferState, DriverState};
pub use error::RestoreError;
pub use kind::RingKind;

/// The version of [`DeviceState`] and [`DriverState`].
pub const STATE_VERSION: u16 = 1;

/// The most steps since the last question about a notification that a state tells apart. An event index is at most
/// 65,535 entries away, so this number stands for any larger one, too.
pub(super) const MANY: u32 = 1 << 16;

/// `steps`, or [`MANY`] if there are more.
pub(super) fn at_most_many(steps: u64) -> u32 {
    u32::try_from(steps).unwrap_or(MANY).min(MANY)
}

/// The queue that a state is made of or restored to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) ring: RingKind,
    pub(super) size: u16,
    pub(super) features: super::Features,
}

impl Target {
    /// Checks that a state is of this version, and of a queue like this one.
    fn check(&self, version: u16, saved: Self) -> Result<(), RestoreError> {
        if version != STATE_VERSION {
            return Err(RestoreError::Version { version });
        }
        let pairs = [
            ("ring", saved.ring.code().into(), self.ring.code().into()),
            ("size", saved.size.into(), self.size.into()),
            (
                "features",
                codec::features(saved.features).into(),
                codec::features(self.features).into(),
            ),
        ];
        for (field, saved, queue) in pairs {
            same(field, saved, queue)?;
        }
        Ok(())
    }
}

fn same(field: &'static str, saved: u64, queue: u64) -> Result<(), RestoreError> {
    if saved == queue {
        return Ok(());
    }
    let error = RestoreError::OtherQueue {
        field,
        saved,
        queue,
    };
    Err(error)
}

fn at_most(
    field: &'static str,
    value: impl Into<u64>,
    limit: impl Into<u64>,
) -> Result<(), RestoreError> {
    let (value, limit) = (value.into(), limit.into());
    if value <= limit {
        return Ok(());
    }
    let error = RestoreError::TooLarge {
        field,
        value,
        limit,
    };
    Err(error)
}
