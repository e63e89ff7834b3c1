//! The partition of the shared memory into atoms: the largest ranges that no access seen so far divides.
//!
//! Events of a graph cover whole atoms, so that accesses of different widths to the same bytes can be compared. An
//! access that begins or ends inside an atom refines the partition; the search then starts again with it.

use std::ops::Range;

/// A range of bytes of an access, and the atoms that it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first byte, from the beginning of the shared memory.
    pub(crate) offset: u16,
    /// 0 for an event that accesses no memory, otherwise 1 to 8.
    pub(crate) size: u8,
    /// The first atom.
    pub(crate) first: u16,
    /// How many atoms.
    pub(crate) atoms: u8,
}

impl Span {
    /// The atoms as indices.
    pub(crate) fn range(&self) -> Range<usize> {
        let first = usize::from(self.first);
        first..first + usize::from(self.atoms)
    }

    /// Whether the span covers this atom.
    pub(crate) fn covers(&self, atom: usize) -> bool {
        self.range().contains(&atom)
    }
}

/// The partition.
#[derive(Clone, Debug)]
pub(crate) struct Atoms {
    /// The offset where each atom begins, in order, and then the end of the memory.
    bounds: Vec<u16>,
}

impl Atoms {
    /// One atom of `len` bytes.
    pub(crate) fn new(len: u16) -> Atoms {
        Atoms {
            bounds: vec![0, len],
        }
    }

    /// Makes an atom begin at `offset`, and returns whether no atom began there before.
    pub(crate) fn split(&mut self, offset: u16) -> bool {
        match self.bounds.binary_search(&offset) {
            Ok(_) => false,
            Err(at) => {
                self.bounds.insert(at, offset);
                true
            }
        }
    }

    /// Makes the memory end at `end`, unless it is already longer.
    pub(crate) fn extend(&mut self, end: u16) {
        if self.bounds.last().is_some_and(|&last| last < end) {
            self.bounds.push(end);
        }
    }

    /// How many atoms there are.
    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The bytes of an atom.
    pub(crate) fn bytes(&self, atom: usize) -> Range<u16> {
        self.bounds[atom]..self.bounds[atom + 1]
    }

    /// The atoms of an access, if it begins and ends where atoms do.
    pub(crate) fn span(&self, offset: u16, size: u8) -> Option<Span> {
        let first = self.bounds.binary_search(&offset).ok()?;
        let end = offset + u16::from(size);
        let atoms = self.bounds[first..]
            .iter()
            .position(|&bound| bound == end)?;
        Some(Span {
            offset,
            size,
            first: u16::try_from(first).ok()?,
            atoms: u8::try_from(atoms).ok()?,
        })
    }
}
