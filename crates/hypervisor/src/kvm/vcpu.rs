//! A vCPU, on the thread that runs it: the thread enters the guest, translates the exit, and stores the answer for the
//! next entry.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kvm_ioctls::VcpuFd;
use vmbell::doorbell::IoEventAddress;

use super::super::stage::Stage;
use super::super::state::VcpuState;
use super::super::{EntryPoint, Error, Kick, Vcpu, VcpuSnapshot, VmEntry, VmExit};
use super::arch::state::Registers;
use super::arch::{boot, entry, exits, last_words};
use super::error::KvmError;
use super::guest::KvmGuest;
use super::ioctl;
use super::kick::Kicks;
use super::run_page::{Call, Exit, Io, RunPage};
use super::statistics::Statistics;

/// A virtual CPU of a [`super::KvmVm`].
#[derive(Debug)]
pub struct KvmVcpu {
    fd: VcpuFd,
    page: RunPage,
    kicks: Arc<Kicks>,
    statistics: Arc<Statistics>,
    guest: Arc<KvmGuest>,
    index: u32,
    stage: Stage,
    pending: Pending,
    /// The state after a reset, for a vCPU that can be reset.
    initial: Option<Box<Registers>>,
    /// An exit that is reported after the coalesced writes that came before it.
    held: Option<Exit>,
}

/// The answer that the last exit still needs at the next entry.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Nothing,
    Load,
    /// One `in`, and the offset of its data in the run page's mapping.
    In(u64),
    Hypercall,
    /// A string of port accesses, and how many of them have been answered.
    String(Io, u32),
}

impl KvmVcpu {
    pub(super) fn new(guest: Arc<KvmGuest>, index: u32) -> Result<(Self, Arc<Statistics>), Error> {
        let system = &guest.system;
        let fd = entry::vcpu(&guest, index)?;
        let page = RunPage::new(&fd, system.run_size)?;
        let statistics = Arc::new(Statistics::open(&fd)?);
        let vcpu = Self {
            kicks: Arc::new(Kicks::new(Arc::clone(page.mapping()), system.kick_signal)?),
            statistics: Arc::clone(&statistics),
            fd,
            page,
            guest,
            index,
            stage: Stage::default(),
            pending: Pending::Nothing,
            initial: None,
            held: None,
        };
        Ok((vcpu, statistics))
    }

    /// Saves the registers for a reset. The vCPU has not run.
    fn save_initial(&mut self) -> Result<(), Error> {
        let registers = Registers::save(&self.guest.system.fd, &self.fd, self.guest.irqchip)?;
        self.initial = Some(Box::new(registers));
        Ok(())
    }

    /// Enters the guest until there is an exit that the VMM has to answer.
    #[inline(always)]
    fn enter(&mut self) -> Result<VmExit, Error> {
        loop {
            if self.guest.coalesced.is_used()
                && let Some(exit) = self.earlier()
            {
                return exit;
            }
            let moves = self.guest.groups.moves();
            if let Err(error) = ioctl::run(&self.fd) {
                match error.raw_os_error() {
                    Some(libc::EINTR) if self.kicks.answer() => return Ok(VmExit::Kicked),
                    // Another signal came, or the vCPU was reset and waits for its SIPI.
                    Some(libc::EINTR | libc::EAGAIN) => continue,
                    _ => return Err(failed(error)),
                }
            }
            self.statistics.count_heavy();
            if (self.guest.groups.has_moved(moves) || self.guest.coalesced.is_used())
                && self.is_put_off(moves)
            {
                continue;
            }
            return self.exit();
        }
    }

    /// Returns whether the exit must not be reported now: it rang a group whose registration was moving, or coalesced
    /// writes in the ring may have come before it.
    #[cold]
    fn is_put_off(&mut self, moves: u64) -> bool {
        if self.guest.groups.has_moved(moves) && self.belongs_to_a_group() {
            return true;
        }
        if self.guest.coalesced.is_used() {
            self.held = Some(self.page.exit());
            return true;
        }
        false
    }

    /// Returns what to report before entering the guest: a coalesced write, then the exit that came after it.
    #[cold]
    fn earlier(&mut self) -> Option<Result<VmExit, Error>> {
        if let Some(write) = self.guest.coalesced.pop(&self.page) {
            return Some(Ok(store(write.address, write.len, write.data)));
        }
        let exit = self.held.take()?;
        Some(self.translate(exit))
    }

    /// Translates the exit in the run page.
    #[inline(always)]
    fn exit(&mut self) -> Result<VmExit, Error> {
        match self.page.exit() {
            Exit::Io(io) if io.count == 1 => Ok(self.access(io)),
            Exit::Mmio {
                write: true,
                address,
                len,
                data,
            } => Ok(store(address, len, data)),
            Exit::Mmio { address, len, .. } => Ok(self.load(address, len)),
            Exit::Hypercall(call) => self.hypercall(call),
            _ => self.rare(),
        }
    }

    /// Like [`exit`](Self::exit), for the rare exits.
    #[cold]
    fn rare(&mut self) -> Result<VmExit, Error> {
        self.translate(self.page.exit())
    }

    fn translate(&mut self, exit: Exit) -> Result<VmExit, Error> {
        match exit {
            Exit::Io(io) => self.string(io, 0),
            Exit::Mmio {
                write: true,
                address,
                len,
                data,
            } => Ok(store(address, len, data)),
            Exit::Mmio { address, len, .. } => Ok(self.load(address, len)),
            Exit::Hypercall(call) => self.hypercall(call),
            Exit::Hlt => Ok(VmExit::Halt),
            exit => self.end(exit),
        }
    }

    #[inline]
    fn load(&mut self, address: u64, len: u32) -> VmExit {
        self.pending = Pending::Load;
        let len = (len & 0xff) as u8;
        VmExit::MmioRead { address, len }
    }

    #[inline]
    fn hypercall(&mut self, call: Call) -> Result<VmExit, Error> {
        self.pending = Pending::Hypercall;
        let [number, argument] = exits::decode(&self.fd, &call)?;
        Ok(VmExit::Hypercall { number, argument })
    }

    /// Reports an exit after which the vCPU cannot be entered again.
    #[cold]
    fn end(&mut self, exit: Exit) -> Result<VmExit, Error> {
        self.stage.fault();
        if let Some(end) = last_words::end(&self.guest, &self.fd, self.index, exit)? {
            return Ok(end);
        }
        match exit {
            Exit::InternalError { suberror } => Err(KvmError::Internal { suberror }.into()),
            Exit::FailEntry { reason } => Err(KvmError::FailedEntry { reason }.into()),
            Exit::Other { reason } => Err(KvmError::UnknownExit { reason }.into()),
            _ => Err(Error::Faulted),
        }
    }

    /// Translates a single port access.
    #[inline(always)]
    fn access(&mut self, io: Io) -> VmExit {
        let (port, len) = (io.port, io.width);
        if !io.out {
            self.pending = Pending::In(io.offset);
            return VmExit::PioIn { port, len };
        }
        let data = masked(self.page.load(io.offset), len.into());
        let data = (data & 0xffff_ffff) as u32;
        VmExit::PioOut { port, len, data }
    }

    /// Translates access `done` of a string of port accesses; a single access is a string of length 1.
    #[cold]
    fn string(&mut self, io: Io, done: u32) -> Result<VmExit, Error> {
        let Io {
            out, port, width, ..
        } = io;
        self.pending = if out && done + 1 >= io.count {
            Pending::Nothing
        } else {
            Pending::String(io, done)
        };
        if !out {
            return Ok(VmExit::PioIn { port, len: width });
        }
        let at = io.offset + u64::from(done) * u64::from(width);
        let data = masked(self.page.load(at), width.into());
        Ok(VmExit::PioOut {
            port,
            len: width,
            data: (data & 0xffff_ffff) as u32,
        })
    }

    /// Stores the answer to the last exit. Returns the next exit if it is known without entering the guest: the next
    /// access of a string I/O instruction.
    #[inline(always)]
    fn answer(&mut self, entry: VmEntry) -> Option<Result<VmExit, Error>> {
        let data = entry.data();
        match self.pending {
            Pending::Nothing => return None,
            Pending::Load => self.page.answer_load(data.to_le_bytes()),
            // The kernel uses only the bytes of the access.
            Pending::In(at) => self.page.store(at, &data.to_le_bytes()),
            Pending::Hypercall | Pending::String(..) => return self.answer_rare(data),
        }
        self.pending = Pending::Nothing;
        None
    }

    #[cold]
    fn answer_rare(&mut self, data: u64) -> Option<Result<VmExit, Error>> {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing | Pending::Load | Pending::In(_) => None,
            Pending::Hypercall => exits::answer(&self.fd, &self.page, data).err().map(Err),
            Pending::String(io, done) => {
                if !io.out {
                    let at = io.offset + u64::from(done) * u64::from(io.width);
                    let bytes = data.to_le_bytes();
                    self.page
                        .store(at, &bytes[..usize::from(io.width).min(bytes.len())]);
                }
                (done + 1 < io.count).then(|| self.string(io, done + 1))
            }
        }
    }

    /// Returns whether the exit is a write that belongs to a group whose registration was moving; if so, rings the
    /// group. KVM emulates each element of a `rep outs` as a separate write (`em_out()`, arch/x86/kvm/emulate.c).
    #[cold]
    fn belongs_to_a_group(&self) -> bool {
        let groups = &self.guest.groups;
        match self.page.exit() {
            Exit::Io(Io {
                out: true,
                port,
                width,
                count: 1,
                offset,
            }) => {
                let data = masked(self.page.load(offset), width.into());
                groups.deliver(IoEventAddress::Pio(port), width.into(), data)
            }
            Exit::Mmio {
                write: true,
                address,
                len,
                data,
            } => {
                let data = masked(data, len);
                groups.deliver(IoEventAddress::Mmio(address), len, data)
            }
            _ => false,
        }
    }
}

impl VcpuSnapshot for KvmVcpu {
    fn save(&self) -> Result<VcpuState, Error> {
        self.stage.check_sound()?;
        if !matches!(self.pending, Pending::Nothing) || self.held.is_some() {
            return Err(Error::Unsaved {
                what: "a vcpu whose last exit was not answered",
            });
        }
        VcpuState::save(&self.guest.system.fd, &self.fd, self.guest.irqchip)
    }

    fn restore(&mut self, state: &VcpuState) -> Result<(), Error> {
        self.stage.check_fresh()?;
        self.save_initial()?;
        state.restore(&self.fd, &self.guest.parts)
    }
}

impl Vcpu for KvmVcpu {
    fn set_entry_point(&mut self, entry: EntryPoint) -> Result<(), Error> {
        match (&self.initial, entry) {
            (Some(initial), EntryPoint::RealMode { .. } | EntryPoint::Secondary) => {
                self.stage.check_sound()?;
                initial.reset(&self.fd)?;
                (self.pending, self.held) = (Pending::Nothing, None);
            }
            _ => self.stage.check_fresh()?,
        }
        if self.initial.is_none() && !matches!(entry, EntryPoint::Program { .. }) {
            self.save_initial()?;
        }
        if matches!(entry, EntryPoint::Program { .. }) && self.guest.boot_area.is_none() {
            return Err(Error::Entry {
                entry: "64-bit mode",
                guest: "RAM from 0, where page tables would have to be",
            });
        }
        entry::set(&self.fd, &self.guest, self.index, entry)
    }

    fn set_interrupt_handler(&mut self, pc: u64) -> Result<(), Error> {
        self.stage.check_fresh()?;
        let Some(area) = &self.guest.boot_area else {
            return Err(Error::Entry {
                entry: "its own interrupt handler",
                guest: "RAM from 0, where its gates would have to be",
            });
        };
        boot::set_interrupt_handler(area, self.index, pc)
    }

    #[inline]
    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error> {
        self.stage.enter()?;
        if let Some(next) = self.answer(entry) {
            return next;
        }
        self.kicks.enter();
        self.enter()
    }

    fn is_kicked(&self) -> bool {
        self.kicks.are_requested()
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        Arc::clone(&self.kicks) as Arc<dyn Kick>
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(ioctl::descriptor(&self.fd))
    }
}

#[inline]
fn masked(data: u64, len: u32) -> u64 {
    // Masks with a shift: accesses have 1 to 8 bytes.
    let excess = 64_u32.wrapping_sub(8 * len) & 63;
    data & u64::MAX >> excess
}

#[inline]
fn store(address: u64, len: u32, data: u64) -> VmExit {
    VmExit::MmioWrite {
        address,
        len: (len & 0xff) as u8,
        data: masked(data, len),
    }
}

fn failed(source: io::Error) -> Error {
    Error::System {
        operation: "run the vcpu (KVM_RUN)",
        source,
    }
}
