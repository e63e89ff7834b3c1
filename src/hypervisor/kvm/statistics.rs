//! A vCPU's counters, from the kernel itself.
//!
//! `KVM_GET_STATS_FD` gives a file that describes itself: a header, a descriptor for each counter,
//! the values (Linux Documentation/virt/kvm/api.rst, 4.132).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use kvm_ioctls::VcpuFd;

use super::error::KvmError;
use super::ioctl;

const HEADER: usize = 24;
const DESCRIPTOR: usize = 16;

/// More counters or longer names than any kernel has would be another format.
const SANE: u32 = 4096;

/// Where the counters of a vCPU are that we use.
#[derive(Debug)]
pub struct Statistics {
    file: File,
    exits: u64,
    host_interrupts: u64,
}

impl Statistics {
    pub fn open(vcpu: &VcpuFd) -> Result<Self, KvmError> {
        let failed = |source| KvmError::Call {
            operation: "read the vcpu's statistics (KVM_GET_STATS_FD)",
            source,
        };
        let file = ioctl::statistics(vcpu).map_err(failed)?;
        let names = ["exits", "irq_exits"];
        let [exits, host_interrupts] = find(&file, names).map_err(failed)?;
        Ok(Self {
            file,
            exits,
            host_interrupts,
        })
    }

    /// How often the guest has left its own code, for whatever reason of its own: the host's
    /// interrupts are left out.
    pub fn exits(&self) -> io::Result<u64> {
        let value = |offset| {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, offset)?;
            Ok::<_, io::Error>(u64::from_ne_bytes(bytes))
        };
        Ok(value(self.exits)?.saturating_sub(value(self.host_interrupts)?))
    }
}

/// The offsets of counters in the file.
fn find<const N: usize>(file: &File, names: [&str; N]) -> io::Result<[u64; N]> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let name_size = u32_at(&header, 4);
    let count = u32_at(&header, 8);
    let descriptors = u32_at(&header, 16);
    let data = u32_at(&header, 20);
    if name_size > SANE || count > SANE {
        return Err(io::Error::other(format!(
            "{count} counters with names of {name_size} bytes"
        )));
    }
    let size = DESCRIPTOR + name_size as usize;
    let mut table = vec![0; size * count as usize];
    file.read_exact_at(&mut table, descriptors.into())?;
    let mut found = [None; N];
    for descriptor in table.chunks_exact(size) {
        let name = descriptor[DESCRIPTOR..].split(|byte| *byte == 0).next();
        for (found, wanted) in found.iter_mut().zip(names) {
            if name == Some(wanted.as_bytes()) {
                let offset = u32_at(descriptor, 8);
                *found = Some(u64::from(data) + u64::from(offset));
            }
        }
    }
    let mut offsets = [0; N];
    for ((offset, found), name) in offsets.iter_mut().zip(found).zip(names) {
        *offset = found.ok_or_else(|| io::Error::other(format!("there is no counter {name}")))?;
    }
    Ok(offsets)
}

/// The 32-bit number at `offset`; every caller's buffer is long enough for its constants.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}
