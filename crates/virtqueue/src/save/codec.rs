//! States as bytes: little-endian fields one after the other, without padding.
//!
//! A list begins with its length, which is checked against the size of the queue first.

use super::{RestoreError, RingKind, STATE_VERSION, Target, at_most};
use crate::{Features, QueueError};

/// Writes fields.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// Begins a state: its version, its side and its queue.
    pub(super) fn begin(version: u16, side: u8, target: Target) -> Self {
        let mut writer = Self::default();
        writer.u16(version);
        writer.u8(side);
        writer.u8(target.ring.code());
        writer.u16(target.size);
        writer.u8(features(target.features));
        writer
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// A list of at most one item for each descriptor of a queue. A longer one, which no queue has, is written so
    /// that it is refused when it is read.
    pub(super) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u16(u16::try_from(items.len()).unwrap_or(u16::MAX));
        for item in items {
            write(self, item);
        }
    }

    /// A flag that says whether there is a value, and the value.
    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn operand(&mut self, value: impl TryInto<u64>) {
        self.u64(value.try_into().unwrap_or(u64::MAX));
    }
}

/// Reads fields of untrusted bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// How many bytes there were at first.
    len: usize,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of a state of side `side`.
    pub(super) fn begin(bytes: &'a [u8], side: u8) -> Result<(Self, Target), RestoreError> {
        let len = bytes.len();
        let mut reader = Self { bytes, len };
        let version = reader.u16()?;
        if version != STATE_VERSION {
            return Err(RestoreError::Version { version });
        }
        let found = reader.u8()?;
        if found != side {
            return Err(undefined("side", found));
        }
        let (ring, size) = (RingKind::of_code(reader.u8()?)?, reader.u16()?);
        let bits = reader.u8()?;
        let features = Features {
            event_idx: bits & EVENT_IDX != 0,
            indirect: bits & INDIRECT != 0,
            in_order: bits & IN_ORDER != 0,
        };
        if bits & !(EVENT_IDX | INDIRECT | IN_ORDER) != 0 {
            return Err(undefined("features", bits));
        }
        let target = Target {
            ring,
            size,
            features,
        };
        Ok((reader, target))
    }

    /// Ends the state: there must be no further bytes.
    pub(super) fn end(self) -> Result<(), RestoreError> {
        let extra = self.bytes.len();
        if extra != 0 {
            return Err(RestoreError::TooLong { extra });
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let truncated = RestoreError::Truncated { len: self.len };
        let (first, rest) = self.bytes.split_first_chunk().ok_or(truncated)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(super) fn u8(&mut self) -> Result<u8, RestoreError> {
        self.take().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, RestoreError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, RestoreError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, RestoreError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, RestoreError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(undefined(field, value)),
        }
    }

    /// A list of at most `limit` items. It grows as they are read, so that its length alone allocates nothing.
    pub(super) fn list<T>(
        &mut self,
        field: &'static str,
        limit: u16,
        mut read: impl FnMut(&mut Self) -> Result<T, RestoreError>,
    ) -> Result<Vec<T>, RestoreError> {
        let count = self.u16()?;
        at_most(field, count, limit)?;
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn option<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, RestoreError>,
    ) -> Result<Option<T>, RestoreError> {
        self.flag(field)?.then(|| read(self)).transpose()
    }

    fn operand<T: TryFrom<u64>>(&mut self) -> Result<T, RestoreError> {
        let value = self.u64()?;
        let field = "operand of an error";
        T::try_from(value).map_err(|_| RestoreError::Undefined { field, value })
    }
}

pub(super) fn undefined(field: &'static str, value: impl Into<u64>) -> RestoreError {
    let value = value.into();
    RestoreError::Undefined { field, value }
}

const EVENT_IDX: u8 = 1;
const INDIRECT: u8 = 2;
const IN_ORDER: u8 = 4;

/// Features as a set of bits.
pub(super) fn features(features: Features) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    bit(features.event_idx, EVENT_IDX)
        | bit(features.indirect, INDIRECT)
        | bit(features.in_order, IN_ORDER)
}

/// Defines how an error of a broken queue is written and read: a number, and its operands with 64 bits each.
macro_rules! errors {
    ($($code:literal $variant:ident { $($operand:ident),* })*) => {
        impl Writer {
            pub(super) fn error(&mut self, error: QueueError) {
                match error {
                    $(QueueError::$variant { $($operand),* } => {
                        self.u8($code);
                        $(self.operand($operand);)*
                    })*
                }
            }
        }

        impl Reader<'_> {
            pub(super) fn error(&mut self) -> Result<QueueError, RestoreError> {
                Ok(match self.u8()? {
                    $($code => QueueError::$variant { $($operand: self.operand()?),* },)*
                    code => return Err(undefined("error", code)),
                })
            }
        }
    };
}

errors! {
    0 UsedAhead { index, consumed, outstanding }
    1 IdOutOfRange { id, size }
    2 NotInFlight { id }
    3 LengthPastBuffer { id, len, writable }
    4 BatchPastIndex { id, index }
    5 AvailAhead { index, used, size }
    6 Loop { head }
    7 ChainTooLong { head, limit }
    8 ChainTooLarge { head }
    9 BufferWraps { addr, len }
    10 ReadableAfterWritable { head }
    11 IndirectMisplaced { head }
    12 IndirectLength { head, len }
    13 IndirectOutside { addr, len }
}
