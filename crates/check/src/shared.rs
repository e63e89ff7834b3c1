//! The memory that driver and device share, as a scenario sees it.

use std::ptr::NonNull;
use std::sync::atomic;

use crate::graph::Order;
use crate::memory::offset;
use crate::native;
use crate::search::Access;
use crate::task;

/// The memory that driver and device share. Copies refer to the same memory.
///
/// Code under test gets a [pointer](Self::pointer). A task of the harness itself uses [`load`](Self::load) and
/// [`store`](Self::store), which need no instrumentation.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
}

impl Memory {
    pub(crate) fn new(base: NonNull<u8>, len: usize) -> Memory {
        Memory { base, len }
    }

    /// The first byte. It stays the same while a scenario is explored.
    pub fn pointer(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes there are.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes initial bytes, in the set-up of a scenario.
    ///
    /// # Panics
    ///
    /// If the bytes are outside the memory.
    pub fn preset(&self, at: usize, bytes: &[u8]) {
        assert!(
            at + bytes.len() <= self.len,
            "{} bytes at {at} of {} are outside the memory",
            bytes.len(),
            self.len
        );
        crate::memory::preset(self.base, at, bytes);
    }

    fn access(&self, at: usize, size: u8, order: Order) -> Access {
        assert!(
            at + usize::from(size) <= self.len,
            "an access to byte {at} of {} is outside the memory",
            self.len
        );
        let offset = offset(self.base.as_ptr().addr() + at).unwrap_or_default();
        Access::new(offset, size, order, 0)
    }

    /// Loads a value of `size` bytes (1, 2, 4 or 8) at byte `at`, from a task.
    ///
    /// # Panics
    ///
    /// If the value is outside the memory, or no task runs.
    pub fn load(&self, at: usize, size: u8, order: Order) -> u64 {
        let access = self.access(at, size, order);
        native::load(access).unwrap_or_else(|| task::call(|search| search.load(access)))
    }

    /// Stores a value of `size` bytes (1, 2, 4 or 8) at byte `at`, from a task.
    ///
    /// # Panics
    ///
    /// If the value is outside the memory, or no task runs.
    pub fn store(&self, at: usize, size: u8, value: u64, order: Order) {
        let access = self.access(at, size, order);
        native::store(access, value)
            .unwrap_or_else(|| task::call(|search| search.store(access, value)));
    }

    /// Replaces a value of `size` bytes by the result of `change`, in one step. Returns the old value.
    ///
    /// # Panics
    ///
    /// If the value is outside the memory, or no task runs.
    pub fn update(
        &self,
        at: usize,
        size: u8,
        order: Order,
        change: impl Fn(u64) -> Option<u64>,
    ) -> u64 {
        task::update(self.access(at, size, order), change)
    }

    /// Replaces a value of `size` bytes by `new` if it is `expected`, in one step. Returns the old value. The first of
    /// `orders` applies if the value is replaced, the second if it is only loaded.
    ///
    /// # Panics
    ///
    /// If the value is outside the memory, or no task runs.
    pub fn compare_exchange(
        &self,
        at: usize,
        size: u8,
        [success, failure]: [Order; 2],
        expected: u64,
        new: u64,
    ) -> u64 {
        let access = Access {
            compare: Some((expected, failure)),
            ..self.access(at, size, success)
        };
        task::update(access, |old| (old == expected).then_some(new))
    }
}

/// A fence of the harness itself.
///
/// # Panics
///
/// If no task runs.
pub fn fence(order: Order) {
    if native::inside() {
        return atomic::fence(atomic::Ordering::SeqCst);
    }
    task::call(|search| search.fence(order, 0));
}

/// Returns one of `0..options`: the search tries each value, and a native run takes 0.
///
/// # Panics
///
/// If no task runs.
pub fn choose(options: u8) -> u8 {
    if native::inside() {
        return 0;
    }
    task::call(|search| search.choose(options))
        .try_into()
        .unwrap_or(0)
}

/// Records that the task was woken and found nothing to do. The report has the highest count of one execution.
pub fn spurious_wake_up() {
    task::with(|search| search.spurious += 1);
}

/// Fails the execution unless `holds`.
pub fn claim(holds: bool, text: impl FnOnce() -> String) {
    if !holds {
        let text = text();
        assert!(!native::inside(), "{text}");
        task::with(|search| search.claim(text));
    }
}
