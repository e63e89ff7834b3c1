//! The channels of a guest of `vmbell run`: virtio-vsock connections that the guest makes. Each is joined to the other
//! end of a [`Channel`], as QEMU does for its ports.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use vsock::{VMADDR_CID_ANY, VsockListener, VsockStream};

use super::channel::Channel;
use super::process;
use crate::job::port;

/// The ports that wait for a guest's connections, each with the other end of its channel.
#[derive(Debug)]
pub(crate) struct Listeners {
    waiting: Vec<(VsockListener, UnixStream)>,
}

impl Listeners {
    /// Listens for one connection per channel.
    pub fn bind(channels: &mut [Channel]) -> io::Result<Self> {
        let mut waiting = Vec::new();
        for channel in channels {
            if let (Some(number), Some(theirs)) =
                (port::number(channel.name), channel.take_theirs()?)
            {
                let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, number)?;
                waiting.push((listener, theirs));
            }
        }
        Ok(Self { waiting })
    }

    /// Starts a thread that accepts the connections until all were made or the guest's VMM has ended.
    pub fn serve(mut self, vmm: &Child) -> io::Result<()> {
        let end = process::handle(vmm)?;
        thread::spawn(move || -> io::Result<()> {
            while !self.waiting.is_empty() {
                let mut all = vec![PollFd::new(&end, PollFlags::IN)];
                let listeners = self.waiting.iter().map(|(listener, _)| listener.as_fd());
                all.extend(listeners.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
                poll(&mut all, None)?;
                let ready: Vec<bool> = all.iter().map(|fd| !fd.revents().is_empty()).collect();
                let Some(index) = ready.iter().skip(1).position(|ready| *ready) else {
                    return Ok(());
                };
                let (listener, theirs) = self.waiting.remove(index);
                let (stream, _) = listener.accept()?;
                connect(stream, theirs)?;
            }
            Ok(())
        });
        Ok(())
    }
}

/// Waits for a connection from this VMM's guest; `None` if the VMM has ended.
pub(crate) fn accept(listener: &VsockListener, vmm: &Child) -> io::Result<Option<VsockStream>> {
    let end = process::handle(vmm)?;
    let mut both = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::new(&end, PollFlags::IN),
    ];
    while poll(&mut both, None) == Err(rustix::io::Errno::INTR) {}
    if both[0].revents().is_empty() {
        return Ok(None);
    }
    Ok(Some(listener.accept()?.0))
}

/// Starts threads that copy in both directions. When the VMM ends, the kernel closes its connections.
fn connect(stream: VsockStream, socket: UnixStream) -> io::Result<()> {
    let (mut from_guest, mut to_host) = (stream.try_clone()?, socket.try_clone()?);
    thread::spawn(move || {
        copy(&mut from_guest, &mut to_host);
        let _ = to_host.shutdown(Shutdown::Write);
    });
    let (mut from_host, mut to_guest) = (socket, stream);
    thread::spawn(move || {
        copy(&mut from_host, &mut to_guest);
        let _ = to_guest.shutdown(Shutdown::Write);
    });
    Ok(())
}

/// Copies until either side ends.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    // An error is treated as the end: the report shows if bytes were lost.
    let _ = io::copy(from, to);
}
