//! The next Linux inside this one, which runs the program: `vmbell run` or QEMU starts it.
//!
//! It is started before the job of this one is there, and waits for what the run gives it: the machine stops then, and a saved
//! one begins there. It is served as the host serves L1: what it sends is passed on, and the host's request to stop the program
//! is passed in. If it does not answer, the report says which Linux that is. The host alone has time limits, because this Linux'
//! clock may not be real.

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

/// Whether KVM gives its guests virtualization.
const OFFERED: &str = "/sys/module/kvm_amd/parameters/nested";
/// What [`LEAVING`] is where time is instructions, of which an emulated CPU has far fewer than 10^9 in a second.
const LEAVING_INSTRUCTIONS: Duration = Duration::from_secs(1);

/// Asks for the program's end.
static STOP: OnceLock<Sender<BootEvent>> = OnceLock::new();

/// Whether exits are counted from the start of the program, and the port by which it marks them.
static COUNTS: OnceLock<Option<u16>> = OnceLock::new();

/// Passes a request of the host about the program to the Linux inside; returns `false` if none runs.
pub fn pass(request: HostRequest) -> bool {
    STOP.get().is_some_and(|sender| {
        let event = match request {
            HostRequest::Stop => BootEvent::Stop,
            HostRequest::End => BootEvent::End,
            HostRequest::Unread(stream) => BootEvent::Unread(stream),
        };
        // A failure means that it has ended already.
        let _ = sender.send(event);
        true
    })
}

/// A Linux that was started.
#[derive(Debug)]
pub struct StartedLinux {
    nested: Nested,
    machine: RunningVmm,
    /// Ends its VMM if it spins, where the host's time limit would take it minutes.
    watch: Option<Watch>,
    /// Its loader, which is ready; `None` if its VMM has ended.
    loader: Option<VsockStream>,
}

/// Starts the Linux that is to be inside this one, if there is to be one, and waits until it is ready. `notes` are about this
/// one's modules.
pub fn start(notes: &[String]) -> Option<io::Result<StartedLinux>> {
    let machine = fs::read(NESTED_FILE).ok()?;
    let start = || StartedLinux::start(serde_json::from_slice(&machine)?, notes);
    Some(start())
}

/// Receives what the run gives this Linux, as its loader does where there is none inside. A machine is saved while this waits.
pub fn receive() -> io::Result<()> {
    let status = Command::new(LOADER_FILE).stdin(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        // It has said why, on the console.
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

    /// Gives the Linux what the run has for it, and waits for its end.
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
                    // If its VMM has ended, the report says so.
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
            // The host says when.
            ending: LONGEST,
            leaving: leaving * nested.levels,
            // On arm64 KVM takes 15 s to give back the memory of a guest at EL2.
            to_the_end: false,
            // The host asks L1 alone.
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

/// Sends the header and the archive. A clock that is to be set is set to this Linux' time.
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

/// Refuses a CPU or a KVM with which the Linux would have no KVM.
fn check(notes: &[String]) -> io::Result<()> {
    if !Path::new("/dev/kvm").exists() {
        let note = notes.iter().find(|note| note.contains("kvm"));
        let note = note.map_or(String::new(), |note| format!(" ({note})"));
        return Err(io::Error::other(format!(
            "there is no /dev/kvm, which a Linux inside needs{note}"
        )));
    }
    // On arm64 `vmbell run` says so.
    let offered = || fs::read_to_string(OFFERED).unwrap_or_default();
    if cfg!(target_arch = "x86_64") && !matches!(offered().trim(), "1" | "Y") {
        return Err(io::Error::other(
            "KVM gives its guests no virtualization (kvm_amd.nested=0), so a Linux inside has no /dev/kvm",
        ));
    }
    Ok(())
}

/// Tells the host when its limit for the program begins, and begins to count.
fn pass_on(message: &InitMessage) {
    if *message == InitMessage::Started {
        if let Some(marks) = COUNTS.get()
            && let Err(error) = exits::begin(*marks)
        {
            // The counts will be missing, which the host reports.
            eprintln!("lab: cannot count exits: {error}");
        }
        // A failure means that the host has gone, with which this Linux ends.
        let _ = control::send(message);
    }
}

/// Starts the VMM.
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

/// The context ID of the Linux inside that of this depth: KVM's host refuses the one that it has itself as a guest.
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
        // An exit at the begin of each handler, after which QEMU does not deliver the interrupt again: docs/emulator-bugs.md.
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
        // As for `vmbell run`.
        .args(["-cpu", "host,-kvm-pv-eoi"])
        // It reads and writes back the vCPU's registers, after which a program may access no port: docs/emulator-bugs.md.
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

/// Why the Linux inside that of this depth has not reported how the program ended.
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

/// What this kernel has said of a process that it killed for its memory.
fn out_of_memory() -> Option<String> {
    let log = complaints::read_log().ok()?;
    let mut lines = log.lines().map(str::trim);
    let killed = lines.find(|line| line.starts_with("Out of memory: "));
    killed.map(str::to_owned)
}
