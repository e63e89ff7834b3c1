//! Bochs's configuration file (bochsrc), which describes the machine.

use std::os::fd::RawFd;

use super::images::{INFO, MemoryLayout, ROM};
use crate::board::IntelCpu;
use crate::boot::TimeMode;

/// The rate of the TSC in Hz, and of instructions: one virtual nanosecond is one instruction.
const RATE: u64 = 1_000_000_000;
/// The machine's time of day at its start, in seconds since the epoch: the start of 2026.
const BEGIN: u64 = 1_767_225_600;
/// How many instructions a CPU executes before the next CPU continues.
const TURN: u32 = 16;

/// The files that Bochs inherits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BochsFiles {
    pub bios: RawFd,
    pub vga_bios: RawFd,
    pub rom: RawFd,
    pub kernel: RawFd,
    pub initrd: RawFd,
    pub info: RawFd,
    /// Where the console's output goes.
    pub console: RawFd,
}

/// Returns the text of the file. `kernel` is the address of the kernel.
pub(crate) fn config(
    cpu: IntelCpu,
    mode: TimeMode,
    layout: &MemoryLayout,
    kernel: u64,
    files: &BochsFiles,
) -> String {
    let path = |fd: RawFd| format!("/proc/self/fd/{fd}");
    let (cpus, memory) = (mode.cpus(), layout.memory >> 20);
    let turn = match cpus {
        1 => String::new(),
        _ => format!(", quantum={TURN}"),
    };
    let lines = [
        "config_interface: textconfig".to_owned(),
        "display_library: nogui".to_owned(),
        "plugin_ctrl: unmapped=true, biosdev=true, speaker=false, extfpuirq=true, parallel=false, serial=true"
            .to_owned(),
        // Bochs seeds `rdrand` and `rdseed` with the time, so they are excluded. A triple fault must not reset the
        // machine, which would then boot what is left in memory.
        format!(
            "cpu: model={}, count=1:{cpus}:1, ips={RATE}{turn}, reset_on_triple_fault=0, ignore_bad_msrs=1, \
             mwait_is_nop=0, exclude_features=\"rdrand,rdseed\"",
            cpu.model
        ),
        format!("memory: guest={memory}, host={memory}"),
        format!("romimage: file={}, options=fastboot", path(files.bios)),
        format!("vgaromimage: file={}", path(files.vga_bios)),
        format!("optromimage1: file={}, address={ROM:#x}", path(files.rom)),
        format!(
            "optramimage1: file={}, address={kernel:#x}",
            path(files.kernel)
        ),
        format!(
            "optramimage2: file={}, address={:#x}",
            path(files.initrd),
            layout.initrd
        ),
        format!("optramimage3: file={}, address={INFO:#x}", path(files.info)),
        "pci: enabled=1, chipset=i440fx".to_owned(),
        format!("clock: sync=none, time0={BEGIN}, rtc_sync=0"),
        "vga: extension=vbe, update_freq=1, realtime=0".to_owned(),
        "floppya: type=none".to_owned(),
        "ata0: enabled=0".to_owned(),
        "ata1: enabled=0".to_owned(),
        "boot: floppy".to_owned(),
        "port_e9_hack: enabled=1".to_owned(),
        format!("com1: enabled=1, mode=file, dev={}", path(files.console)),
        "log: /dev/null".to_owned(),
        "panic: action=fatal".to_owned(),
        "error: action=ignore".to_owned(),
        "info: action=ignore".to_owned(),
        "debug: action=ignore".to_owned(),
    ];
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mode: TimeMode) -> String {
        let layout = MemoryLayout {
            memory: 1 << 30,
            initrd: 0x400_0000,
            length: 1 << 20,
        };
        let files = BochsFiles {
            bios: 3,
            vga_bios: 4,
            rom: 5,
            kernel: 6,
            initrd: 7,
            info: 8,
            console: 9,
        };
        config(IntelCpu::SKYLAKE_X, mode, &layout, 0x100_0000, &files)
    }

    #[test]
    fn nothing_in_the_machine_depends_on_this_hosts_time() {
        for mode in [
            TimeMode::Deterministic { seed: None },
            TimeMode::Functional { cpus: 2 },
        ] {
            let text = of(mode);
            for line in [
                "sync=none",
                "rtc_sync=0",
                "realtime=0",
                "exclude_features=\"rdrand,rdseed\"",
            ] {
                assert!(text.contains(line), "{text}");
            }
        }
    }

    #[test]
    fn each_image_has_its_file_and_its_address() {
        let text = of(TimeMode::Deterministic { seed: None });
        for line in [
            "optromimage1: file=/proc/self/fd/5, address=0xd0000\n",
            "optramimage1: file=/proc/self/fd/6, address=0x1000000\n",
            "optramimage2: file=/proc/self/fd/7, address=0x4000000\n",
            "optramimage3: file=/proc/self/fd/8, address=0x800000\n",
            "com1: enabled=1, mode=file, dev=/proc/self/fd/9\n",
            "memory: guest=1024, host=1024\n",
            "cpu: model=corei7_skylake_x, count=1:1:1, ips=1000000000, reset",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn several_cpus_take_short_turns() {
        let text = of(TimeMode::Functional { cpus: 4 });
        let words = "count=1:4:1, ips=1000000000, quantum=16,";
        assert!(text.contains(words), "{text}");
    }
}
