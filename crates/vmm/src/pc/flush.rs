//! Takes a page of RAM out of the page tables through which the guest reaches it, so that the guest's next access
//! faults on the host. Runs on the thread of the vCPU that asks for it.
#![allow(unsafe_code)]

use std::io;

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

const PAGE: usize = 4096;

/// Flushes the page at `address`, a multiple of 4096. Does nothing if the address has no RAM.
///
/// A change of the page's protection on the host makes KVM drop its mapping of the page (`mmu_notifier`). QEMU takes
/// all access away and gives it back, but in between another thread that touches the page would fail. So this
/// function adds a right that no code uses, and takes that away again.
pub(super) fn flush(memory: &GuestMemoryMmap, address: u64) -> io::Result<()> {
    let Ok(page) = memory.get_host_address(GuestAddress(address)) else {
        return Ok(());
    };
    let usual = libc::PROT_READ | libc::PROT_WRITE;
    for protection in [usual | libc::PROT_EXEC, usual] {
        // SAFETY: `page` is the start of a page of the RAM that `memory` owns and maps for reading and writing, and
        // the caller's borrow keeps it mapped. Neither protection takes a right away from a user of the page.
        if unsafe { libc::mprotect(page.cast(), PAGE, protection) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
