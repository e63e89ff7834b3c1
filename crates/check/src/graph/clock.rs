//! A vector clock: for each task, how many of its first events are in a set that is closed under program order.

/// The maximum number of tasks that a scenario can have.
pub(crate) const TASKS: usize = 6;

/// The number of events of each task that the set holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(pub(crate) [u16; TASKS]);

impl Clock {
    /// Adds the events of `other`.
    pub(crate) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }

    /// Returns whether the set holds the event of `task` with this index.
    pub(crate) fn has(&self, task: u8, index: u16) -> bool {
        self.0[usize::from(task)] > index
    }

    /// Adds the event of `task` with this index, and the task's earlier events.
    pub(crate) fn add(&mut self, task: u8, index: u16) {
        let mine = &mut self.0[usize::from(task)];
        *mine = (*mine).max(index + 1);
    }
}
