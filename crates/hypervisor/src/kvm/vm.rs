//! A KVM guest: its creation, and the registration of its doorbells. Its functions run on any thread.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kvm_bindings::kvm_enable_cap;
use kvm_ioctls::{IoEventAddress as KvmAddress, VmFd};
use vm_memory::GuestMemoryMmap;
use vmbell::doorbell::{Datamatch, IoEventAddress, Pattern, Sharing};
use vmbell::irq::{Gic, Gsi, Irqchip, Routing};
use vmbell_core::addresses::RAM_BASE;
use vmm_sys_util::eventfd::EventFd;

use super::super::measure::{EventCounts, EventSource, ExitCounts, Measure};
use super::super::{
    AssignedDevices, Capability, DeviceMemory, Doorbell, Error, ForwardedInterrupt, IoEvents,
    RemoveDoorbell, Vcpu, Vm, VmConfig,
};
use super::arch::vm::{Parts, RAM, RoutedLines};
use super::arch::{boot, host};
use super::coalesced::Coalesced;
use super::groups::Groups;
use super::memory::{self, Slots};
use super::statistics::Statistics;
use super::system::System;
use super::vcpu::KvmVcpu;
use super::vfio::VfioFiles;
use super::{doorbells, forward, interrupts};
use crate::IRQ_ARCH;
use crate::stage::CreatedVcpus;

/// The state that a guest's vCPUs share.
#[derive(Debug)]
pub(super) struct KvmGuest {
    pub(super) slots: Slots,
    pub(super) system: Arc<System>,
    pub(super) ram: GuestMemoryMmap,
    /// The memory that guest programs start from (`boot/` of the architecture); `None` if the guest's RAM begins at 0.
    pub(super) boot_area: Option<GuestMemoryMmap>,
    /// The parts that only this architecture has.
    pub(super) parts: Parts,
    pub(super) lines: RoutedLines,
    pub(super) irqchip: Irqchip,
    pub(super) vcpus: u32,
    pub(super) groups: Groups,
    pub(super) coalesced: Coalesced,
}

/// A vCPU's counts. The guest keeps them after the vCPU is dropped.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) statistics: Statistics,
    /// Exits to the VMM. Only the vCPU's thread writes this count.
    pub(super) heavy: AtomicU64,
}

/// A guest that KVM runs.
#[derive(Debug)]
pub struct KvmVm {
    // Dropped before the VM that it belongs to.
    vfio_files: VfioFiles,
    pub(super) guest: Arc<KvmGuest>,
    created_vcpus: CreatedVcpus<Arc<Counts>>,
}

impl KvmVm {
    pub(super) fn new(system: Arc<System>, config: &VmConfig) -> Result<Self, Error> {
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
        // After the memory: since Linux 6.18 each of a board's interrupt controllers starts a grace period of
        // `kvm->srcu`. A change of memory during a grace period waits for its end, 7 ms.
        let parts = Parts::new(&system, slots.vm(), config)?;
        let lines = RoutedLines::default();
        if config.ram_base == RAM_BASE && config.irqchip == Irqchip::Full {
            // The kernel's default routes also lead to the PIC, which a guest program cannot mask.
            let routes: Vec<_> = Routing::identity(IRQ_ARCH).routes().collect();
            let routing = interrupts::route(slots.vm(), config.irqchip, &routes, false)?;
            lines.follow(routing);
        }
        let guest = KvmGuest {
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
        };
        Ok(Self {
            vfio_files: VfioFiles::default(),
            guest: Arc::new(guest),
            created_vcpus: CreatedVcpus::new(config.vcpus),
        })
    }
}

impl KvmVm {
    pub(super) fn descriptor(&self) -> &VmFd {
        self.guest.slots.vm()
    }

    fn doorbell(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Doorbell {
        let guest = Arc::downgrade(&self.guest);
        Doorbell::new(event, guest, address, datamatch, sharing)
    }

    /// Returns the counts of light and heavy exits. KVM does not count all light exits; on some hosts it counts none.
    pub(super) fn exits(&self) -> [u64; 2] {
        let mut sums = [0, 0];
        for vcpu in self.created_vcpus.all() {
            let heavy = vcpu.heavy.load(Relaxed);
            // The file was read once when the vCPU was created, and later reads cannot fail.
            let all = vcpu.statistics.exits().unwrap_or(heavy);
            sums[0] += all.saturating_sub(heavy);
            sums[1] += heavy;
        }
        sums
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

/// Enables a capability of the VM (`KVM_ENABLE_CAP`).
pub(super) fn enable(vm: &VmFd, cap: u32, argument: u64) -> Result<(), Error> {
    let mut request = kvm_enable_cap {
        cap,
        ..kvm_enable_cap::default()
    };
    request.args[0] = argument;
    vm.enable_cap(&request)
        .map_err(Error::system("enable a capability of the vm"))
}

impl Vm for KvmVm {
    fn memory(&self) -> &GuestMemoryMmap {
        &self.guest.ram
    }

    fn create_vcpu(&self, index: u32) -> Result<Box<dyn Vcpu>, Error> {
        let make = || KvmVcpu::new(Arc::clone(&self.guest), index);
        Ok(Box::new(self.created_vcpus.create(index, make)?))
    }

    fn gic(&self) -> Option<Gic> {
        self.guest.parts.gic()
    }

    fn measure(&self) -> &dyn Measure {
        self
    }
}

impl Measure for KvmVm {
    fn exit_counts(&self) -> ExitCounts {
        let [light, heavy] = self.exits();
        let counts_light = host::support(&self.guest.system, Capability::CountsLightExits).is_yes();
        ExitCounts {
            light: counts_light.then_some(light),
            heavy,
        }
    }

    fn events(&self) -> io::Result<EventCounts> {
        let mut sums = EventCounts::new();
        for vcpu in self.created_vcpus.all() {
            for (name, value) in vcpu.statistics.all()? {
                *sums.entry(name).or_default() += value;
            }
        }
        Ok(sums)
    }

    fn event_source(&self) -> EventSource {
        EventSource::new("statistics of the vcpus", "exits", true)
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error> {
        self.guest
            .slots
            .vm()
            .register_coalesced_mmio(KvmAddress::Mmio(address), len)
            .map_err(Error::system(
                "let kvm keep writes back (KVM_REGISTER_COALESCED_MMIO)",
            ))?;
        self.guest.coalesced.begin();
        Ok(())
    }
}

impl IoEvents for KvmVm {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        let pattern = Pattern::from(datamatch);
        let vm = self.descriptor();
        match sharing {
            Sharing::Exclusive => doorbells::assign(vm, event, address, pattern)?,
            Sharing::Group => self.guest.groups.join(vm, event, address, pattern)?,
        }
        Ok(self.doorbell(event, address, datamatch, sharing))
    }

    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        len: u32,
    ) -> Result<Doorbell, Error> {
        let datamatch = Datamatch::any_of(len)?;
        let vm = self.descriptor();
        let payload = doorbells::assign_payload(vm, event, address, datamatch.into())?;
        let doorbell = self.doorbell(event, address, datamatch, Sharing::Exclusive);
        Ok(doorbell.with_payload(payload))
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
        let (vm, pattern) = (self.slots.vm(), Pattern::from(datamatch));
        match sharing {
            Sharing::Exclusive => doorbells::deassign(vm, event, address, pattern),
            Sharing::Group => self.groups.leave(vm, event, address, pattern),
        }
    }
}

impl AssignedDevices for KvmVm {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        self.guest.slots.map_device(address, memory)
    }

    fn unmap_device_memory(&self, address: u64) -> Result<(), Error> {
        self.guest.slots.unmap_device(address)
    }

    fn add_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.vfio_files.add(self.descriptor(), file)
    }

    fn remove_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.vfio_files.remove(file)
    }

    fn forward_interrupt(
        &self,
        device: &Arc<File>,
        index: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        let forwarded = forward::forward(self.descriptor(), device, index, gsi)?;
        Ok(Box::new(forwarded))
    }
}
