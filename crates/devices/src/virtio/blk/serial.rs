//! The serial number of a disk, by which the guest identifies the disk.

use std::str::FromStr;

/// Bytes of a serial number (virtio 1.3, 5.2.6).
pub(super) const LEN: usize = 20;

/// The text that a driver gets when it asks for the disk's ID; Linux shows it in `/sys/block/vda/serial`. Defaults to
/// an empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSerial(pub(super) [u8; LEN]);

/// The text is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a serial number has at most {LEN} bytes, and this one has {len}")]
pub struct DiskSerialError {
    /// The text's length in bytes.
    pub len: usize,
}

impl FromStr for DiskSerial {
    type Err = DiskSerialError;

    fn from_str(text: &str) -> Result<Self, DiskSerialError> {
        let len = text.len();
        let mut bytes = [0; LEN];
        let used = bytes.get_mut(..len).ok_or(DiskSerialError { len })?;
        used.copy_from_slice(text.as_bytes());
        Ok(Self(bytes))
    }
}
