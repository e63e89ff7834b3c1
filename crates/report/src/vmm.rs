//! What a report of `vmbell bench vmms` has for each VMM in addition to its rows: its program, and the machine that its
//! guest found.

use serde::{Deserialize, Serialize};

use super::Status;

/// A VMM that was to run the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Vmm {
    /// The name of the VMM's column, which is also the backend of the VMM's rows.
    pub name: String,
    /// Failed if one boot or more gave no results.
    pub status: Status,
    /// Why the VMM was skipped, or what was wrong with the first boot that failed.
    pub reason: Option<String>,
    /// The VMM's last output in the first boot that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output: Option<String>,
    /// The path of the VMM's program.
    pub program: Option<String>,
    /// The first line that the program prints about its version.
    pub version: Option<String>,
    /// How many boots gave results.
    pub boots: u32,
    /// Whether the guest ran on an emulated CPU, so that the times say nothing about hardware.
    pub emulated: bool,
    /// What the image found in the first boot that gave results.
    pub guest: Option<VmmGuest>,
    /// Why a boot that gave no results was repeated; `None` if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<String>,
    /// Why the exits of its rows could not be counted; `None` if they were, or if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exits_reason: Option<String>,
}

/// The machine that the image found itself in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VmmGuest {
    /// How the machine was booted: `pvh`, `linux64` or `multiboot`.
    pub boot: String,
    /// The CPU's vendor by CPUID.
    pub cpu_vendor: String,
    /// The CPU's name by CPUID.
    pub cpu: String,
    /// The hypervisor's signature by CPUID, such as `KVMKVMKVM`.
    pub hypervisor: Option<String>,
    /// The local APIC's mode at the start: `xapic`, `x2apic` or `none`.
    pub apic: String,
    /// How many CPUs the VMM described.
    pub cpus: u32,
    /// The frequency of its time stamp counter in Hz; `None` if it was not reported.
    pub tsc_hz: Option<f64>,
    /// Where that frequency comes from: `pvclock`, `cpuid` or `pm-timer`.
    pub tsc_source: Option<String>,
    /// The virtio devices that the image found.
    pub devices: Vec<VmmDevice>,
    /// The way to end the machine that its tables or ports offer: `debug-exit`, `acpi-sleep`, `pm1a` or `i8042`. The
    /// image tries the others too, and cannot tell which one ended it.
    pub end: String,
}

/// A virtio device that the image found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VmmDevice {
    /// The kind of the device: `rng`, `blk`, `console` or `net`.
    pub kind: String,
    /// How the device is reached: `pci` or `mmio`.
    pub transport: String,
    /// How the image found the device: `cmdline`, `dsdt`, `pci-cf8` or `pci-ecam`.
    pub found_by: String,
    /// How the device interrupts: `msix`, `intx` or `line`; `None` if it cannot.
    pub interrupt: Option<String>,
    /// The global system interrupt of a line.
    pub gsi: Option<u32>,
}
