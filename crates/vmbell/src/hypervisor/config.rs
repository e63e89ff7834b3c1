//! What a guest is made of, and whether a backend can hold it.

use stub::layout::{MAX_VCPUS, PAGE};

use super::Error;
use crate::irq::Irqchip;

/// What a new guest is made of.
#[derive(Clone, Debug)]
pub struct VmConfig {
    /// Where RAM begins: 1 MiB, or 0 for an image that wants all of it ([`Capability::Kernels`](super::Capability::Kernels)).
    pub ram_base: u64,
    /// RAM in bytes, a multiple of 4096.
    pub ram_size: u64,
    /// Who delivers interrupts.
    pub irqchip: Irqchip,
    /// Whether vCPUs offer paravirtual EOI (KVM_FEATURE_PV_EOI).
    pub pv_eoi: bool,
    /// How many vCPUs there are.
    pub vcpus: u32,
    /// How each side waits for the other in a heavy exit.
    pub spin: SpinPolicy,
    /// Whether trapping instructions in guest code are replaced.
    pub patch: PatchMode,
    /// Host CPU of each vCPU in order; empty leaves the choice to the scheduler.
    pub vcpu_cpus: Vec<usize>,
    /// Most items of one doorbell group.
    pub max_items: u32,
    /// Which guests a removed doorbell is out of reach of.
    pub containment: Containment,
}

impl Default for VmConfig {
    fn default() -> Self {
        Self {
            ram_base: stub::layout::RAM_BASE,
            ram_size: 16 << 20,
            irqchip: Irqchip::None,
            pv_eoi: true,
            vcpus: 1,
            spin: SpinPolicy::Sleep,
            patch: PatchMode::Off,
            vcpu_cpus: Vec::new(),
            max_items: crate::doorbell::DEFAULT_MAX_ITEMS,
            containment: Containment::Strict,
        }
    }
}

impl VmConfig {
    /// Whether a backend can hold a guest like this whose RAM begins at one of `bases` and ends by `end`.
    pub(super) fn check(&self, bases: &[u64], end: u64) -> Result<(), Error> {
        let refuse = |what, value, rule| Err(Error::Config { what, value, rule });
        if !bases.contains(&self.ram_base) {
            let bases: Vec<_> = bases.iter().map(|base| format!("{base:#x}")).collect();
            return refuse("ram_base", self.ram_base, bases.join(" or "));
        }
        let most = end - self.ram_base;
        if self.ram_size == 0 || !self.ram_size.is_multiple_of(PAGE) || self.ram_size > most {
            let rule = format!("a multiple of {PAGE} from {PAGE} to {most:#x}");
            return refuse("ram_size", self.ram_size, rule);
        }
        if self.vcpus == 0 || self.vcpus as usize > MAX_VCPUS {
            let rule = format!("from 1 to {MAX_VCPUS}");
            return refuse("vcpus", self.vcpus.into(), rule);
        }
        Ok(())
    }
}

/// How the two sides of a heavy exit wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinPolicy {
    /// Sleep at once; frees the core, costs two wake-ups an exit.
    #[default]
    Sleep,
    /// Spin: cheap exits, paid with a whole spare core.
    Spin,
    /// Spin while the other side is known to run on another CPU, else sleep.
    Adaptive,
}

/// Whether the engine may replace instructions that trap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchMode {
    /// Guest code is never touched.
    #[default]
    Off,
    /// A hot site's first byte becomes `int3`, which traps cheaper.
    Int3,
    /// A hot `out` becomes a jump to a trampoline that does not trap.
    Jmp,
}

/// Which guests the promise of [`IoEvents::unregister_ioevent`](super::IoEvents::unregister_ioevent) holds for, that no signal comes any more.
///
/// Means nothing on KVM, where the kernel alone rings: there it holds for every guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Containment {
    /// For every guest. On the usermode backend each removal stops the whole sandbox once and lets
    /// it go on, since a guest may ring by a system call of its own making, which nothing shows.
    #[default]
    Strict,
    /// For guests that leave the usermode backend's stub alone. Another may ring once more for each
    /// vCPU after the removal has returned, and add any number to the eventfd's count, not only 1.
    Cooperative,
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
