//! The kernel's part of interrupts: which eventfd each index signals, what is masked, and what unmasks it.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell_vfio::device::{Action, Data, SetIrqs};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::{Edu, INTX, MSI};

/// All indexes.
#[derive(Debug)]
pub struct Interrupts {
    lines: Vec<Line>,
    /// On a PCI device, at most one of INTx and MSI is on, and a loopback of INTx masks nothing. A platform device's
    /// lines are independent, and a loopback acts like an interrupt.
    is_pci: bool,
    /// Whether the function itself wants an interrupt.
    function: bool,
}

/// One index.
#[derive(Debug, Default)]
struct Line {
    kind: Kind,
    level: bool,
    is_masked: bool,
    trigger: Option<EventFd>,
    watcher: Option<Watcher>,
    signalled: u64,
    unmasked: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// There is no such index.
    #[default]
    None,
    /// The index has no interrupts.
    Empty,
    Edge,
    Level,
}

impl Line {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    fn signal(&mut self) {
        if let Some(trigger) = &self.trigger {
            self.signalled += 1;
            let _ = trigger.write(1);
        }
    }

    /// Signals a level-triggered line that is up and not masked, and masks it.
    fn sample(&mut self) {
        if self.kind == Kind::Level && self.level && !self.is_masked && self.trigger.is_some() {
            self.is_masked = true;
            self.signal();
        }
    }

    fn unmask(&mut self) {
        self.unmasked += 1;
        self.is_masked = false;
        self.sample();
    }
}

fn refused<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Interrupts {
    pub fn pci() -> Self {
        let kinds = [Kind::Level, Kind::Edge, Kind::Empty, Kind::None, Kind::Edge];
        Self {
            lines: kinds.map(Line::new).into(),
            is_pci: true,
            function: false,
        }
    }

    pub fn platform(levels: &[bool]) -> Self {
        let kind = |level: &bool| if *level { Kind::Level } else { Kind::Edge };
        Self {
            lines: levels.iter().map(|level| Line::new(kind(level))).collect(),
            is_pci: false,
            function: false,
        }
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap()
    }

    pub fn is_pci(&self) -> bool {
        self.is_pci
    }

    /// VFIO_DEVICE_GET_IRQ_INFO.
    pub fn info(&self, index: u32) -> io::Result<(u32, u32)> {
        match self.lines.get(index as usize).map(|line| line.kind) {
            None | Some(Kind::None) => refused(libc::EINVAL),
            Some(Kind::Empty) => Ok((9, 0)),
            Some(Kind::Edge) if self.is_pci => Ok((9, 1)),
            Some(Kind::Edge) => Ok((1, 1)),
            Some(Kind::Level) => Ok((7, 1)),
        }
    }

    fn line(&mut self, index: u32) -> &mut Line {
        &mut self.lines[index as usize]
    }

    pub fn unmasked(&self, index: u32) -> u64 {
        self.lines[index as usize].unmasked
    }

    pub fn signalled(&self, index: u32) -> u64 {
        self.lines[index as usize].signalled
    }

    /// Counts the eventfds that users of the device have set.
    pub fn eventfds(&self) -> usize {
        let count =
            |line: &Line| usize::from(line.trigger.is_some()) + usize::from(line.watcher.is_some());
        self.lines.iter().map(count).sum()
    }

    /// Sets the level of a line; an edge is signalled when it goes up.
    pub fn set_line(&mut self, index: u32, up: bool) {
        if self.is_pci && index == INTX {
            self.function = up;
        }
        let line = self.line(index);
        line.level = up;
        if line.kind == Kind::Edge && up {
            line.signal();
        }
        line.sample();
    }

    /// Says whether the function wants an interrupt: a message, if messages are on, otherwise its line.
    pub fn set_function(&mut self, up: bool) {
        self.function = up;
        let has_messages = self.is_pci && self.line(MSI).trigger.is_some();
        if has_messages {
            self.line(INTX).level = false;
            self.set_line(MSI, up);
        } else {
            self.set_line(INTX, up);
        }
    }

    pub fn unmask(&mut self, index: u32) {
        self.line(index).unmask();
    }

    /// VFIO_DEVICE_SET_IRQS. Returns a watcher that is removed: it must be dropped without the device's lock.
    pub fn set(&mut self, edu: &Weak<Edu>, request: &SetIrqs<'_>) -> io::Result<Option<Watcher>> {
        let (index, is_pci) = (request.index, self.is_pci);
        let (count, fds) = match request.data {
            Data::None(count) => (count as usize, None),
            Data::Eventfds(fds) => (fds.len(), Some(fds)),
        };
        let (_, has) = self.info(index)?;
        if request.start as usize + count > has as usize {
            return refused(libc::EINVAL);
        }
        let other_is_on = is_pci
            && match index {
                INTX => self.line(MSI).trigger.is_some(),
                MSI => self.line(INTX).trigger.is_some(),
                _ => false,
            };
        let line = self.line(index);
        let is_on = line.trigger.is_some();
        if request.action == Action::Trigger && fds.is_none() && count == 0 {
            if is_pci && !is_on {
                return refused(libc::EINVAL);
            }
            line.trigger = None;
            line.is_masked = false;
            return Ok(line.watcher.take());
        }
        if count != 1 || other_is_on {
            return refused(libc::EINVAL);
        }
        match (request.action, fds) {
            (Action::Trigger, Some(fds)) => {
                line.trigger = fds[0].map(EventFd::try_clone).transpose()?;
                let function = self.function;
                if is_pci && index == INTX {
                    self.line(INTX).level = function;
                }
                self.line(index).sample();
                Ok(None)
            }
            (Action::Trigger, None) => {
                line.is_masked |= line.kind == Kind::Level && !is_pci;
                line.signal();
                Ok(None)
            }
            _ if line.kind != Kind::Level || is_pci && !is_on => refused(libc::EINVAL),
            (Action::Mask, None) => {
                line.is_masked = true;
                Ok(None)
            }
            (Action::Mask, Some(_)) => refused(libc::ENOTTY),
            (Action::Unmask, None) => {
                line.unmask();
                Ok(None)
            }
            (Action::Unmask, Some(fds)) => match fds[0] {
                None => Ok(line.watcher.take()),
                Some(_) if line.watcher.is_some() => refused(libc::EBUSY),
                Some(event) => {
                    line.watcher = Some(Watcher::new(edu, index, event)?);
                    Ok(None)
                }
            },
        }
    }

    /// Removes all eventfds. The watchers must be dropped without the device's lock.
    pub fn disable_all(&mut self) -> Vec<Watcher> {
        let lines = self.lines.iter_mut();
        lines
            .filter_map(|line| {
                line.trigger = None;
                line.is_masked = false;
                line.watcher.take()
            })
            .collect()
    }
}

/// A thread that unmasks an index at each signal of an eventfd (Linux `drivers/vfio/virqfd.c`).
#[derive(Debug)]
pub struct Watcher {
    stop: EventFd,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    fn new(edu: &Weak<Edu>, index: u32, event: &EventFd) -> io::Result<Self> {
        let (event, stop) = (event.try_clone()?, EventFd::new(EFD_NONBLOCK)?);
        let epoll = Epoll::new()?;
        for file in [&event, &stop] {
            let number = file.as_raw_fd();
            let what = EpollEvent::new(EventSet::IN, 0);
            epoll.ctl(ControlOperation::Add, number, what)?;
        }
        let (edu, stopped) = (Weak::clone(edu), Arc::new(AtomicBool::new(false)));
        let their_stopped = Arc::clone(&stopped);
        let watch = move || {
            let mut events = [EpollEvent::default(); 2];
            loop {
                let _ = epoll.wait(-1, &mut events);
                if their_stopped.load(SeqCst) {
                    return;
                }
                if event.read().is_ok()
                    && let Some(edu) = edu.upgrade()
                {
                    let mut state = edu.lock();
                    // What the guest has stored before its EOI comes first.
                    edu.look(&mut state);
                    state.interrupts.unmask(index);
                }
            }
        };
        Ok(Self {
            stop,
            stopped,
            thread: Some(
                std::thread::Builder::new()
                    .name("unmask".into())
                    .spawn(watch)?,
            ),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stopped.store(true, SeqCst);
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
