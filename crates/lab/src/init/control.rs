//! L1's end of the control port: messages to the host, and its answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use super::{exit, ports, program};
use crate::job::{Message, answer, port};

/// The port, shared by all its users because it can be opened only once.
static CONTROL: OnceLock<(File, Mutex<mpsc::Receiver<()>>)> = OnceLock::new();

/// Opens the port and starts a thread that passes on the host's leave to end L1, kills the program if the host
/// says so, and ends L1 if the host closes the port.
pub fn open() -> io::Result<()> {
    let control = ports::open(port::CONTROL)?;
    let mut reader = control.try_clone()?;
    let (sender, receiver) = mpsc::channel();
    let _ = CONTROL.set((control, Mutex::new(receiver)));
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = reader.read(&mut byte) {
            match byte[0] {
                answer::STOP => program::stop(),
                _ => drop(sender.send(())),
            }
        }
        exit::leave(127);
    });
    Ok(())
}

/// Sends one message.
pub fn send(message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut port = &parts()?.0;
    port.write_all(&line)
}

/// Waits until the host has read every stream to its end: ending L1 ends QEMU at once, and the bytes that QEMU
/// had not passed on would be lost.
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
