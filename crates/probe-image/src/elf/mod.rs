//! The image itself: no libc, no heap, one CPU. It starts in boot.S, finds out what the machine has, runs the rows,
//! prints their results, and ends the machine, all on one thread of execution.

#![allow(unsafe_code)]

mod apic;
mod boot;
mod cpu;
mod ending;
mod hypervisor;
mod interrupt;
mod memory;
mod pci;
mod report;
mod rows;
mod second_cpu;
mod serial;
mod sweep;
mod time;
mod virtio;

use core::arch::global_asm;
use core::panic::PanicInfo;

use crate::acpi::tables::Acpi;
use crate::cmdline::{Options, SweepOptions};
use crate::number::Digits;
use rows::Probe;
use serial::say;

global_asm!(include_str!("boot.S"), options(att_syntax));
global_asm!(include_str!("bzimage.S"), options(att_syntax));
global_asm!(include_str!("interrupt.S"), options(att_syntax));
global_asm!(include_str!("second_cpu.S"), options(att_syntax));

/// Called once by boot.S, in 64-bit mode, on its stack, with interrupts disabled.
#[unsafe(no_mangle)]
extern "sysv64" fn probe_main() -> ! {
    say!("=== vmbell-probe start ===");
    interrupt::install();
    mask_legacy_interrupts();
    let mut line = [0; 4096];
    let boot = boot::Boot::new();
    let line = boot.command_line(&mut line);
    let options = Options::parse(line);
    let acpi = Acpi::find(&memory::copy, boot.rsdp());
    let cpu = hypervisor::Cpu::new();
    let mut apic = apic::LocalApic::new(&cpu);
    apic.try_timer();
    let pm_timer = time::PmTimer::new(&acpi);
    let clock = time::frequency(&cpu, pm_timer);
    if options.x2apic {
        // If there is no x2APIC mode, the rows report it.
        let _ = apic.switch_to_x2apic(&cpu);
    }
    let second_cpu = second_cpu::SecondCpu::start(&acpi, &apic);
    let sweep = SweepOptions::parse(line);
    let wanted = virtio::Features::new(
        sweep.is_some_and(|sweep| sweep.event_idx),
        sweep.is_some_and(|sweep| sweep.packed),
    );
    let devices = virtio::Devices::find(line, &acpi, apic.id(), wanted);
    if let Some(options) = sweep {
        sweep::run(options, &devices, &apic, clock.map(|(hz, _)| hz));
        ending::end(&acpi);
    }
    let end = ending::first(&acpi, options.safe);
    let mode = apic.mode.name();
    let mut probe = Probe {
        options,
        boot: boot.kind,
        cpu,
        apic,
        pm_timer,
        clock,
        devices,
        second_cpu,
        mark: None,
    };
    let mut results = rows::Results::new();
    results.run(&mut probe);
    report::print(&probe, mode, acpi.cpus.max(1), &results, end);
    ending::end(&acpi)
}

/// Masks the two 8259s of a PC, because their interrupts are not used.
fn mask_legacy_interrupts() {
    cpu::out8(0x21, 0xff);
    cpu::out8(0xa1, 0xff);
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // Prints only a message that needs no formatting.
    let text = info.message().as_str().unwrap_or("");
    match info.location() {
        Some(place) => {
            let line = Digits::decimal(u64::from(place.line()));
            say!(
                "=== vmbell-probe panicked at ",
                place.file(),
                ":",
                line,
                ": ",
                text,
                " ==="
            );
        }
        None => say!(
            "=== vmbell-probe panicked at an unknown place: ",
            text,
            " ==="
        ),
    }
    ending::end_without_tables()
}
