//! A [`Table`] on the heap, for vCPU threads of this process.

#![allow(unsafe_code)]

#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::{fmt, ops::Deref};

use stub::table::Table;

/// A table of 8 MiB on the heap, of which the kernel backs only the pages that are used.
pub struct HeapTable(Box<Table>);

#[cfg(not(loom))]
impl HeapTable {
    /// An empty table, in zeroed memory.
    pub fn new() -> Self {
        let layout = Layout::new::<Table>();
        // SAFETY: the layout is not empty.
        let table = unsafe { alloc_zeroed(layout) }.cast::<Table>();
        if table.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: `table` was allocated just above with the layout of a `Table`, for which zeroes
        // are valid, and nobody else has the pointer: the box owns it until it is dropped.
        Self(unsafe { Box::from_raw(table) })
    }
}

#[cfg(loom)]
impl HeapTable {
    /// An empty table. The model checker's atomics have to be constructed; zeroed memory is no valid one.
    pub fn new() -> Self {
        Self(Box::new(Table::new()))
    }
}

impl Default for HeapTable {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for HeapTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0
    }
}

impl fmt::Debug for HeapTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The table itself is 8 MiB of words.
        f.write_str("HeapTable")
    }
}
