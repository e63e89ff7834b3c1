//! The state of a driver side, and the calls that change it other than adding buffers and taking them back: set-up,
//! reset, save and restore.

use super::{Driver, Indices, Side};
use crate::brand::Brand;
use crate::error::{QueueError, WrapCounterError};
use crate::features::Status;
use crate::indirect::Tables;
#[cfg(doc)]
use crate::poll::{QueuePoller, Token};
use crate::ring::Ring;
use crate::save::{DriverState, RestoreError, STATE_VERSION, Target};
use crate::slots::Slots;

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Makes opaque values count wraps, until the next reset.
    ///
    /// # Errors
    ///
    /// If the device `status` says that the device has no driver yet or that its queues are live, or if the queue is
    /// broken.
    pub fn use_wrap_counter(&mut self, status: Status) -> Result<(), WrapCounterError> {
        self.state.use_wrap_counter(status, self.broken)
    }

    /// The error that broke the queue, if it is broken.
    pub fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    /// How many descriptors are free; 0 if the queue is broken.
    pub fn free(&self) -> u16 {
        self.free
    }

    /// The position of the next buffer to make available: the upper half of a notification with
    /// `VIRTIO_F_NOTIFICATION_DATA` (virtio 1.3, 2.9). On a split ring the index; on a packed ring the slot, with the
    /// wrap counter in bit 15.
    pub fn next_avail(&self) -> u16 {
        self.side.save().available
    }

    /// Takes back the data of one of the buffers that the device has not used. Only for a device that is stopped, or
    /// for a queue that is no longer used.
    pub fn detach_unused(&mut self) -> Option<T> {
        self.slots.detach()
    }

    /// Empties the queue and drops what was in flight, after the device was reset.
    ///
    /// Notifications are then on, wrap counters are off, and no wraps are counted. Polling an older [`Token`] returns
    /// true.
    pub fn reset(&mut self) {
        let size = self.slots.size();
        self.state.reset();
        self.side.ring().clear();
        self.side.resume(&Indices {
            position: self.state.position(),
            ..Indices::default()
        });
        self.slots = Slots::new(size);
        self.free = size;
        self.armed = S::ARMED_AT_START && self.features.event_idx;
        self.broken = None;
    }

    /// The state of this side, without the data of the buffers in flight.
    ///
    /// # Errors
    ///
    /// If the state could not be restored, because [`detach_unused`](Self::detach_unused) has taken data and the queue
    /// was not reset after that.
    pub fn save(&self) -> Result<DriverState, RestoreError> {
        let (target, tables) = (self.target(), self.tables.as_ref().map(Tables::place));
        let indices = self.side.save();
        let (base, wrap_counter) = self.state.saved();
        let (buffers, entries) = self.slots.save(S::KIND);
        let state = DriverState {
            version: STATE_VERSION,
            ring: target.ring,
            size: target.size,
            features: target.features,
            tables,
            available: indices.available,
            unkicked: indices.unkicked,
            position: indices.position,
            base,
            wrap_counter,
            used_seen: indices.used_seen,
            armed: self.armed,
            batch: indices.batch,
            buffers,
            entries,
            broken: self.broken,
        };
        state.check(target, tables)?;
        Ok(state)
    }

    /// Continues from a saved state; buffers that were in flight before are dropped.
    ///
    /// `data` returns the data of the buffer in flight with this id. It is called once for each buffer, in the order of
    /// [`DriverState::buffers`], after the state was checked.
    ///
    /// [`Token`]s and [`Opaque`](crate::Opaque) values from before the save give the same answers as without the save,
    /// because the whole position is part of the state. For values that the saved queue made after the save, `poll` can
    /// return false although a buffer was used since, because the restored queue has other buffers at the same
    /// positions. Give the restored queue a new brand, and the compiler refuses such values. A [`QueuePoller`] of the
    /// saved queue does not poll the restored one.
    ///
    /// # Errors
    ///
    /// If the state does not fit this queue, or `data` returns `None`. The queue is then unchanged.
    pub fn restore(
        &mut self,
        state: &DriverState,
        data: impl FnMut(u16) -> Option<T>,
    ) -> Result<(), RestoreError> {
        let tables = self.tables.as_ref().map(Tables::place);
        state.check_position()?;
        let in_flight = state.check(self.target(), tables)?;
        self.slots = Slots::restore(S::KIND, &state.buffers, &state.entries, data)
            .map_err(|id| RestoreError::NoData { id })?;
        self.side.resume(&Indices {
            available: state.available,
            unkicked: state.unkicked,
            position: state.position,
            in_flight,
            used_seen: state.used_seen,
            batch: state.batch,
            broken: state.broken.is_some(),
        });
        self.armed = state.armed;
        self.broken = state.broken;
        // A broken queue has no free descriptors, as after `break_with`.
        self.free = match state.broken {
            Some(_) => 0,
            None => state.size - state.filled(),
        };
        let (polled, broken) = ((state.base, state.wrap_counter), state.broken.is_some());
        self.publish(state.position, state.batch.is_some());
        self.state.restore(polled, broken);
        Ok(())
    }

    /// The ids of the buffers in flight and their data, in the order of [`DriverState::buffers`].
    pub fn in_flight(&self) -> impl Iterator<Item = (u16, &T)> {
        self.slots.all()
    }

    fn target(&self) -> Target {
        Target {
            ring: S::KIND,
            size: self.slots.size(),
            features: self.features,
        }
    }
}

#[cfg(all(test, not(loom)))]
impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// Advances the positions by an even number of laps, as if the buffers of these laps had been used. On a split
    /// ring, a lap is 65,536 buffers.
    pub(crate) fn skip_laps(&mut self, laps: u64) {
        let mut indices = self.side.save();
        indices.position += laps << 16;
        self.side.resume(&indices);
        self.publish(indices.position, indices.batch.is_some());
    }
}
