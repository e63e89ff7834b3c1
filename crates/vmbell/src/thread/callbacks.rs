//! The callbacks of an [`EventLoop`](super::EventLoop): its thread calls them, any thread adds and removes them.
//!
//! The thread takes a callback out of its entry for the call, so no lock is held while it runs. If the callback is
//! removed meanwhile, its entry is gone: the thread drops the callback, and then wakes the threads that wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// A callback. It returns whether it has more to do.
pub(super) type Callback = Box<dyn FnMut() -> bool + Send>;

/// The callbacks by their numbers, which start at 1 and are never reused.
pub(super) struct Callbacks<D> {
    state: Mutex<State<D>>,
    /// The call that was under way has ended.
    returned: Condvar,
}

struct State<D> {
    last: u64,
    entries: BTreeMap<u64, Entry<D>>,
    /// The callback that the thread calls.
    running: Option<u64>,
    /// How many threads wait for that call to return. Without waiting threads, no system call is made to wake them.
    waiting: u32,
}

struct Entry<D> {
    descriptor: D,
    /// `None` while the callback is called.
    callback: Option<Callback>,
}

/// A call that is under way. When it ends, even by a panic, it wakes the threads that wait for it.
struct Call<'a, D>(&'a Callbacks<D>);

impl<D> Callbacks<D> {
    pub(super) fn new() -> Self {
        let state = State {
            last: 0,
            entries: BTreeMap::new(),
            running: None,
            waiting: 0,
        };
        Self {
            state: Mutex::new(state),
            returned: Condvar::new(),
        }
    }

    /// Adds a callback if `register`, which gets its number, succeeds. The callback is not called before that.
    pub(super) fn add<E>(
        &self,
        descriptor: D,
        callback: Callback,
        register: impl FnOnce(&D, u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut state = self.state.lock();
        let number = state.last + 1;
        register(&descriptor, number)?;
        state.last = number;
        let callback = Some(callback);
        let entry = Entry {
            descriptor,
            callback,
        };
        state.entries.insert(number, entry);
        Ok(number)
    }

    /// Calls a callback, unless it has been removed. Returns whether it has more to do. Only one thread may call this.
    pub(super) fn call(&self, number: u64) -> bool {
        let (call, mut callback) = {
            let mut state = self.state.lock();
            let Some(callback) = state
                .entries
                .get_mut(&number)
                .and_then(|entry| entry.callback.take())
            else {
                return false;
            };
            state.running = Some(number);
            (Call(self), callback)
        };
        let more = callback();
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(&number) {
            entry.callback = Some(callback);
            // Under the lock under which the entry was found, so that a removal finds both the entry and the running
            // call, or neither. No thread waits: the entry is still here.
            state.running = None;
            std::mem::forget(call);
            return more;
        }
        drop(state);
        // The callback was removed. What it owns is dropped before the waiting threads continue.
        drop(callback);
        drop(call);
        false
    }

    /// Takes an entry out, so that its callback is not called again, and gives its descriptor to `unregister`. A call
    /// that is under way continues.
    pub(super) fn remove(&self, number: u64, unregister: impl FnOnce(&D)) {
        let removed = {
            let mut state = self.state.lock();
            let removed = state.entries.remove(&number);
            // Under the lock: the descriptor's number must not belong to another file yet.
            if let Some(entry) = &removed {
                unregister(&entry.descriptor);
            }
            removed
        };
        // Outside the lock, because dropping what a callback owns may remove other callbacks.
        drop(removed);
    }

    /// Waits until the call of a removed callback, if one is under way, has ended and the callback is dropped. Returns
    /// false if that takes longer than `limit`. The thread that calls the callbacks must not call this.
    pub(super) fn await_return(&self, number: u64, limit: Duration) -> bool {
        let is_running = |state: &mut State<D>| state.running == Some(number);
        let mut state = self.state.lock();
        state.waiting += 1;
        state = self.returned.wait_timeout_while(state, limit, is_running);
        state.waiting -= 1;
        !is_running(&mut state)
    }
}

impl<D> Drop for Call<'_, D> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running = None;
        if state.waiting > 0 {
            self.0.returned.notify_all();
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;
