//! The settings of a new guest, and the check whether a backend supports them.

use std::ops::Range;

use vm_memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmbell::irq::Irqchip;
use vmbell_core::addresses::PAGE;

use super::cpu_features::CpuFeatures;
use super::device_memory::DeviceMemory;
use super::error::Error;

/// The settings of a new guest.
#[derive(Clone, Debug)]
pub struct VmConfig {
    /// Guest-physical address at which RAM begins: 1 MiB. For an image that uses all of RAM
    /// ([`Capability::Kernels`](super::Capability::Kernels)), 0 on x86-64 and 1 GiB on arm64.
    pub ram_base: u64,
    /// Size of RAM in bytes, a multiple of 4096.
    pub ram_size: u64,
    /// The memory to use as the guest's RAM, if the caller already has it: one region that starts at
    /// [`ram_base`](Self::ram_base), is [`ram_size`](Self::ram_size) bytes long, and is mapped for reading and writing.
    /// `None` makes new memory.
    ///
    /// The guest, and on the usermode backend its sandbox process, see what the caller writes, and the caller sees what
    /// they write. The usermode backend needs a shared mapping of a file that can be mapped as executable, such as
    /// [`shared_memory`](crate::shared_memory()) makes. No process may truncate that file while the guest exists.
    pub memory: Option<GuestMemoryMmap>,
    /// Device memory that the guest has from its start, with its guest-physical addresses.
    pub device_memory: Vec<(u64, DeviceMemory)>,
    /// Which interrupt controllers the backend provides.
    pub irqchip: Irqchip,
    /// Whether the local APICs of an x86-64 guest start in x2APIC mode (Intel SDM 3A, 11.12). Their registers are then
    /// MSRs, and an access to an MSR is a cheaper exit than one to a page. This has an effect only on the KVM backend,
    /// and none if [`hidden`](Self::hidden) has x2APIC.
    pub x2apic: bool,
    /// Whether vCPUs offer paravirtual EOI (KVM_FEATURE_PV_EOI).
    pub pv_eoi: bool,
    /// CPU features that the guest's CPUID does not show; only on the KVM backend.
    pub hidden: CpuFeatures,
    /// Whether the guest can use virtualization itself, if the backend has
    /// [`Capability::Virtualization`](super::Capability::Virtualization). On arm64 its vCPUs then start at EL2 instead
    /// of EL1. On x86-64 this changes nothing: CPUID shows SVM or VMX if KVM supports it.
    pub virtualization: bool,
    /// The number of vCPUs.
    pub vcpus: u32,
    /// How the monitor and the sandbox of the usermode backend wait for each other in a heavy exit. KVM ignores it: the
    /// kernel returns to the thread that entered the guest.
    pub spin: SpinPolicy,
    /// Whether the usermode backend replaces instructions in guest code that trap often. KVM ignores it: there the CPU
    /// traps, whatever the instruction.
    pub patch: PatchMode,
    /// The host CPU of each vCPU's thread in the usermode backend's sandbox, by index; with more vCPUs than CPUs, the
    /// list repeats. Empty leaves the choice to the scheduler. KVM ignores it: a vCPU runs on the thread that calls
    /// [`Vcpu::run`](super::Vcpu::run), which the caller can bind to a CPU.
    pub vcpu_cpus: Vec<usize>,
    /// The maximum number of doorbells in one group.
    pub max_items: u32,
    /// The guests for which the removal of a doorbell is guaranteed.
    pub containment: Containment,
}

impl Default for VmConfig {
    fn default() -> Self {
        Self {
            ram_base: vmbell_core::addresses::RAM_BASE,
            ram_size: 16 << 20,
            memory: None,
            device_memory: Vec::new(),
            irqchip: Irqchip::None,
            x2apic: false,
            pv_eoi: true,
            hidden: CpuFeatures::NONE,
            virtualization: false,
            vcpus: 1,
            spin: SpinPolicy::Sleep,
            patch: PatchMode::Off,
            vcpu_cpus: Vec::new(),
            max_items: vmbell::doorbell::DEFAULT_MAX_ITEMS,
            containment: Containment::Strict,
        }
    }
}

impl VmConfig {
    /// Returns the default settings for a guest whose RAM is `memory`.
    pub fn with_memory(memory: GuestMemoryMmap) -> Self {
        let region = memory.iter().next();
        let (ram_base, ram_size) =
            region.map_or((0, 0), |region| (region.start_addr().0, region.len()));
        Self {
            ram_base,
            ram_size,
            memory: Some(memory),
            ..Self::default()
        }
    }

    /// Fails with [`Error::Config`] if this guest does not fit the backend: it may have up to `max_vcpus` vCPUs, and
    /// its RAM has to begin at the start of one of `places` and end at or before the end of that place.
    pub fn check(&self, places: &[Range<u64>], max_vcpus: u32) -> Result<(), Error> {
        let refuse = |what, value, rule| Err(Error::Config { what, value, rule });
        let Some(place) = places.iter().find(|place| place.start == self.ram_base) else {
            let bases = places.iter().map(|place| format!("{:#x}", place.start));
            let bases: Vec<_> = bases.collect();
            let base = format!("{:#x}", self.ram_base);
            return refuse("ram_base", base, bases.join(" or "));
        };
        let most = place.end - place.start;
        if self.ram_size == 0 || !self.ram_size.is_multiple_of(PAGE) || self.ram_size > most {
            let rule = format!("a multiple of {PAGE} from {PAGE} to {most}");
            return refuse("ram_size", self.ram_size.to_string(), rule);
        }
        if self.vcpus == 0 || self.vcpus > max_vcpus {
            let rule = format!("from 1 to {max_vcpus}");
            return refuse("vcpus", self.vcpus.to_string(), rule);
        }
        if let Some(memory) = &self.memory {
            self.check_memory(memory)?;
        }
        self.check_device_memory()
    }

    /// Fails with [`Error::DeviceMemory`] if pieces of device memory overlap each other or RAM.
    fn check_device_memory(&self) -> Result<(), Error> {
        let mut taken = vec![(self.ram_base, self.ram_size)];
        for (address, memory) in &self.device_memory {
            memory.check(*address, taken.iter().copied())?;
            taken.push((*address, memory.size));
        }
        Ok(())
    }

    /// Fails with [`Error::Config`] unless the caller's memory is the RAM that the other settings describe.
    fn check_memory(&self, memory: &GuestMemoryMmap) -> Result<(), Error> {
        const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;
        let refuse = |what, value, rule| Err(Error::Config { what, value, rule });
        let mut regions = memory.iter();
        let (Some(region), None) = (regions.next(), regions.next()) else {
            let count = memory.num_regions().to_string();
            return refuse("the number of regions of memory", count, "1".to_owned());
        };
        let (start, len) = (region.start_addr().0, region.len());
        if start != self.ram_base {
            let rule = format!("{start:#x}, where memory begins");
            return refuse("ram_base", format!("{:#x}", self.ram_base), rule);
        }
        if len != self.ram_size {
            let rule = format!("{len}, the size of memory");
            return refuse("ram_size", self.ram_size.to_string(), rule);
        }
        if region.prot() & ACCESS != ACCESS {
            let protection = format!("{:#x}", region.prot());
            let rule = format!("{ACCESS:#x}, for reading and writing");
            return refuse("the protection of memory", protection, rule);
        }
        Ok(())
    }
}

/// How the monitor and the sandbox of the usermode backend wait for each other in a heavy exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinPolicy {
    /// Sleep at once. This leaves the CPU free, and costs two wake-ups for each exit.
    #[default]
    Sleep,
    /// Sleep at once. While exits are frequent, both sides run on one CPU: a wake-up is then a context switch, and no
    /// other CPU has to wake. [`Vcpu::run`](super::Vcpu::run) binds the calling thread to a CPU for up to a tenth of a
    /// second at a time, chosen among those that the thread and the vCPU may use. The thread gets its CPUs back when
    /// the vCPU is dropped, and after a halt, a kick, a fault or an error. Threads and processes that it starts before
    /// then inherit the single CPU.
    OneCpu,
    /// Spin first. Exits are cheap, but a whole spare CPU is needed.
    Spin,
    /// Spin while the other side is known to run on another CPU, otherwise sleep.
    Adaptive,
}

/// Whether the usermode backend may replace instructions that trap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchMode {
    /// Guest code is never changed.
    #[default]
    Off,
    /// The first byte of an instruction that traps often becomes `int3`, whose trap is cheaper.
    Int3,
    /// An `out` that traps often, or a `mov` to memory that often rings a doorbell, becomes a jump to a trampoline,
    /// which does not trap. The trampoline saves registers at 128 bytes below the stack pointer and further down.
    Jmp,
}

/// The guests for which [`Doorbell::remove`](super::Doorbell::remove) guarantees that no signal comes after it has
/// returned.
///
/// KVM ignores it: only the kernel rings there, so the guarantee holds for every guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Containment {
    /// For every guest. On the usermode backend each removal stops and continues the whole sandbox once, because
    /// hostile guest code may signal an eventfd with a system call, and nothing records that call.
    #[default]
    Strict,
    /// For guests that do not attack the usermode backend's stub. A guest that attacks it may ring once more for each
    /// vCPU after the removal has returned, and may add any number to the eventfd's count, not only 1.
    Cooperative,
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
