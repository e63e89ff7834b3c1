//! What the vCPUs of a KVM guest share: its memory, its interrupt controllers and lines, and its groups of doorbells.
//! Created by the thread that creates the guest; its functions run on any thread.

use std::sync::Arc;

use kvm_ioctls::VmFd;
use vm_memory::GuestMemoryMmap;
use vmbell::doorbell::{Datamatch, IoEventAddress, Pattern, Sharing};
use vmbell::irq::{Irqchip, Routing};
use vmbell_core::addresses::RAM_BASE;
use vmm_sys_util::eventfd::EventFd;

use super::arch::boot;
use super::arch::vm::{Parts, RAM, RoutedLines};
use super::coalesced::Coalesced;
use super::groups::Groups;
use super::memory::{self, Slots};
use super::system::System;
use super::{doorbells, routes};
use crate::{Error, IRQ_ARCH, RemoveDoorbell, VmConfig};

/// The state that a guest's vCPUs share.
#[derive(Debug)]
pub struct KvmGuest {
    pub slots: Slots,
    pub system: Arc<System>,
    pub ram: GuestMemoryMmap,
    /// The memory that guest programs start from (`boot/` of the architecture); `None` if the guest's RAM begins at 0.
    pub boot_area: Option<GuestMemoryMmap>,
    /// The parts that only this architecture has.
    pub parts: Parts,
    pub lines: RoutedLines,
    pub irqchip: Irqchip,
    pub vcpus: u32,
    pub groups: Groups,
    pub coalesced: Coalesced,
}

impl KvmGuest {
    /// Creates a VM with its memory and the parts other than vCPUs.
    pub fn new(system: Arc<System>, config: &VmConfig) -> Result<Self, Error> {
        config.check(RAM, most_vcpus(&system, config))?;
        let vm = system
            .fd
            .create_vm()
            .map_err(Error::system("create a vm"))?;
        let mut slots = Slots::new(vm);
        let ram = match &config.memory {
            Some(memory) => memory.clone(),
            None => memory::map(config.ram_base, config.ram_size)?,
        };
        slots.add(&ram)?;
        let boot_area = if config.ram_base == RAM_BASE {
            let area = boot::area(&system, config)?;
            slots.add(&area)?;
            Some(area)
        } else {
            None
        };
        for (address, memory) in &config.device_memory {
            slots.map_device(*address, memory)?;
        }
        // Created after the memory: since Linux 6.18 the creation of each of a board's interrupt controllers starts a
        // grace period of `kvm->srcu`, and a change of memory then waits 7 ms for the end of the grace period.
        let parts = Parts::new(&system, slots.vm(), config)?;
        let lines = RoutedLines::default();
        if config.ram_base == RAM_BASE && config.irqchip == Irqchip::Full {
            // The kernel's default routes also lead to the PIC, which a guest program cannot mask.
            let identity: Vec<_> = Routing::identity(IRQ_ARCH).routes().collect();
            let routing = routes::set(slots.vm(), config.irqchip, &identity, false)?;
            lines.follow(routing);
        }
        Ok(Self {
            slots,
            system,
            ram,
            boot_area,
            parts,
            lines,
            irqchip: config.irqchip,
            vcpus: config.vcpus,
            groups: Groups::new(config.max_items),
            coalesced: Coalesced::default(),
        })
    }

    pub fn vm(&self) -> &VmFd {
        self.slots.vm()
    }
}

/// Returns the maximum number of vCPUs of such a guest.
fn most_vcpus(system: &System, config: &VmConfig) -> u32 {
    let of_kvm = u32::try_from(system.fd.get_max_vcpus()).unwrap_or(u32::MAX);
    if config.ram_base == RAM_BASE {
        of_kvm.min(boot::VCPUS)
    } else {
        of_kvm
    }
}

impl RemoveDoorbell for KvmGuest {
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error> {
        let (vm, pattern) = (self.vm(), Pattern::from(datamatch));
        match sharing {
            Sharing::Exclusive => doorbells::deassign(vm, event, address, pattern),
            Sharing::Group => self.groups.leave(vm, event, address, pattern),
        }
    }
}
