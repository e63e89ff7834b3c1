//! This Linux' ends of the channels: sends messages to the host, receives the host's answers, and ends L1 through a
//! device of its emulator. L1's channels are virtio-serial ports in QEMU and I/O ports in Bochs; a Linux inside it has
//! virtio-vsock connections to its own host. Process 1 runs this.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::system::{RebootCommand, reboot};
use vsock::{VMADDR_CID_HOST, VsockStream};

use super::frames::PortThread;
use crate::boot::ProgramStream;
use crate::job::{InitMessage, answer, port};
use loader::window::HEADER_FILE;

/// How often to look for a port that does not exist yet, and the pause between attempts: a driver that was just loaded
/// creates its ports a little later.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// The control port. All users share it, because it can be opened only once.
static CONTROL: OnceLock<(File, Mutex<mpsc::Receiver<()>>)> = OnceLock::new();

/// Locked while a message is written.
static WHOLE_LINES: Mutex<()> = Mutex::new(());

/// How this Linux reaches its host.
static WAY: OnceLock<HostWay> = OnceLock::new();

/// What a Linux's channels are.
#[derive(Debug)]
enum HostWay {
    /// Virtio-serial ports of L1's QEMU.
    Serial,
    /// Virtio-vsock connections of a Linux inside another one.
    Vsock,
    /// I/O ports of L1's Bochs.
    Frames(PortThread),
}

/// A request of the host about the program.
#[derive(Clone, Copy, Debug)]
pub enum HostRequest {
    /// Kill the program.
    Stop,
    /// Ask the program to end by itself.
    End,
    /// The reader of this stream has gone.
    Unread(ProgramStream),
}

/// Opens the control port and starts a thread that reads it. The thread passes on the permission to end this Linux,
/// calls `obey` for requests, answers whether this Linux is running, and ends this Linux if the host closes the port.
/// `depth` is the depth of this Linux.
pub fn open(depth: u32, obey: impl Fn(HostRequest) + Send + 'static) -> io::Result<()> {
    let way = match depth {
        1 if Path::new(HEADER_FILE).exists() => HostWay::Frames(PortThread::start()?),
        1 => HostWay::Serial,
        _ => HostWay::Vsock,
    };
    let _ = WAY.set(way);
    let control = open_port(port::CONTROL)?;
    let mut reader = control.try_clone()?;
    let (sender, receiver) = mpsc::channel();
    let _ = CONTROL.set((control, Mutex::new(receiver)));
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = reader.read(&mut byte) {
            match byte[0] {
                answer::STOP => obey(HostRequest::Stop),
                answer::END => obey(HostRequest::End),
                answer::UNREAD_STDOUT => obey(HostRequest::Unread(ProgramStream::Stdout)),
                answer::UNREAD_STDERR => obey(HostRequest::Unread(ProgramStream::Stderr)),
                // A failure means that the host has closed the port.
                answer::ASK => drop(send(&InitMessage::Alive)),
                _ => drop(sender.send(())),
            }
        }
        end_machine(127);
    });
    Ok(())
}

/// Sends one message.
pub fn send(message: &InitMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut port = &parts()?.0;
    // Another thread may send an answer at the same time.
    let _whole = WHOLE_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    port.write_all(&line)
}

/// Waits until the host has read every stream to the end: ending L1 ends QEMU at once, and bytes that QEMU has not
/// passed on yet would be lost.
pub fn wait_for_leave() -> io::Result<()> {
    let receiver = parts()?
        .1
        .lock()
        .map_err(|_| io::Error::other("the control port's lock is poisoned"))?;
    receiver.recv().map_err(io::Error::other)
}

fn parts() -> io::Result<&'static (File, Mutex<mpsc::Receiver<()>>)> {
    CONTROL
        .get()
        .ok_or_else(|| io::Error::other("no control port"))
}

/// Opens the port with this name.
pub fn open_port(name: &str) -> io::Result<File> {
    let open = || match WAY.get() {
        Some(HostWay::Frames(ports)) => ports.open(name),
        Some(HostWay::Vsock) => connect(name),
        Some(HostWay::Serial) | None => find_port(name),
    };
    let is_nested = matches!(WAY.get(), Some(HostWay::Vsock));
    // The host of a Linux inside L1 listens from the start, so any error means that the device is not ready.
    let may_come = |error: &io::Error| is_nested || error.kind() == io::ErrorKind::NotFound;
    for _ in 1..ATTEMPTS {
        match open() {
            Err(error) if may_come(&error) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    open()
}

fn connect(name: &str) -> io::Result<File> {
    let number = port::number(name).ok_or(io::ErrorKind::NotFound)?;
    let stream = VsockStream::connect_with_cid_port(VMADDR_CID_HOST, number)?;
    Ok(OwnedFd::from(stream).into())
}

fn find_port(name: &str) -> io::Result<File> {
    for item in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
        let found = fs::read_to_string(item.path().join("name")).unwrap_or_default();
        if found.trim_end() == name {
            let path = std::path::Path::new("/dev").join(item.file_name());
            return File::options().read(true).write(true).open(path);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no virtio-serial port {name}"),
    ))
}

/// Ends the machine: L1 through its debug-exit device with this code or through Bochs's, a Linux inside it by power-off.
pub fn end_machine(code: u8) -> ! {
    match WAY.get() {
        Some(HostWay::Vsock) => {}
        Some(HostWay::Frames(_)) => super::frames::end_machine(),
        Some(HostWay::Serial) | None => debug_exit(code),
    }
    let _ = reboot(RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

#[cfg(target_arch = "x86_64")]
fn debug_exit(code: u8) {
    /// The port of the board's debug-exit device (`isa-debug-exit`).
    const PORT: u16 = 0x501;
    // SAFETY: only changes which port accesses this process may make.
    if unsafe { libc::iopl(3) } == 0 {
        // SAFETY: the access is allowed, and the port belongs to QEMU's debug-exit device, which ends the QEMU process.
        unsafe {
            std::arch::asm!("out dx, eax", in("dx") PORT, in("eax") u32::from(code), options(nostack));
        }
    }
}

/// Other boards have no such device: there the report is the only result.
#[cfg(not(target_arch = "x86_64"))]
fn debug_exit(_code: u8) {}
