//! Counts the events of a guest with KVM's tracepoints. If the kernel has no tracepoints for the guest, or this process
//! may not use them, the guest's backend counts. Any thread can read the counts.
//!
//! Each exit reason has a counter, with its number in the tracepoint `kvm_exit` and the name that the kernel prints.
//! Only reasons that guests cause often are listed; the number of other exits is the total minus these.

use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use vmm_sys_util::ioctl::ioctl_with_ptr;
use vmm_sys_util::ioctl_iow_nr;

use vmbell_hypervisor::Vm;
use vmbell_hypervisor::measure::EventCounts;

/// Where the kernel lists its tracepoints (`tracefs`).
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/kvm";

/// The name of the exit tracepoint, and its field for the reason: on arm64, the exception class.
const EXITS: &str = "kvm:kvm_exit";
const REASON: &str = if cfg!(target_arch = "aarch64") {
    "esr_ec"
} else {
    "exit_reason"
};

/// An exit reason.
type Reason = (u32, &'static str);

/// What counts the events of a guest.
pub(super) struct EventCounter {
    source: String,
    exits: &'static str,
    /// One counter for each tracepoint and one for each exit reason; empty if the backend counts.
    tracepoints: Vec<(String, Counter)>,
}

impl EventCounter {
    /// Counts the events of this guest. Tracepoints count on the calling thread and on threads that it starts from now
    /// on.
    pub(super) fn new(vm: &dyn Vm) -> Self {
        let backend = vm.measure().event_source();
        let counted = |source| Self {
            source,
            exits: backend.exits,
            tracepoints: Vec::new(),
        };
        if !backend.has_tracepoints {
            return counted(backend.name.to_owned());
        }
        match open_all() {
            Ok(tracepoints) => Self {
                source: "tracepoints of the kernel".to_owned(),
                exits: EXITS,
                tracepoints,
            },
            Err(error) => counted(format!("{}; no tracepoints here: {error}", backend.name)),
        }
    }

    /// The origin of the counts, for reports.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The name of the event that counts exits.
    pub(super) const fn exits(&self) -> &'static str {
        self.exits
    }

    /// The counts so far, including those of events that never happened.
    pub(super) fn read(&mut self, vm: &dyn Vm) -> io::Result<EventCounts> {
        if self.tracepoints.is_empty() {
            return vm.measure().events();
        }
        let counters = self.tracepoints.iter_mut();
        let read = |(name, counter): &mut (String, Counter)| Ok((name.clone(), counter.read()?));
        counters.map(read).collect()
    }
}

fn open_all() -> io::Result<Vec<(String, Counter)>> {
    let folder = Path::new(TRACEPOINTS);
    let mut counters = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let entry = entry?;
        // The files next to the tracepoints' folders control the whole group.
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let name = format!("kvm:{}", entry.file_name().to_string_lossy());
        if name == EXITS {
            for (number, reason) in reasons() {
                let counter = open(&entry.path())?;
                let filter = CString::new(format!("{REASON} == {number}"))?;
                set_filter(&counter, &filter)
                    .map_err(|error| failed(Path::new("PERF_EVENT_IOC_SET_FILTER"), error))?;
                counters.push((format!("{EXITS}:{reason}"), counter));
            }
        }
        counters.push((name, open(&entry.path())?));
    }
    Ok(counters)
}

/// Opens a running counter of the tracepoint in `folder`.
fn open(folder: &Path) -> io::Result<Counter> {
    let id = folder.join("id");
    let text = fs::read_to_string(&id).map_err(|error| failed(&id, error))?;
    let number = text.trim().parse().map_err(io::Error::other)?;
    Builder::new(Tracepoint::with_id(number))
        .observe_self()
        .any_cpu()
        .include_kernel()
        .inherit(true)
        .enabled(true)
        .build()
        .map_err(|error| failed(Path::new("perf_event_open"), error))
}

fn failed(what: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", what.display()))
}

// Linux uapi/linux/perf_event.h: _IOW('$', 6, char *).
ioctl_iow_nr!(PERF_EVENT_IOC_SET_FILTER, b'$' as u32, 6, *const c_char);

/// Makes a counter of a tracepoint count only the events whose fields match `filter` (Linux
/// Documentation/trace/events.rst, 5.1).
#[allow(unsafe_code, reason = "an ioctl that perf-event2 does not have")]
fn set_filter(counter: &Counter, filter: &CStr) -> io::Result<()> {
    let descriptor = counter.as_raw_fd();
    // SAFETY: the descriptor belongs to the counter, which the caller holds; `filter` ends with a zero byte and lives
    // through the call, which only reads it.
    if unsafe { ioctl_with_ptr(&descriptor, PERF_EVENT_IOC_SET_FILTER(), filter.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The exit reasons of the host's CPU.
fn reasons() -> &'static [Reason] {
    #[cfg(target_arch = "x86_64")]
    if crate::cpuid::is_amd() {
        &SVM
    } else {
        &VMX
    }
    #[cfg(target_arch = "aarch64")]
    &CLASSES
}

/// Intel's reasons (SDM volume 3, appendix C; Linux `arch/x86/include/uapi/asm/vmx.h`).
#[cfg(target_arch = "x86_64")]
const VMX: [Reason; 21] = [
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (7, "INTERRUPT_WINDOW"),
    (8, "NMI_WINDOW"),
    (10, "CPUID"),
    (12, "HLT"),
    (18, "VMCALL"),
    (28, "CR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (40, "PAUSE_INSTRUCTION"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (52, "PREEMPTION_TIMER"),
    (56, "APIC_WRITE"),
    (62, "PML_FULL"),
];

/// AMD's reasons (APM volume 2, appendix C; Linux `arch/x86/include/uapi/asm/svm.h`).
#[cfg(target_arch = "x86_64")]
const SVM: [Reason; 13] = [
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x64, "vintr"),
    (0x72, "cpuid"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7f, "shutdown"),
    (0x81, "hypercall"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
];

/// arm64's exception classes (Linux `arch/arm64/include/asm/esr.h`). 0 is an exit for an interrupt: of the host, or for
/// an EOI of the guest.
#[cfg(target_arch = "aarch64")]
const CLASSES: [Reason; 6] = [
    (0x00, "IRQ"),
    (0x01, "WFx"),
    (0x16, "HVC64"),
    (0x18, "SYS64"),
    (0x20, "IABT_LOW"),
    (0x24, "DABT_LOW"),
];
