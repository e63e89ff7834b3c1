//! A vCPU's run page: `struct kvm_run` and the pages after it, which the kernel shares with this process.
//!
//! The kernel writes it only during `KVM_RUN`, and the vCPU's thread, which owns the [`RunPage`], reads it only outside
//! `KVM_RUN` (Linux Documentation/virt/kvm/api.rst, 5). There are two exceptions, both accessed as atomics: other
//! threads write `immediate_exit` at any time, through a [`RunMapping`], and all vCPUs share the ring of coalesced
//! writes, which is in the pages after `struct kvm_run`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};

use kvm_bindings::{
    KVM_EXIT_ARM_NISV, KVM_EXIT_FAIL_ENTRY, KVM_EXIT_HLT, KVM_EXIT_HYPERCALL,
    KVM_EXIT_INTERNAL_ERROR, KVM_EXIT_IO, KVM_EXIT_IO_OUT, KVM_EXIT_MMIO, KVM_EXIT_SHUTDOWN,
    KVM_EXIT_SYSTEM_EVENT, kvm_run, kvm_run__bindgen_ty_1__bindgen_ty_2,
    kvm_run__bindgen_ty_1__bindgen_ty_4, kvm_run__bindgen_ty_1__bindgen_ty_6,
    kvm_run__bindgen_ty_1__bindgen_ty_8, kvm_run__bindgen_ty_1__bindgen_ty_13,
    kvm_run__bindgen_ty_1__bindgen_ty_22,
};
use kvm_ioctls::VcpuFd;

use super::super::Error;

/// Offset of the union whose member depends on the exit reason.
const MEMBER: usize = offset_of!(kvm_run, __bindgen_anon_1);

/// An exit, as the kernel wrote it.
#[derive(Clone, Copy, Debug)]
pub enum Exit {
    /// `in`, `out`, or a string instruction that repeats them.
    Io(Io),
    /// An access to an address that no memory backs.
    Mmio {
        write: bool,
        address: u64,
        len: u32,
        data: u64,
    },
    /// A hypercall that KVM forwards to the VMM.
    Hypercall(Call),
    /// `hlt` in a guest without a local APIC.
    Hlt,
    /// A triple fault.
    Shutdown,
    /// The guest asked arm64's firmware interface to switch it off or reset it.
    SystemEvent {
        #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "for arm64"))]
        kind: u32,
    },
    /// An access to this address, which has no memory, by an instruction that arm64's KVM cannot decode.
    NotEmulated {
        #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "for arm64"))]
        address: u64,
    },
    /// The CPU refused to enter the guest with its state.
    FailEntry {
        reason: u64,
    },
    /// KVM could not continue, most often because it cannot emulate an instruction.
    InternalError {
        suberror: u32,
    },
    Other {
        reason: u32,
    },
}

/// A hypercall: the number that the kernel checked, and on x86-64 its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "for arm64"))]
    pub number: u64,
    #[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "for x86-64"))]
    pub arguments: [u64; 6],
}

/// Accesses to one port.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    pub out: bool,
    pub port: u16,
    /// Width of one access in bytes.
    pub width: u8,
    /// How many accesses there are: a string instruction makes several in one exit.
    pub count: u32,
    /// Offset of the data of the accesses in the mapping, in bytes.
    pub offset: u64,
}

/// The mapping of a vCPU's run page, and the one field that any thread may use.
#[derive(Debug)]
pub struct RunMapping {
    address: NonNull<kvm_run>,
    size: usize,
}

/// A vCPU's run page, owned by the thread that runs the vCPU: it moves between threads, and is never shared.
#[derive(Debug)]
pub struct RunPage {
    mapping: Arc<RunMapping>,
    not_sync: PhantomData<Cell<()>>,
}

impl RunMapping {
    /// Maps the run page; `size` is the number of bytes that KVM_GET_VCPU_MMAP_SIZE returned.
    fn new(vcpu: &VcpuFd, size: usize) -> Result<Self, Error> {
        // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                vcpu.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast::<kvm_run>()) {
            Some(found) if address != libc::MAP_FAILED && size >= size_of::<kvm_run>() => {
                Ok(Self {
                    address: found,
                    size,
                })
            }
            _ => Err(Error::last("map a vcpu's run page")),
        }
    }

    /// While this field is not 0, `KVM_RUN` returns at once.
    pub fn immediate_exit(&self) -> &AtomicU8 {
        let offset = offset_of!(kvm_run, immediate_exit);
        let field = self.address.as_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: the field is in our mapping, which lives as long as the result; this process accesses it only through
        // this function, and the kernel only reads it.
        unsafe { AtomicU8::from_ptr(field) }
    }
}

impl RunPage {
    /// Maps the run page; `size` is the number of bytes that KVM_GET_VCPU_MMAP_SIZE returned.
    pub fn new(vcpu: &VcpuFd, size: usize) -> Result<Self, Error> {
        Ok(Self {
            mapping: Arc::new(RunMapping::new(vcpu, size)?),
            not_sync: PhantomData,
        })
    }

    /// Returns the part that other threads use.
    pub const fn mapping(&self) -> &Arc<RunMapping> {
        &self.mapping
    }

    /// Reads the exit. Inlined, because it is on the path of every exit.
    #[inline(always)]
    pub fn exit(&self) -> Exit {
        match self.read::<u32>(offset_of!(kvm_run, exit_reason)) {
            KVM_EXIT_IO => {
                let io: kvm_run__bindgen_ty_1__bindgen_ty_4 = self.read(MEMBER);
                Exit::Io(Io {
                    out: u32::from(io.direction) == KVM_EXIT_IO_OUT,
                    port: io.port,
                    width: io.size,
                    count: io.count,
                    offset: io.data_offset,
                })
            }
            KVM_EXIT_MMIO => {
                let mmio: kvm_run__bindgen_ty_1__bindgen_ty_6 = self.read(MEMBER);
                Exit::Mmio {
                    write: mmio.is_write != 0,
                    address: mmio.phys_addr,
                    len: mmio.len,
                    data: u64::from_le_bytes(mmio.data),
                }
            }
            KVM_EXIT_HYPERCALL => {
                let call: kvm_run__bindgen_ty_1__bindgen_ty_8 = self.read(MEMBER);
                Exit::Hypercall(Call {
                    number: call.nr,
                    arguments: call.args,
                })
            }
            KVM_EXIT_HLT => Exit::Hlt,
            KVM_EXIT_SHUTDOWN => Exit::Shutdown,
            KVM_EXIT_FAIL_ENTRY => {
                let fail: kvm_run__bindgen_ty_1__bindgen_ty_2 = self.read(MEMBER);
                Exit::FailEntry {
                    reason: fail.hardware_entry_failure_reason,
                }
            }
            KVM_EXIT_INTERNAL_ERROR => {
                let internal: kvm_run__bindgen_ty_1__bindgen_ty_13 = self.read(MEMBER);
                Exit::InternalError {
                    suberror: internal.suberror,
                }
            }
            KVM_EXIT_SYSTEM_EVENT => {
                let kind = self.read(MEMBER);
                Exit::SystemEvent { kind }
            }
            KVM_EXIT_ARM_NISV => {
                let access: kvm_run__bindgen_ty_1__bindgen_ty_22 = self.read(MEMBER);
                Exit::NotEmulated {
                    address: access.fault_ipa,
                }
            }
            reason => Exit::Other { reason },
        }
    }

    /// Stores the answer to the load of the last exit.
    #[inline]
    pub fn answer_load(&self, data: [u8; 8]) {
        const DATA: usize = offset_of!(kvm_run__bindgen_ty_1__bindgen_ty_6, data);
        self.store((MEMBER + DATA) as u64, &data);
    }

    /// Stores the return value of the last exit's hypercall in its place in the run page.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn answer_hypercall(&self, result: u64) {
        const RESULT: usize = offset_of!(kvm_run__bindgen_ty_1__bindgen_ty_8, ret);
        self.store((MEMBER + RESULT) as u64, &result.to_ne_bytes());
    }

    /// Reads a field of the kernel's structure.
    #[inline]
    fn read<T: Plain>(&self, offset: usize) -> T {
        debug_assert!(offset + size_of::<T>() <= size_of::<kvm_run>());
        let field = self.first().wrapping_add(offset);
        // SAFETY: `offset` is one of this file's constants, so the field is in our mapping, which the kernel does not
        // change outside `KVM_RUN`; any bytes are a valid `T`.
        unsafe { field.cast::<T>().read_unaligned() }
    }

    /// Reads eight bytes at `offset` of the mapping, which begin with the data of an access; 0 if they are not all
    /// inside the mapping.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        match self.inside(offset, size_of::<u64>()) {
            // SAFETY: `inside` checks that the bytes lie in our mapping. The kernel does not change bytes of the run
            // page outside `KVM_RUN`, nor bytes of a ring entry until the entry is given back.
            Some(from) => unsafe { from.cast::<u64>().read_unaligned() },
            None => 0,
        }
    }

    /// Copies `data` to `offset` of the mapping; does nothing if it would not fit inside.
    #[inline]
    pub fn store(&self, offset: u64, data: &[u8]) {
        if let Some(to) = self.inside(offset, data.len()) {
            // SAFETY: `inside` checks that `to` has this number of bytes in our mapping.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        }
    }

    /// Returns a word of the mapping that other threads and the kernel also write; `None` if it is outside or not
    /// aligned.
    pub fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let word = self.inside(offset, size_of::<u32>())?.cast::<u32>();
        if !word.is_aligned() {
            return None;
        }
        // SAFETY: the word is in our mapping, which lives as long as the result, and is aligned; all code of this
        // process accesses it as an atomic.
        Some(unsafe { AtomicU32::from_ptr(word) })
    }

    #[inline]
    fn inside(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(len)? <= self.mapping.size;
        inside.then(|| self.first().wrapping_add(offset))
    }

    #[inline]
    fn first(&self) -> *mut u8 {
        self.mapping.address.as_ptr().cast()
    }
}

/// Types for which any bytes are a valid value.
///
/// # Safety
/// The type must consist of integers and arrays of integers.
unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: `io`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_4 {}
// SAFETY: `mmio`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_6 {}
// SAFETY: `hypercall`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_8 {}
// SAFETY: `fail_entry`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_2 {}
// SAFETY: `internal`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_13 {}

// SAFETY: `arm_nisv`: integers.
unsafe impl Plain for kvm_run__bindgen_ty_1__bindgen_ty_22 {}

impl Drop for RunMapping {
    fn drop(&mut self) {
        // SAFETY: our mapping, of this size; nothing borrowed from it outlives `self`.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.size) };
    }
}

// SAFETY: the mapping belongs to no thread, and threads other than the vCPU's access only `immediate_exit`, an atomic:
// everything else is accessed through `RunPage`, which one thread owns.
unsafe impl Send for RunMapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for RunMapping {}
