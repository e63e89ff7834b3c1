//! The memory that the monitor and the sandbox share, and its addresses in the sandbox.
//!
//! In the sandbox, guest-physical addresses are virtual addresses: the low 4 GiB belong to the guest, and the stub and
//! its data are above. All-zero bytes are a valid initial value of each type here, and every field that both sides
//! touch is atomic.

use crate::patches::Patches;
use crate::section::Sections;
use vmbell_core::addresses::PAGE;
use vmbell_core::event::EventCounts;
use vmbell_core::ioapic::{Lines, Pins};
use vmbell_core::lapic::Lapic;
use vmbell_core::pv_eoi::PvEoi;
use vmbell_core::sync::{AtomicU32, AtomicU64};
use vmbell_core::table::Table;
use vmbell_core::vcpu_mode::VcpuMode;

/// The end of the guest's addresses: code below it belongs to the guest.
pub const GUEST_END: u64 = 1 << 32;
/// The highest possible end of guest RAM, and the start of the trampolines.
pub const PATCH_BASE: u64 = 0x1000_0000;
/// Bytes reserved for trampolines. They must be within reach of every patched jump.
pub const PATCH_SIZE: u64 = 0x1000_0000;

/// Base of the stub's code and data; `stub.ld` repeats this address.
pub const STUB_BASE: u64 = 0x10_0000_0000;
/// The stub's entry for the hypercall page, which jumps there: number in `rdi`, argument in `rsi`, result in `rax`.
pub const HYPERCALL_ENTRY: u64 = STUB_BASE;
/// The stub's entry that trampolines call: port in `rdi`, width in bytes in `esi`, value in `rdx`. The result in `eax`
/// is 0 if a doorbell rang.
pub const PORT_ENTRY: u64 = STUB_BASE + 64;
/// The stub's entry that trampolines of stores call: address in `rdi`; everything else as for [`PORT_ENTRY`].
pub const STORE_ENTRY: u64 = STUB_BASE + 128;
/// The stub's entry to which the code at [`INTERRUPT_RETURN`](vmbell_core::addresses::INTERRUPT_RETURN) jumps.
pub const INTERRUPT_RETURN_ENTRY: u64 = STUB_BASE + 192;
/// An upper bound for the stub's size in bytes.
pub const STUB_SIZE: u64 = 0x10_0000;
/// [`Control`], read-only in the sandbox.
pub const CONTROL_BASE: u64 = 0x11_0000_0000;
/// [`SharedState`], writable on both sides.
pub const SHARED_BASE: u64 = 0x12_0000_0000;
/// The vCPUs' private slots, each with a `PerCpu` (`elf/percpu.rs`) and a signal stack.
pub const SLOT_BASE: u64 = 0x13_0000_0000;
/// Size and alignment of a slot, so that masking the stack pointer gives the slot.
pub const SLOT_SIZE: u64 = 0x1_0000;

/// The maximum number of vCPUs that a guest can have.
pub const MAX_VCPUS: usize = 64;

/// File descriptors with which the sandbox starts. Its first thread closes them before it parks. They have the lowest
/// numbers, so they replace the monitor's standard streams.
pub mod boot_fd {
    /// The sealed file, which the sandbox cannot write: [`Control`](super::Control), hypercall page, trampolines.
    pub const READ_ONLY: i32 = 0;
    /// The file that both sides write: [`SharedState`](super::SharedState).
    pub const WRITABLE: i32 = 1;
    /// The file of guest RAM, which both sides write as well.
    pub const RAM: i32 = 2;
    /// A socket that carries the seccomp listener to the monitor.
    pub const SOCKET: i32 = 3;
    /// The file of the first [`DeviceMapping`](super::DeviceMapping); the others follow.
    pub const DEVICES: i32 = 4;
    /// The number after the last boot descriptor.
    pub const END: i32 = 16;
    const _: () = assert!(END.cast_unsigned() == super::FD_BASE);
    const _: () = assert!((END - DEVICES).cast_unsigned() as usize == super::MAX_DEVICE_MAPPINGS);
}

/// The maximum number of doorbells with a payload that a guest can have.
pub const MAX_PAYLOADS: usize = 4096;

/// The maximum number of device memory mappings that a guest can have.
pub const MAX_DEVICE_MAPPINGS: usize = 12;

/// A piece of the guest's device memory, mapped from its own boot descriptor.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceMapping {
    /// The address at which the guest finds the mapping.
    pub address: AtomicU64,
    /// The size of the mapping in bytes; 0 if this mapping and all later ones are unused.
    pub size: AtomicU64,
    /// The offset of the mapping in its file, in bytes.
    pub offset: AtomicU64,
    /// Not 0 if the guest may write to the mapping.
    pub writable: AtomicU64,
}

/// Offset of the hypercall page in the read-only file, in bytes.
pub const HYPERCALL_OFFSET: u64 = size_of::<Control>() as u64;
/// Offset of the trampolines in the read-only file, in bytes.
pub const PATCH_OFFSET: u64 = HYPERCALL_OFFSET + PAGE;

/// The lowest descriptor number that a doorbell may have in the sandbox.
pub const FD_BASE: u32 = 16;

/// Number of the system call in which the descriptor thread parks forever (`pause`).
pub const PARK_SYSCALL: u32 = 34;

/// The maximum number of instructions of a [`Filter`], one for each bit of `own_pid_operands`.
pub const FILTER_MAX: usize = u128::BITS as usize;

/// A seccomp program in the kernel's format: each word is a `struct sock_filter`.
#[repr(C)]
#[derive(Debug)]
pub struct Filter {
    /// How many instructions of `code` are in use.
    pub len: u64,
    /// One bit for each instruction, set if the instruction compares a value with the sandbox's own process id. The
    /// sandbox fills the id into these instructions before it installs the filter.
    pub own_pid_operands: u128,
    /// The instructions.
    pub code: [u64; FILTER_MAX],
}

/// What the monitor passes to the sandbox; the sandbox cannot write it.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Control {
    /// The monitor's process id: a sandbox with a different parent ends at once.
    pub monitor_pid: AtomicU32,
    /// How many vCPUs there are.
    pub vcpus: AtomicU32,
    /// Bytes of guest RAM.
    pub ram_size: AtomicU64,
    /// The offset of guest RAM in its file, in bytes.
    pub ram_offset: AtomicU64,
    /// The guest's device memory.
    pub device_mappings: [DeviceMapping; MAX_DEVICE_MAPPINGS],
    /// How many ticks of the time stamp counter a vCPU spins for a reply before it sleeps; 0 means no spinning.
    pub spin_ticks: AtomicU32,
    /// Not 0 if a vCPU spins only while the monitor is known to run on another CPU.
    pub spin_adaptive: AtomicU32,
    /// How often a site traps before the stub asks for a patch; 0 means that it never asks.
    pub patch_after: AtomicU32,
    /// The phase of the read-side sections ([`Sections`]): its lowest bit selects which counters are in use.
    pub phase: AtomicU32,
    /// Not 0 if each vCPU has a local APIC, and `hlt` waits for it.
    pub interrupts: AtomicU32,
    /// Not 0 if the vCPUs have the MSR of paravirtual EOI.
    pub pv_eoi: AtomicU32,
    /// The number 1. To ring a doorbell, the stub writes it to the doorbell's eventfd.
    pub one: AtomicU64,
    /// The filter that locks the descriptor thread down, after the listener is handed over.
    pub park_filter: Filter,
    /// The filter that reports the parked system call to the monitor.
    pub user_notif_filter: Filter,
    /// The filter that locks a vCPU thread down.
    pub vcpu_filter: Filter,
    /// The patches of the guest's code.
    pub patches: Patches,
    /// The I/O APIC's pins: their redirection entries and resamplefds.
    pub pins: Pins,
    /// The descriptors that wake each vCPU out of `hlt`, in addition to its mode word.
    pub halt_fds: [HaltFds; MAX_VCPUS],
    /// The eventfd of each of the [`payloads`](SharedState::payloads): its descriptor number in the sandbox.
    pub payload_fds: [AtomicU32; MAX_PAYLOADS],
    /// The doorbells.
    pub doorbells: Table,
}

/// The descriptors on which a halted vCPU sleeps, as numbers in the sandbox. The epoll descriptor watches
/// (edge-triggered) the vCPU's wake eventfd and the irqfds that have woken the vCPU before, so that writing to such an
/// irqfd wakes it directly. All bytes are zero if there are no such descriptors: the vCPU then sleeps on its mode word.
#[repr(C)]
#[derive(Debug)]
pub struct HaltFds {
    /// An eventfd that wakes the vCPU and raises no interrupt. Stored before `epoll`.
    pub wake_eventfd: AtomicU32,
    /// The epoll descriptor; 0 if the vCPU does not have one.
    pub epoll: AtomicU32,
}

/// What both sides write. The monitor does not trust it.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct SharedState {
    /// Doorbell lookups by direct calls and trampolines, whose code runs on the guest's stack.
    pub direct_sections: Sections,
    /// Lookups in [`direct_sections`](Self::direct_sections) that found no doorbell.
    pub direct_misses: AtomicU64,
    /// Doorbell lookups by trap handlers.
    pub trap_sections: Sections,
    /// The local APICs, one per vCPU.
    pub lapics: [Lapic; MAX_VCPUS],
    /// The state of the I/O APIC's input lines.
    pub lines: Lines,
    /// The last value of each doorbell with a payload, stored before its eventfd is signalled.
    pub payloads: [AtomicU64; MAX_PAYLOADS],
    /// The run pages, one per vCPU.
    pub runs: [RunPage; MAX_VCPUS],
}

/// One direction of a hand-over: a futex word that counts, and whether the other side sleeps on that word.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Handover {
    /// Incremented at each hand-over; a futex.
    pub sequence: AtomicU32,
    /// Not 0 while the side that waits for `sequence` sleeps.
    pub sleeping: AtomicU32,
    /// The CPU on which the waiting side last ran, plus 1; 0 if unknown.
    pub waiter_cpu: AtomicU32,
}

/// A vCPU's hand-over between stub and monitor.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct RunPage {
    /// Stub to monitor: an exit is ready.
    pub exit_handover: Handover,
    /// Monitor to stub: the vCPU may continue.
    pub entry_handover: Handover,
    /// The exit, valid from `exit_handover` to `entry_handover`.
    pub exit: ExitRecord,
    /// The answer to a read.
    pub reply: AtomicU64,
    /// The registers of the first entry.
    pub entry: EntryRegisters,
    /// The id of the thread that runs the vCPU, or 0 until the thread has locked itself down; a futex.
    pub thread_id: AtomicU32,
    /// Event counts since the start.
    pub counters: Counters,
    /// The vCPU's interrupt state; used only if the vCPU has a local APIC.
    pub interrupts: VcpuInterrupts,
}

/// A vCPU's interrupt state, apart from its [`Lapic`].
#[repr(C, align(64))]
#[derive(Debug)]
pub struct VcpuInterrupts {
    /// Whether the vCPU is in the guest, halted or neither.
    pub mode: VcpuMode,
    /// Paravirtual EOI.
    pub pv_eoi: PvEoi,
    /// Address of the guest's interrupt handler; no interrupt is delivered while it is 0.
    pub interrupt_handler: AtomicU64,
}

/// An exit as the stub describes it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ExitRecord {
    /// One of [`reason`].
    pub reason: AtomicU32,
    /// Access width in bytes, or the exception vector.
    pub len: AtomicU32,
    /// Port, address, hypercall number or register.
    pub address: AtomicU64,
    /// What the guest wrote, or one of [`fault`].
    pub data: AtomicU64,
    /// Address of the instruction.
    pub rip: AtomicU64,
    /// The bytes of the instruction at `rip` that could be read; the last byte of this field is their number.
    pub instruction: [AtomicU64; 2],
}

/// The registers of the first entry; all others are 0.
#[repr(C)]
#[derive(Debug)]
pub struct EntryRegisters {
    /// First instruction.
    pub rip: AtomicU64,
    /// Stack pointer.
    pub rsp: AtomicU64,
    /// First argument.
    pub rdi: AtomicU64,
    /// Second argument.
    pub rsi: AtomicU64,
}

/// A vCPU's event counts, for reports only.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Counters {
    /// The number of exits that were answered in the sandbox, for example by ringing a doorbell.
    pub light: AtomicU64,
    /// The number of exits that were handed to the monitor.
    pub heavy: AtomicU64,
    /// The number of kicks that arrived.
    pub kicks: AtomicU64,
    /// Kicks that arrived inside the exit sequence and made it start again.
    pub exit_restarts: AtomicU64,
    /// Branches into the middle of a patched jump.
    pub redirects: AtomicU64,
    /// Interrupt signals that arrived.
    pub interrupt_signals: AtomicU64,
    /// `hlt` instructions that waited in the sandbox.
    pub halts: AtomicU64,
    /// How often the return from an interrupt handler trapped, because an interrupt was waiting or IF was clear in the
    /// frame.
    pub windows: AtomicU64,
    /// Events, under the names of KVM's tracepoints; counted only if the guest has local APICs.
    pub events: EventCounts,
}

/// Why a vCPU hands over to the monitor.
pub mod reason {
    /// `in`.
    pub const PIO_IN: u32 = 1;
    /// `out`.
    pub const PIO_OUT: u32 = 2;
    /// A load.
    pub const MMIO_READ: u32 = 3;
    /// A store.
    pub const MMIO_WRITE: u32 = 4;
    /// A call through the hypercall page.
    pub const HYPERCALL: u32 = 5;
    /// `rdmsr`.
    pub const MSR_READ: u32 = 6;
    /// `wrmsr`.
    pub const MSR_WRITE: u32 = 7;
    /// `hlt`.
    pub const HLT: u32 = 8;
    /// A kick.
    pub const KICKED: u32 = 9;
    /// The guest cannot continue.
    pub const FAULT: u32 = 10;
    /// A site has trapped often enough for the monitor to patch it. The VMM's run loop does not see this exit.
    pub const PATCH: u32 = 11;
    /// The guest has ended a vector of a pin with more resamplefds than the stub can hold: the monitor does the EOI.
    /// The VMM's run loop does not see this exit either.
    pub const EOI: u32 = 12;
    /// The guest has no stack for the trampoline to which the jump at a site leads: the monitor takes the jump back.
    /// The VMM's run loop does not see this exit either.
    pub const UNPATCH: u32 = 13;
}

/// Kinds of guest faults.
pub mod fault {
    /// An exception. Its vector says everything.
    pub const EXCEPTION: u64 = 0;
    /// An instruction accessed a hole in memory, and the decoder does not know it.
    pub const UNDECODED: u64 = 1;
    /// An instruction that is privileged and not emulated.
    pub const PRIVILEGED: u64 = 2;
    /// `syscall`, `sysenter` or `int 0x80`.
    pub const SYSCALL: u64 = 3;
    /// An access above the guest's 4 GiB.
    pub const ABOVE_GUEST_END: u64 = 4;
    /// Instructions were fetched from unmapped memory.
    pub const FETCH: u64 = 5;
    /// A string instruction whose buffer is not in RAM.
    pub const STRING: u64 = 6;
    /// A store or load that is partly in RAM and partly in a hole.
    pub const STRADDLE: u64 = 7;
    /// An interrupt arrived while the stack pointer was not in RAM.
    pub const INTERRUPT_STACK: u64 = 8;
    /// The frame with which an interrupt handler returned is not in RAM, or leads out of the guest.
    pub const INTERRUPT_FRAME: u64 = 9;
    /// An MSR of the local APIC or of paravirtual EOI does not exist, or refuses the value.
    pub const MSR: u64 = 10;
    /// The code segment is not the 64-bit one.
    pub const CODE_SEGMENT: u64 = 11;
}

/// Exit statuses of a sandbox that ended itself.
pub mod exit_code {
    /// The monitor was gone before the sandbox started.
    pub const ORPHAN: i32 = 70;
    /// A step of the start failed. The status is `START + step`.
    pub const START: i32 = 80;
    /// The highest status for a failed step of the start.
    pub const START_LAST: i32 = START + 19;
    /// The stub's own code panicked. No known path leads to this.
    pub const PANIC: i32 = 71;
    /// The system call in which the descriptor thread is parked has returned.
    pub const UNPARKED: i32 = 77;
    /// A signal arrived while the stub's own code ran: `STUB_FAULT + signal`.
    pub const STUB_FAULT: i32 = 128;
}
