//! The image itself: no libc, no heap, one CPU. It starts in boot.S, finds out what the machine has, runs the rows,
//! prints their results, and ends the machine.

mod apic;
mod boot;
mod cpu;
mod ending;
mod hypervisor;
mod interrupt;
mod ioapic;
mod memory;
mod pci;
mod pm_timer;
mod port;
mod probe;
mod report;
mod rows;
mod second_cpu;
mod serial;
mod start;
mod time;
mod virtio;
mod wait;
