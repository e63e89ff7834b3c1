//! The channels of a Linux in Bochs, over I/O ports (`boot::frames`). One thread serves all channels.
//!
//! Only that thread, and the one that ends the machine, ask for the permission to access ports: the kernel switches the permissions of a process's threads at each
//! context switch, which would change what a program in L1 counts, and a program would inherit them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::boot::frames::{END, END_PORT, FRAMES, REQUESTS, header};
use crate::job::port;

/// How often to look whether the host has sent something, by L1's clock.
const LOOK: Duration = Duration::from_millis(250);
/// What a port returns if no device has it.
const NO_DEVICE: u8 = 0xff;

/// What the thread is to do.
enum PortAction {
    /// Send these bytes over the channel with this index.
    Send(u8, Vec<u8>),
    /// Pass what the host sends on to this end of the control channel.
    Listen(UnixStream),
}

/// The thread that accesses the ports.
#[derive(Debug)]
pub struct PortThread {
    actions: SyncSender<PortAction>,
}

impl PortThread {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (actions, receiver) = sync_channel(4);
        let (began, begins) = sync_channel(1);
        thread::spawn(move || {
            let allowed = allow();
            let may_run = allowed.is_ok();
            let _ = began.send(allowed);
            if may_run {
                serve(&receiver);
            }
        });
        begins.recv().map_err(io::Error::other)??;
        Ok(Self { actions })
    }

    /// Opens the channel with this name.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let index = port::ALL.iter().position(|other| *other == name);
        let index = index.and_then(|index| u8::try_from(index).ok());
        let index = index.ok_or(io::ErrorKind::NotFound)?;
        let (mut ours, theirs) = UnixStream::pair()?;
        if name == port::CONTROL {
            let listen = PortAction::Listen(ours.try_clone()?);
            self.actions.send(listen).map_err(io::Error::other)?;
        }
        let actions = self.actions.clone();
        thread::spawn(move || {
            let mut piece = vec![0; 16 << 10];
            while let Ok(length @ 1..) = ours.read(&mut piece) {
                let send = PortAction::Send(index, piece[..length].to_vec());
                if actions.send(send).is_err() {
                    return;
                }
            }
        });
        Ok(OwnedFd::from(theirs).into())
    }
}

/// Accesses the ports until all senders of `actions` are gone.
fn serve(actions: &Receiver<PortAction>) {
    let (mut control, mut looked) = (None, Instant::now());
    loop {
        match actions.recv_timeout(LOOK) {
            Ok(PortAction::Send(channel, bytes)) => {
                let length = u32::try_from(bytes.len()).unwrap_or_default();
                write(FRAMES, &header(channel, length));
                write(FRAMES, &bytes);
            }
            Ok(PortAction::Listen(end)) => control = Some(end),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(end) = control.as_mut().filter(|_| looked.elapsed() >= LOOK) {
            looked = Instant::now();
            loop {
                let byte = read(REQUESTS);
                // A failure means that the reader has gone.
                if byte == 0 || byte == NO_DEVICE || end.write_all(&[byte]).is_err() {
                    break;
                }
            }
        }
    }
}

/// Ends the machine.
pub fn end_machine() {
    if allow().is_ok() {
        write(END_PORT, END);
    }
}

/// Allows this thread to access I/O ports.
#[cfg(target_arch = "x86_64")]
fn allow() -> io::Result<()> {
    // SAFETY: only changes which ports this thread may access.
    match unsafe { libc::iopl(3) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes bytes to a port of Bochs, after [`allow`].
#[cfg(target_arch = "x86_64")]
fn write(port: u16, bytes: &[u8]) {
    // SAFETY: reads the bytes of the slice. The ports belong to Bochs, and do not access this machine's memory.
    unsafe {
        std::arch::asm!(
            "rep outsb",
            in("dx") port,
            inout("rsi") bytes.as_ptr() => _,
            inout("rcx") bytes.len() => _,
            options(nostack, readonly, preserves_flags)
        );
    }
}

/// Reads a byte from a port of Bochs, after [`allow`].
#[cfg(target_arch = "x86_64")]
fn read(port: u16) -> u8 {
    let byte;
    // SAFETY: the port belongs to Bochs, and does not access this machine's memory.
    unsafe {
        std::arch::asm!(
            "in al, dx",
            in("dx") port,
            out("al") byte,
            options(nostack, nomem, preserves_flags)
        );
    }
    byte
}

/// Bochs emulates x86 only.
#[cfg(not(target_arch = "x86_64"))]
fn allow() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_arch = "x86_64"))]
fn write(_port: u16, _bytes: &[u8]) {}

#[cfg(not(target_arch = "x86_64"))]
fn read(_port: u16) -> u8 {
    0
}
