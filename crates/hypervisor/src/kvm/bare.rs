//! Measures the minimum cost of an exit: a loop around `KVM_RUN` that looks only at the exit's reason. It runs on
//! the thread that calls it.

use std::sync::Arc;

use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use super::super::measure::{BareExit, BareLoop};
use super::super::{Doorbell, EntryPoint, Error, IoEvents, Kick, Vm, VmConfig};
use super::error::KvmError;
use super::kick::Kicks;
use super::run_page::{Exit, RunPage};
use super::system::System;
use super::vm::KvmVm;
use super::{arch, ioctl};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};

const RAM_SIZE: u64 = 1 << 20;

/// Where the guest reads how often it is to ring, from the beginning of its RAM. The code is below.
pub(super) const COUNT: u64 = 0x1000;

/// A guest that only makes exits, and the loop around it.
#[derive(Debug)]
pub struct Bare {
    fd: VcpuFd,
    page: RunPage,
    kicks: Arc<Kicks>,
    /// The doorbell of the guest's stores, if they are not exits to the loop.
    doorbell: Option<Doorbell>,
    /// The first instruction.
    start: u64,
    // Holds the guest memory. It is declared after the vCPU, so it is dropped after it.
    vm: KvmVm,
}

impl Bare {
    pub fn new(system: Arc<System>, exit: BareExit) -> Result<Self, Error> {
        let config = VmConfig {
            ram_size: RAM_SIZE,
            ..VmConfig::default()
        };
        let start = config.ram_base;
        let vm = KvmVm::new(Arc::clone(&system), &config)?;
        let code = arch::bare::code(exit)?;
        write(vm.memory(), &code, GuestAddress(start))?;
        let doorbell = match exit {
            BareExit::Pio | BareExit::Mmio => None,
            BareExit::Ioeventfd => Some(ring(&vm)?),
        };
        let fd = arch::vm::vcpu(&vm.guest, 0)?;
        let page = RunPage::new(&fd, system.run_size)?;
        let bare = Self {
            fd,
            kicks: Arc::new(Kicks::new(Arc::clone(page.mapping()), system.kick_signal)?),
            page,
            doorbell,
            start,
            vm,
        };
        bare.begin()?;
        Ok(bare)
    }

    /// Sets the vCPU to the first instruction.
    fn begin(&self) -> Result<(), Error> {
        let entry = EntryPoint::Program {
            pc: self.start,
            sp: self.start + RAM_SIZE,
            arguments: [0, 0],
        };
        arch::entry::set(&self.fd, &self.vm.guest, 0, entry)
    }

    /// Runs until the guest has left `exits` times or a kick comes; returns how many times it has left.
    fn leave(&self, exits: u64) -> Result<u64, Error> {
        self.kicks.enter();
        let mut made = 0;
        while made < exits {
            if let Err(error) = ioctl::run(&self.fd) {
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(Error::system("run the loop (KVM_RUN)")(error));
                }
                if self.kicks.answer() {
                    break;
                }
                continue;
            }
            match self.page.exit() {
                Exit::Io(_) | Exit::Mmio { .. } => made += 1,
                exit => {
                    let exit = format!("{exit:?}");
                    return Err(KvmError::Strayed { exit }.into());
                }
            }
        }
        Ok(made)
    }

    /// Lets the guest store this often; returns how many were signalled, which are fewer if a kick came.
    fn ring(&self, event: &EventFd, stores: u64) -> Result<u64, Error> {
        let count = GuestAddress(self.start + COUNT);
        write(self.vm.memory(), &stores.to_le_bytes(), count)?;
        let was_kicked = self.leave(1)? == 0;
        let signals = match event.read() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            signals => signals.map_err(Error::system("read the eventfd of the loop"))?,
        };
        if was_kicked {
            // The guest has not stored as often as it was told, and would go on with that.
            self.begin()?;
        } else if signals != stores {
            let exit = format!("the VMM after {signals} of {stores} signals");
            return Err(KvmError::Strayed { exit }.into());
        }
        Ok(signals)
    }
}

fn write(memory: &GuestMemoryMmap, bytes: &[u8], address: GuestAddress) -> Result<(), Error> {
    memory
        .write_slice(bytes, address)
        .map_err(|error| Error::System {
            operation: "write the loop",
            source: std::io::Error::other(error),
        })
}

/// Lets the guest's stores signal an eventfd.
fn ring(vm: &KvmVm) -> Result<Doorbell, Error> {
    let event = EventFd::new(libc::EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
    let address = IoEventAddress::Mmio(arch::bare::ADDRESS);
    let any = Datamatch::U32(None);
    vm.register_ioevent(&Arc::new(event), address, any, Sharing::Exclusive)
}

impl BareLoop for Bare {
    fn run(&mut self, exits: u64) -> Result<(), Error> {
        let made = match &self.doorbell {
            Some(doorbell) if exits > 0 => self.ring(doorbell.event(), exits)?,
            _ => self.leave(exits)?,
        };
        if made != exits {
            let left = exits.saturating_sub(made);
            return Err(KvmError::Kicked { left, exits }.into());
        }
        Ok(())
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        Arc::clone(&self.kicks) as Arc<dyn Kick>
    }
}
