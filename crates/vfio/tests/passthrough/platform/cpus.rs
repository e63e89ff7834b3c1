//! Where the clock's interrupt is taken and where its guest runs.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use vmbell::irq::Gic;

/// Keeps the clock's interrupt and this thread on one CPU each, until the value is dropped.
pub struct Cpus {
    affinity: String,
    before: String,
    own: CpuSet,
}

impl Cpus {
    /// Binds VFIO's interrupt and the thread to a CPU each.
    pub fn new(interrupt: usize, own: usize) -> Self {
        let table = fs::read_to_string("/proc/interrupts").unwrap();
        // The clock is the only device of VFIO here.
        let entry = table.lines().find(|entry| entry.contains("vfio-irq["));
        let number = entry.and_then(|entry| entry.split(':').next());
        let number = number.unwrap_or_else(|| panic!("vfio has no interrupt: {table}"));
        let affinity = format!("/proc/irq/{}/smp_affinity_list", number.trim());
        let before = fs::read_to_string(&affinity).unwrap();
        fs::write(&affinity, interrupt.to_string()).unwrap();
        let cpus = sched_getaffinity(None).unwrap();
        bind(own);
        Self {
            affinity,
            before,
            own: cpus,
        }
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        let _ = fs::write(&self.affinity, self.before.trim());
        let _ = sched_setaffinity(None, &self.own);
    }
}

fn bind(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).unwrap();
}

/// Binds a vCPU's thread, unless it is bound, to the CPU that takes the interrupt, where QEMU needs that: before
/// version 9.1, the end of an SPI on a GICv2 completes the SPI only for the CPU that ended it.
pub fn bind_vcpu(gic: Option<Gic>) {
    if gic == Some(Gic::V2) && sched_getaffinity(None).unwrap().count() > 1 {
        bind(0);
    }
}
