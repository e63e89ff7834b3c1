//! Saves and restores what both kinds of driver side have; `Side` does the rest.

use super::{Driver, Side};
use crate::virtqueue::{
    Brand, DriverState, RestoreError, STATE_VERSION, indirect::Tables, save::Target, slots::Slots,
};

impl<T, S: Side, B: Brand> Driver<T, S, B> {
    /// The ids of the buffers in flight and their data, in the order of [`DriverState::buffers`].
    pub fn in_flight(&self) -> impl Iterator<Item = (u16, &T)> {
        self.slots.all()
    }

    fn target(&self) -> Target {
        Target {
            ring: S::KIND,
            size: self.side.size(),
            features: self.features,
        }
    }

    pub(super) fn save_state(&self) -> Result<DriverState, RestoreError> {
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

    pub(super) fn restore_state(
        &mut self,
        state: &DriverState,
        data: impl FnMut(u16) -> Option<T>,
    ) -> Result<(), RestoreError> {
        let tables = self.tables.as_ref().map(Tables::place);
        let in_flight = state.check(self.target(), tables)?;
        self.slots = Slots::restore(S::KIND, &state.buffers, &state.entries, data)
            .map_err(|id| RestoreError::NoData { id })?;
        self.side.resume(state, in_flight);
        self.armed = state.armed;
        self.broken = state.broken;
        // None if the queue is broken, as `break_with` leaves it.
        self.free = match state.broken {
            Some(_) => 0,
            None => state.size - state.filled(),
        };
        let (polled, broken) = ((state.base, state.wrap_counter), state.broken.is_some());
        self.state.restore(state.position, polled, broken);
        Ok(())
    }
}
