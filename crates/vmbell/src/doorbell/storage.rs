//! The memory of the [table](vmbell_core::table), as its only writer sees it: words, overflow buckets and chunks that
//! are allocated by index, and the codes and lists of signals in them.
//!
//! For a reader that walks a list at the same time, adding or removing a signal is a single store. A list is filled
//! from the first word of its tail chunk to the last word of its head chunk, in the reverse order of reading.

use vmbell_core::sync::{AtomicU32, AtomicU64, Ordering};
use vmbell_core::table::{CODE, GROUP, ListChunk, Table};

/// A word of the table, as its only writer accesses it.
pub(super) trait Word {
    /// The integer in the word.
    type Value;

    /// Loads what this writer stored last.
    fn get(&self) -> Self::Value;

    /// Stores a value that no reader can reach yet.
    fn set(&self, value: Self::Value);

    /// Stores a value that makes earlier stores reachable by readers (release).
    fn publish(&self, value: Self::Value);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;

            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }

            fn publish(&self, value: $value) {
                self.store(value, Ordering::Release);
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Converts an index to the width of the table's words.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the table is smaller than 2^29 pieces"
)]
pub(super) const fn index_word(index: usize) -> u32 {
    index as u32
}

/// Hands out indexes below a limit, but never 0, which means "no piece".
///
/// A piece that the writer unlinks is *retired*: readers may still be on it. The removal that unlinked the piece takes
/// it, and after a grace period [`recycle`](Self::recycle) frees it.
#[derive(Debug)]
pub(super) struct Arena {
    /// The lowest index that was never used: the memory from there on has not been touched.
    fresh: usize,
    limit: usize,
    free: Vec<usize>,
    retired: Vec<usize>,
}

impl Arena {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            fresh: 1,
            limit,
            free: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// Counts the free pieces.
    pub(super) fn available(&self) -> usize {
        self.free.len() + (self.limit - self.fresh)
    }

    /// Counts all pieces.
    pub(super) const fn capacity(&self) -> usize {
        self.limit - 1
    }

    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            assert!(self.fresh < self.limit, "invariant: checked before taking");
            self.fresh += 1;
            self.fresh - 1
        })
    }

    pub(super) fn retire(&mut self, index: usize) {
        self.retired.push(index);
    }

    /// Takes the pieces that were retired since the last call.
    pub(super) fn take_retired(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.retired)
    }

    pub(super) fn recycle(&mut self, retired: Vec<usize>) {
        self.free.extend(retired);
    }
}

/// How many chunks [`push`] will take.
pub(super) fn push_cost(table: &Table, code: u32) -> usize {
    match code {
        0 => 0,
        // A single signal has no list yet, and so no free word.
        _ => usize::from(hole(table, code).is_none()),
    }
}

/// How many chunks [`copy`] followed by [`push`] will take.
pub(super) fn copy_cost(table: &Table, code: u32) -> usize {
    match signals(table, code).len() {
        0 => 0,
        others => (others + 1).div_ceil(ListChunk::CODES),
    }
}

/// Adds a signal; returns the code that the caller publishes instead of `code`.
pub(super) fn push(table: &Table, chunks: &mut Arena, code: u32, signal: u32) -> u32 {
    let entry = signal + 1;
    if code == 0 {
        return entry;
    }
    if code & GROUP == 0 {
        return chunk(table, chunks, 0, &[code, entry]);
    }
    match hole(table, code) {
        Some((index, position)) => {
            table.chunks[index].words[position].publish(entry);
            code
        }
        None => chunk(table, chunks, code & CODE, &[entry]),
    }
}

/// Removes one entry with this signal; returns the code that the caller publishes instead of `code`.
pub(super) fn remove(table: &Table, chunks: &mut Arena, code: u32, signal: u32) -> u32 {
    let entry = signal + 1;
    if code & GROUP == 0 {
        return if code == entry { 0 } else { code };
    }
    let mut rest = signals(table, code);
    let Some(index) = rest.iter().position(|&other| other == entry) else {
        return code;
    };
    rest.swap_remove(index);
    if let [single] = rest[..] {
        retire(table, chunks, code);
        return single;
    }
    let place = words(table, code)
        .find(|&(chunk, position)| table.chunks[chunk].words[position].get() == entry);
    if let Some((chunk, position)) = place {
        table.chunks[chunk].words[position].publish(0);
    }
    code
}

/// Copies a list; returns the copy's code.
pub(super) fn copy(table: &Table, chunks: &mut Arena, code: u32) -> u32 {
    signals(table, code)
        .chunks(ListChunk::CODES)
        .fold(0, |link, entries| chunk(table, chunks, link, entries))
}

/// Retires a list's chunks, to be reused after a grace period.
pub(super) fn retire(table: &Table, chunks: &mut Arena, code: u32) {
    for index in chain(table, code) {
        chunks.retire(index);
    }
}

/// Takes a chunk for the head of a list and fills it; readers cannot reach it yet.
fn chunk(table: &Table, chunks: &mut Arena, link: u32, entries: &[u32]) -> u32 {
    let index = chunks.take();
    let words = &table.chunks[index].words;
    words[0].set(link & CODE);
    for (position, place) in words.iter().enumerate().skip(1) {
        place.set(entries.get(position - 1).copied().unwrap_or(0));
    }
    index_word(index) | GROUP
}

/// The signal numbers of a list, in the order in which its words are filled.
fn signals(table: &Table, code: u32) -> Vec<u32> {
    if code & GROUP == 0 {
        return (code != 0).then_some(code).into_iter().collect();
    }
    words(table, code)
        .map(|(chunk, position)| table.chunks[chunk].words[position].get())
        .filter(|&entry| entry != 0)
        .collect()
}

fn hole(table: &Table, code: u32) -> Option<(usize, usize)> {
    words(table, code).find(|&(chunk, position)| table.chunks[chunk].words[position].get() == 0)
}

/// The chunk and word of each entry of a list, in the order of filling.
fn words(table: &Table, code: u32) -> impl Iterator<Item = (usize, usize)> + use<> {
    let chain = chain(table, code);
    chain
        .into_iter()
        .rev()
        .flat_map(|chunk| (1..=ListChunk::CODES).map(move |position| (chunk, position)))
}

/// The chunks of a list, head first.
fn chain(table: &Table, code: u32) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut next = if code & GROUP == 0 { 0 } else { code & CODE };
    while next != 0 {
        chain.push(next as usize);
        next = table.chunks[next as usize].words[0].get();
    }
    chain
}
