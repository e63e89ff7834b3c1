//! The monitor's side of a sandbox: its start, the memory that both sides map, its threads, and its end. Any thread may
//! use the sandbox once it has started.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use rustix::fs::SealFlags;
use rustix::thread::Pid;
use stub::layout::{Control, HYPERCALL_OFFSET, PATCH_OFFSET, PATCH_SIZE, SharedState};
use vm_memory::{FileOffset, MmapRegion};
use vmbell::sync::Mutex;
use vmbell_core::lapic::Lapic;
use vmbell_core::vcpu_mode::Notification;

use super::descriptors::Descriptors;
use super::error::UsermodeError;
use super::halt_fds::HaltFdTable;
use super::launch::{BootFiles, fd_limit, launch};
use super::mapping::{Mapping, memory_file, seal};
use super::process::Process;
use super::progress::{POLL_INTERVAL, ProgressBound};
use super::thread::{KickResult, VcpuThread, nanoseconds};
use super::wait::{futex_wait, futex_wake, spin_ticks};
use super::{filter, hypercall_page};
use vmbell_hypervisor::{Containment, Error, Irqchip, PatchMode, SpinPolicy, VmConfig};

/// The CPU time that a sandbox may use from its first instruction until it is ready; normally milliseconds.
const START_BUDGET: Duration = Duration::from_secs(5);

/// The number of traps at a site before it is patched.
const TRAPS_BEFORE_PATCH: u32 = 16;

/// A sandbox, from its start to its end.
#[derive(Debug)]
pub struct Sandbox {
    /// The control page, which the sandbox maps read-only.
    pub control: Mapping<Control>,
    /// The memory that both sides write.
    pub shared: Arc<Mapping<SharedState>>,
    /// The monitor's writable mapping of the trampolines.
    pub trampolines: MmapRegion,
    /// The descriptors that doorbells write to.
    pub descriptors: Descriptors,
    /// The vCPUs' threads. Their ids were read before any guest code ran, because the sandbox could later report other
    /// threads.
    threads: Vec<VcpuThread>,
    /// Held by a removal while it waits for lookups.
    pub removals: Mutex<()>,
    /// Whether a removal must be final even if the guest takes over its stub.
    pub containment: Containment,
    /// The descriptors that halted vCPUs sleep on.
    pub halt_fds: HaltFdTable,
    process: Process,
}

impl Sandbox {
    /// Starts a sandbox whose RAM is in the file `ram`. Returns when its vCPUs wait for their first entry.
    pub fn start(config: &VmConfig, ram: &FileOffset) -> Result<Self, Error> {
        let size = PATCH_OFFSET + PATCH_SIZE;
        let fill = |control: &mut Control| fill_control(control, config, ram.start());
        let (read_only, control) = Mapping::create(c"vmbell-read-only", size, fill)?;
        let writable = memory_file(c"vmbell-writable", size_of::<SharedState>() as u64)?;
        let shared = Arc::new(Mapping::<SharedState>::new(&writable, 0)?);
        for (id, lapic) in (0..config.vcpus).zip(&shared.lapics) {
            lapic.reset(id);
        }
        read_only
            .write_all_at(&hypercall_page::code(), HYPERCALL_OFFSET)
            .map_err(Error::system("write the hypercall page"))?;
        let trampolines = map_trampolines(&read_only)?;
        // From here on no further writable mapping of this file can be made, in particular not by the sandbox.
        seal(
            &read_only,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        )?;
        seal(
            &writable,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;

        let (ours, theirs) = UnixStream::pair().map_err(Error::system("make a socket pair"))?;
        let ram = ram.file().try_clone();
        let devices = config.device_memory.iter();
        let files = BootFiles {
            read_only,
            writable,
            ram: ram.map_err(Error::system("duplicate the file of guest memory"))?,
            socket: theirs.into(),
            devices: devices
                .map(|(_, memory)| Arc::clone(&memory.file))
                .collect(),
        };
        let process = Process::watch(launch(files)?, &shared)?;
        let mut bound = ProgressBound::new(&process, START_BUDGET);
        let descriptors = Descriptors::receive(&ours, &process, &mut bound)?;
        let threads = await_threads(config, &shared, &process, &mut bound)?;
        process.set_started();
        Ok(Self {
            control,
            shared,
            trampolines,
            descriptors,
            threads,
            removals: Mutex::new(()),
            containment: config.containment,
            halt_fds: HaltFdTable::default(),
            process,
        })
    }

    /// The thread of a vCPU.
    pub fn thread(&self, vcpu: usize) -> &VcpuThread {
        &self.threads[vcpu]
    }

    /// Makes a vCPU leave the guest, and kills the sandbox if it has left kicks unanswered for too long.
    pub fn kick(&self, vcpu: usize) {
        self.kick_at(vcpu, nanoseconds());
    }

    /// Like [`kick`](Self::kick), at this time.
    pub(super) fn kick_at(&self, vcpu: usize, now: u64) {
        let vcpus = self.control.vcpus.load(Relaxed);
        let cpu_time = || self.process.cpu_time();
        let kicked = self.thread(vcpu).kick(now, vcpus, cpu_time);
        if kicked == KickResult::Unanswered {
            self.process.kill_with_reason("it answered no kick");
        }
    }

    /// Returns the vCPUs' local APICs, in memory that the sandbox can write.
    pub fn lapics(&self) -> &[Lapic] {
        &self.shared.lapics[..self.threads.len()]
    }

    /// Notifies a vCPU that its local APIC has a request, and returns how it was notified.
    pub fn notify(&self, vcpu: usize) -> Notification {
        let mode = &self.shared.runs[vcpu].interrupts.mode;
        let notification = mode.claim_notification();
        match notification {
            Notification::None => {}
            Notification::Signal => self.thread(vcpu).interrupt(),
            Notification::FutexWake => futex_wake(mode.word()),
            Notification::EventfdWrite => self.halt_fds.wake(vcpu),
        }
        notification
    }

    /// The sandbox's process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// Maps the trampolines' memory for writing; the sandbox maps it at [`stub::layout::PATCH_BASE`].
fn map_trampolines(read_only: &File) -> Result<MmapRegion, Error> {
    let operation = "map the trampolines";
    let file = read_only.try_clone().map_err(Error::system(operation))?;
    let size = usize::try_from(PATCH_SIZE).map_err(|error| Error::System {
        operation,
        source: std::io::Error::other(error),
    })?;
    MmapRegion::from_file(FileOffset::new(file, PATCH_OFFSET), size).map_err(|error| {
        Error::System {
            operation,
            source: std::io::Error::other(error),
        }
    })
}

/// Waits until each vCPU's thread has reported its thread ID.
fn await_threads(
    config: &VmConfig,
    shared: &SharedState,
    process: &Process,
    bound: &mut ProgressBound<'_>,
) -> Result<Vec<VcpuThread>, Error> {
    const OPERATION: &str = "wait for the sandbox's threads";
    let cpus = &config.vcpu_cpus;
    let mut threads = Vec::new();
    for (index, run) in (0..config.vcpus as usize).zip(&shared.runs) {
        let word = &run.thread_id;
        let number = loop {
            let number = word.load(Acquire);
            if let Some(ending) = process.ending() {
                return Err(UsermodeError::Start { ending }.into());
            }
            if let Some(number) = Pid::from_raw(number.cast_signed()) {
                break number;
            }
            bound
                .check()
                .map_err(|error| process.start_error(OPERATION, error))?;
            futex_wait(word, 0, POLL_INTERVAL);
        };
        let thread = VcpuThread::new(process.pid(), number);
        if !cpus.is_empty() {
            let pinned = thread.pin(cpus[index % cpus.len()]);
            pinned.map_err(Error::system("bind a vcpu's thread to its cpu"))?;
        }
        threads.push(thread);
    }
    Ok(threads)
}

fn fill_control(control: &mut Control, config: &VmConfig, ram_offset: u64) -> Result<(), Error> {
    let fd_limit = u32::try_from(fd_limit()).unwrap_or(u32::MAX);
    control.monitor_pid.store(std::process::id(), Relaxed);
    control.vcpus.store(config.vcpus, Relaxed);
    control.ram_size.store(config.ram_size, Relaxed);
    control.ram_offset.store(ram_offset, Relaxed);
    control.spin_ticks.store(spin_ticks(config.spin), Relaxed);
    control
        .spin_adaptive
        .store(u32::from(config.spin == SpinPolicy::Adaptive), Relaxed);
    control.patch_after.store(
        if config.patch == PatchMode::Off {
            0
        } else {
            TRAPS_BEFORE_PATCH
        },
        Relaxed,
    );
    for (mapping, (address, memory)) in control.device_mappings.iter().zip(&config.device_memory) {
        mapping.address.store(*address, Relaxed);
        mapping.size.store(memory.size, Relaxed);
        mapping.offset.store(memory.offset, Relaxed);
        mapping.writable.store(memory.writable.into(), Relaxed);
    }
    let interrupts = config.irqchip != Irqchip::None;
    control.interrupts.store(interrupts.into(), Relaxed);
    control.pv_eoi.store(config.pv_eoi.into(), Relaxed);
    control.one.store(1, Relaxed);
    control.vcpu_filter = filter::pack("a vcpu", &filter::vcpu_program(fd_limit, interrupts)?)?;
    control.user_notif_filter =
        filter::pack("the descriptor thread", &filter::user_notif_program())?;
    control.park_filter = filter::pack("the descriptor thread", &filter::park_program()?)?;
    Ok(())
}
