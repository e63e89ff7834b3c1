//! The next Linux: a guest of this one, which runs the program. `vmbell run` or QEMU starts it.
//! The guest starts before this Linux gets its job, and waits for the files of the run. At this point the machine stops
//! and can be saved. This Linux serves the guest as the host serves L1: it passes the guest's output on to the host,
//! and the host's request to stop the program on to the guest. If the guest does not answer, the report says which
//! Linux that is. Only the host has time limits, because this Linux' clock may not be real.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vsock::{VMADDR_CID_ANY, VsockListener, VsockStream};

use super::control::{self, HostRequest};
use super::{exits, program};
use crate::board::CpuVendor;
use crate::boot::{
    BootEvent, LEAVING, LONGEST, LabBootResult, Listeners, Patience, RunningVmm, Sinks, TimeLimits,
    accept, channels,
};
use crate::complaints;
use crate::job::{
    InitJob, InitMessage, NESTED_INITRAMFS_FILE, NESTED_KERNEL_FILE, NESTED_RUN_FILE, Nested,
    NestedQemu, ProgramEnding, RunReport, port,
};
use crate::spin::{PERIOD, Watch};
use loader::window::{Header, INIT_FILE, LOADER_FILE, NESTED_FILE, PORT};

/// Replaces [`LEAVING`] where time is instructions. An emulated CPU executes far fewer than 10^9 of them in a second.
const LEAVING_INSTRUCTIONS: Duration = Duration::from_secs(1);

/// Sends requests to end the program.
static STOP: OnceLock<Sender<BootEvent>> = OnceLock::new();

/// Whether exits are counted after the program starts, and the port of the program's marks.
static COUNTS: OnceLock<Option<u16>> = OnceLock::new();

/// Passes the host's request about the program to the Linux inside. Returns `false` if there is none.
pub fn pass(request: HostRequest) -> bool {
    STOP.get().is_some_and(|sender| {
        let event = match request {
            HostRequest::Stop => BootEvent::Stop,
            HostRequest::End => BootEvent::End,
            HostRequest::Unread(stream) => BootEvent::Unread(stream),
        };
        // A failure means that the Linux has already ended.
        let _ = sender.send(event);
        true
    })
}

/// A Linux that was started.
#[derive(Debug)]
pub struct StartedLinux {
    nested: Nested,
    machine: RunningVmm,
    /// Ends the VMM if its guest spins, because the host's time limit would take minutes to pass.
    watch: Option<Watch>,
    /// The connection to its loader, which is ready; `None` if its VMM has ended.
    loader: Option<VsockStream>,
}

/// Starts the Linux inside, if there is to be one, and waits until it is ready. `notes` are about the modules of this
/// Linux.
pub fn start(notes: &[String]) -> Option<io::Result<StartedLinux>> {
    let machine = fs::read(NESTED_FILE).ok()?;
    let start = || StartedLinux::start(serde_json::from_slice(&machine)?, notes);
    Some(start())
}

/// Receives the files of the run, as the loader does without a Linux inside. A machine is saved while this waits.
pub fn receive() -> io::Result<()> {
    let status = Command::new(LOADER_FILE).stdin(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        // The loader has printed the reason on the console.
        false => Err(io::Error::other(format!("the loader ended ({status})"))),
    }
}

impl StartedLinux {
    fn start(nested: Nested, notes: &[String]) -> io::Result<Self> {
        check(notes)?;
        let loader = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, PORT)?;
        let mut channels = channels().map_err(io::Error::other)?;
        let listeners = Listeners::bind(&mut channels)?;
        let begun = Instant::now();
        let machine = RunningVmm::new(start_vmm(&nested)?, channels, begun, false);
        listeners.serve(machine.child())?;
        let watch = nested
            .deterministic
            .then(|| Watch::start(machine.child().id()));
        Ok(Self {
            watch: watch.transpose()?,
            loader: accept(&loader, machine.child())?,
            nested,
            machine,
        })
    }

    /// Gives the Linux the files of the run, and waits for its end.
    pub fn run(self, job: &InitJob) -> io::Result<RunReport> {
        let Self {
            nested,
            machine,
            watch,
            loader,
        } = self;
        let stdin = match job.stdin {
            true => Some(Box::new(control::open_port(port::STDIN)?) as _),
            false => None,
        };
        let open = |name| control::open_port(name).map(|port| Box::new(port) as _);
        let sinks = Sinks {
            stdout: open(port::STDOUT)?,
            stderr: open(port::STDERR)?,
            files: open(port::FILES)?,
            stdin,
            tells_unread: false,
            messages: pass_on,
        };
        let _ = STOP.set(machine.sender());
        if job.exits {
            let _ = COUNTS.set(job.marks);
        }
        control::send(&InitMessage::Nesting)?;
        if job.deterministic {
            program::wait_for_whole_second(Duration::from_nanos(job.phase));
        }
        if let Some(loader) = loader {
            thread::spawn(move || {
                if let Err(error) = give(loader) {
                    // If the VMM has ended, the report says so.
                    eprintln!("lab: cannot send {NESTED_RUN_FILE}: {error}");
                }
            });
        }
        let limits = TimeLimits {
            boot: LONGEST,
            program: LONGEST,
        };
        let leaving = match job.deterministic {
            true => LEAVING_INSTRUCTIONS,
            false => LEAVING,
        };
        let patience = Patience {
            // The host says when to end.
            ending: LONGEST,
            leaving: leaving * nested.levels,
            // On arm64, KVM takes 15 s to free the memory of a guest at EL2.
            to_the_end: false,
            // The host asks only L1.
            answering: LONGEST,
            looking: LONGEST,
        };
        let booted = machine.follow(sinks, limits, patience);
        let booted = booted.map_err(io::Error::other)?;
        let has_spun = watch.is_some_and(|watch| watch.found());
        let report = booted.report.clone();
        let report = report.unwrap_or_else(|| failure(&booted, has_spun, &nested).into());
        Ok(RunReport {
            sent: booted.received,
            exits: match job.exits {
                true => exits::read()?,
                false => report.exits,
            },
            between_marks: match job.marks {
                Some(port) => exits::between_marks(port)?,
                None => report.between_marks,
            },
            ..report
        })
    }
}

/// Sends the header and the archive. If the header sets the clock, it is set to this Linux' time.
fn give(mut loader: VsockStream) -> io::Result<()> {
    let mut run = File::open(NESTED_RUN_FILE)?;
    let mut bytes = [0; Header::SIZE];
    run.read_exact(&mut bytes)?;
    let header = Header::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or_default();
    let clock = if header.clock == 0 { 0 } else { now };
    loader.write_all(&Header { clock, ..header }.to_bytes())?;
    io::copy(&mut run, &mut loader)?;
    Ok(())
}

/// Returns an error if the CPU or KVM could not give the Linux a KVM.
fn check(notes: &[String]) -> io::Result<()> {
    if !Path::new("/dev/kvm").exists() {
        let note = notes.iter().find(|note| note.contains("kvm"));
        let note = note.map_or(String::new(), |note| format!(" ({note})"));
        return Err(io::Error::other(format!(
            "there is no /dev/kvm, which a Linux inside needs{note}"
        )));
    }
    // On arm64, `vmbell run` reports this.
    let is_loaded = |module: &&str| Path::new("/sys/module").join(module).exists();
    let modules = [CpuVendor::Amd, CpuVendor::Intel].map(CpuVendor::module);
    let module = modules.into_iter().find(is_loaded).unwrap_or("kvm");
    let offered = || fs::read_to_string(format!("/sys/module/{module}/parameters/nested"));
    if cfg!(target_arch = "x86_64") && !matches!(offered().unwrap_or_default().trim(), "1" | "Y") {
        return Err(io::Error::other(format!(
            "KVM gives its guests no virtualization ({module}.nested=0), so a Linux inside has no /dev/kvm"
        )));
    }
    Ok(())
}

/// Tells the host that the program's time limit begins, and starts to count exits.
fn pass_on(message: &InitMessage) {
    if *message == InitMessage::Started {
        if let Some(marks) = COUNTS.get()
            && let Err(error) = exits::begin(*marks)
        {
            // The counts will be missing, and the host reports that.
            eprintln!("lab: cannot count exits: {error}");
        }
        // A failure means that the host has gone, and this Linux will end.
        let _ = control::send(message);
    }
}

/// Starts the VMM of the Linux inside.
fn start_vmm(nested: &Nested) -> io::Result<Child> {
    let mut command = match &nested.qemu {
        Some(qemu) => by_qemu(nested, qemu),
        None => by_vmbell(nested),
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn()
}

/// Returns the context ID of the next Linux. This Linux's vhost refuses the ID that this Linux itself has as a guest.
const fn context(depth: u32) -> u32 {
    depth + 2
}

fn by_vmbell(nested: &Nested) -> Command {
    let mut command = Command::new(INIT_FILE);
    command
        .args(["run", NESTED_KERNEL_FILE, "--initrd", NESTED_INITRAMFS_FILE])
        .arg(format!(
            "--device=virtio-vsock,cid={}",
            context(nested.depth)
        ))
        .arg(format!("--memory={}", nested.memory))
        .arg(format!("--vcpus={}", nested.vcpus))
        .arg(format!("--append={}", nested.parameters))
        .arg("--virtualization")
        .env_clear();
    if cfg!(target_arch = "x86_64") {
        // Without PV EOI each handler exits at its start, and QEMU then does not repeat the interrupt:
        // docs/emulator-bugs.md.
        command.arg("--pv-eoi=off");
    }
    command
}

fn by_qemu(nested: &Nested, qemu: &NestedQemu) -> Command {
    let mut words = qemu.words.iter();
    let mut command = Command::new(words.next().map_or("", String::as_str));
    command
        .args(words)
        .args(["-machine", "pc,accel=kvm"])
        // PV EOI is off for the same reason as with `vmbell run`.
        .args(["-cpu", "host,-kvm-pv-eoi"])
        // For its VAPIC, QEMU writes the segment registers back, and then a program can no longer access ports:
        // docs/emulator-bugs.md.
        .args(["-global", "kvm-apic.vapic=off"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-serial", "stdio"])
        .args([
            "-kernel",
            NESTED_KERNEL_FILE,
            "-initrd",
            NESTED_INITRAMFS_FILE,
        ])
        .arg("-device")
        .arg(format!(
            "vhost-vsock-pci,guest-cid={}",
            context(nested.depth)
        ))
        .args(["-m", &format!("{}B", nested.memory)])
        .args(["-smp", &nested.vcpus.to_string()])
        .args(["-append", &nested.parameters])
        .env_clear()
        .envs(qemu.environment.iter().cloned());
    command
}

/// Returns why the Linux inside did not report how the program ended.
fn failure(booted: &LabBootResult, has_spun: bool, nested: &Nested) -> ProgramEnding {
    let depth = nested.depth;
    let inner = depth + 1;
    let (console, errors) = (booted.console.tail(), &booted.vmm_errors);
    let vmm = match nested.qemu {
        Some(_) => "QEMU",
        None => "`vmbell run`",
    };
    if let Some(reason) = booted.console.loader_failed() {
        return ProgramEnding::Failed(format!("L{inner}: {reason}"));
    }
    if booted.console.panicked() {
        let text = format!("L{inner}'s kernel panicked; its console ends with:\n{console}");
        return ProgramEnding::Failed(text);
    }
    if has_spun {
        let text = format!(
            "L{inner} spun for {PERIOD:?} without an exit; its console ends with:\n{console}"
        );
        return ProgramEnding::Spun(text);
    }
    let Some(status) = booted.status else {
        let state = match booted.started {
            Some(_) => "the program did not end within its limit (--timeout), and",
            None => "the program did not start within the limit (--boot-timeout):",
        };
        let text = format!("{state} L{inner} does not answer; its console ends with:\n{console}");
        return ProgramEnding::Unanswered(text);
    };
    let said = match errors.is_empty() {
        true => format!("its console ends with:\n{console}"),
        false => errors.clone(),
    };
    let killed = status.signal().and_then(|_| out_of_memory());
    ProgramEnding::Failed(match killed {
        Some(line) => {
            format!("L{depth} ran out of memory and killed {vmm}, in which L{inner} ran: {line}")
        }
        None => {
            format!("{vmm} in L{depth}, in which L{inner} ran, ended ({status}): {said}")
        }
    })
}

/// Returns the kernel's message about a process that it killed because memory ran out.
fn out_of_memory() -> Option<String> {
    let log = complaints::read_log().ok()?;
    let mut lines = log.lines().map(str::trim);
    let killed = lines.find(|line| line.starts_with("Out of memory: "));
    killed.map(str::to_owned)
}
