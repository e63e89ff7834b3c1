//! Why a state cannot be restored.

/// Why a saved state, or its bytes, cannot be restored. The queue has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The state has a version that this program does not know.
    #[error("restore a queue: version {version} of the state is unknown")]
    Version {
        /// The version in the state.
        version: u16,
    },
    /// The bytes end before the state does.
    #[error("restore a queue: the state's {len} bytes end inside of a field")]
    Truncated {
        /// How many bytes there are.
        len: usize,
    },
    /// There are bytes after the end of the state.
    #[error("restore a queue: {extra} bytes follow the state")]
    TooLong {
        /// How many bytes there are after the state.
        extra: usize,
    },
    /// A field has a value that means nothing.
    #[error("restore a queue: {field} cannot be {value:#x}")]
    Undefined {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The state is of another kind of queue.
    #[error("restore a queue: {field} is {saved:#x} in the state and {queue:#x} in the queue")]
    OtherQueue {
        /// Name of the field, or of the setting of the queue.
        field: &'static str,
        /// The value in the state.
        saved: u64,
        /// The value in the queue.
        queue: u64,
    },
    /// A field is larger than the queue or the other fields allow.
    #[error("restore a queue: {field} is {value}, more than {limit}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The largest value that the queue or the other fields allow.
        limit: u64,
    },
    /// Two indices cannot be those of one ring at one time.
    #[error("restore a queue: {field} {to:#x} does not follow {from:#x} on a ring of {size}")]
    Apart {
        /// Name of the later index.
        field: &'static str,
        /// The earlier index.
        from: u16,
        /// The later index.
        to: u16,
        /// Size of the queue.
        size: u16,
    },
    /// Two fields that say the same in two ways do not agree.
    #[error("restore a queue: {field} is {value}, and the other fields make it {expected}")]
    Disagree {
        /// Name of the field, or of what it says.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The value that follows from the other fields.
        expected: u64,
    },
    /// An entry (a descriptor or a buffer id) is listed twice.
    #[error("restore a queue: entry {entry} is listed twice")]
    Twice {
        /// The entry.
        entry: u16,
    },
    /// A batch ends with a buffer that is not in flight.
    #[error("restore a queue: a batch ends with buffer {id}, which is not in flight")]
    NotInFlight {
        /// The buffer.
        id: u16,
    },
    /// `VIRTIO_F_IN_ORDER` was negotiated, and the state cannot come of buffers that were used in order.
    #[error("restore a queue: {id} is out of order, and the queue promises order")]
    OutOfOrder {
        /// The chain, buffer or entry.
        id: u16,
    },
    /// The caller has no data of a buffer in flight.
    #[error("restore a queue: there is no data of buffer {id}, which is in flight")]
    NoData {
        /// The buffer.
        id: u16,
    },
}
