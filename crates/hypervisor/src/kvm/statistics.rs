//! The statistics of a vCPU, counted by the kernel (Linux `Documentation/virt/kvm/api.rst`, 4.134), and its exits to the
//! VMM. Any thread reads them; the guest keeps them after the vCPU is dropped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kvm_ioctls::VcpuFd;

use super::arch::exits::HOST_INTERRUPTS;
use super::ioctl;
use crate::Error;

const HEADER: usize = 24;
const DESCRIPTOR: usize = 16;
/// The bits of a descriptor's flags that hold type and unit; both are 0 for a count of events.
const KIND: u32 = 0xff;

/// An upper bound on the number of counters and on the length of their names: a file that exceeds it has an unknown
/// format.
const SANE: u32 = 4096;

/// The statistics file of a vCPU, with the offsets of the counters that are read often, and the count of heavy exits.
#[derive(Debug)]
pub struct Statistics {
    file: File,
    exits: u64,
    host_interrupts: Option<u64>,
    heavy: AtomicU64,
}

impl Statistics {
    pub fn open(vcpu: &VcpuFd) -> Result<Self, Error> {
        let failed = Error::system("read the vcpu's statistics (KVM_GET_STATS_FD)");
        let file = ioctl::statistics(vcpu).map_err(failed)?;
        let all = list(&file).map_err(failed)?;
        let exits = find(&all, "exits").map_err(failed)?;
        let host_interrupts = HOST_INTERRUPTS.map(|name| find(&all, name));
        let host_interrupts = host_interrupts.transpose().map_err(failed)?;
        Ok(Self {
            file,
            exits,
            host_interrupts,
            heavy: AtomicU64::new(0),
        })
    }

    /// Counts an exit to the VMM. Only the vCPU's thread calls this.
    #[inline]
    pub fn count_heavy(&self) {
        self.heavy.store(self.heavy() + 1, Relaxed);
    }

    /// Returns the number of exits to the VMM.
    #[inline]
    pub fn heavy(&self) -> u64 {
        self.heavy.load(Relaxed)
    }

    /// Returns how often the vCPU has left guest code because of the guest: exits for host interrupts are subtracted if
    /// the kernel counts them.
    pub fn exits(&self) -> io::Result<u64> {
        let all = self.value(self.exits)?;
        let host_interrupts = self.host_interrupts.map(|offset| self.value(offset));
        Ok(all.saturating_sub(host_interrupts.transpose()?.unwrap_or_default()))
    }

    /// Returns all counts of events by the kernel's names.
    pub fn all(&self) -> io::Result<Vec<(String, u64)>> {
        let read = |counter: Described| Ok((counter.name, self.value(counter.offset)?));
        list(&self.file)?.into_iter().map(read).collect()
    }

    fn value(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Returns the offset in the file of the counter with this name.
fn find(all: &[Described], name: &str) -> io::Result<u64> {
    let found = all.iter().find(|counter| counter.name == name);
    let missing = || io::Error::other(format!("there is no counter {name}"));
    Ok(found.ok_or_else(missing)?.offset)
}

/// The name and the offset of a counter that is one number.
struct Described {
    name: String,
    offset: u64,
}

/// Lists the counters that count events and hold a single number.
fn list(file: &File) -> io::Result<Vec<Described>> {
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
    let descriptors = table.chunks_exact(size).filter(|descriptor| {
        let (flags, numbers) = (u32_at(descriptor, 0), u32_at(descriptor, 4) >> 16);
        flags & KIND == 0 && numbers == 1
    });
    let describe = |descriptor: &[u8]| {
        let name = descriptor[DESCRIPTOR..].split(|byte| *byte == 0).next();
        Described {
            name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            offset: u64::from(data) + u64::from(u32_at(descriptor, 8)),
        }
    };
    Ok(descriptors.map(describe).collect())
}

/// Returns the 32-bit number at `offset`. All callers use constant offsets inside their buffers.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}
