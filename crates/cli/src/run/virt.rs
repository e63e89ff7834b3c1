//! The arm64 board with the user's devices.

use anyhow::{Result, bail};

use super::device::RunDevice;
use super::plug::PluggedParts;
use super::{MachineModel, RunArgs, RunEnding, console, output};
use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{Arm64Image, Boot, Virt, VirtConfig};

/// Boots the image and returns the exit status.
pub(super) fn boot_on(
    hypervisor: &dyn Hypervisor,
    args: &RunArgs,
    image: &Arm64Image,
    boot: &Boot,
) -> Result<u8> {
    if args.cpu_features != CpuFeatures::NONE {
        bail!("--cpu-features hides CPUID features, which arm64 does not have: leave it out");
    }
    if args.pv_eoi != "on" {
        bail!("--pv-eoi is for x86-64 guests only: leave it out");
    }
    if args.on_triple_fault.is_some() {
        bail!("--on-triple-fault is for x86-64 guests only: leave it out");
    }
    if args.machine == MachineModel::Micro {
        bail!("--machine micro is for x86-64 guests only: leave it out");
    }
    if args.dump_dtb.is_some() {
        bail!(
            "--dump-dtb writes the nodes of vfio-platform devices, which only a PC has: leave it out"
        );
    }
    let config = VirtConfig {
        memory: args.memory,
        vcpus: args.vcpus,
        virtualization: args.virtualization,
        shared_memory: args.device.iter().any(RunDevice::shares_memory),
    };
    let output = output()?;
    let virt = Virt::new(hypervisor, config, &output)?;
    let mut plugged = PluggedParts::default();
    for device in &args.device {
        match device {
            RunDevice::ChrTestdev => virt.add_chr_testdev()?,
            RunDevice::Virtio(device, ways) | RunDevice::VirtioMmio(device, ways) => {
                let config = ways.config(args.notify());
                virt.add_virtio_mmio(plugged.open(device, config, virt.memory(), &output)?)?;
            }
            _ => bail!(
                "only a PC has the devices pc-testdev, pci-testdev, vfio-pci and vfio-platform: an arm64 guest can have \
                 chr-testdev, those of virtio, and vhost-user-blk"
            ),
        }
    }
    // Only a kernel reads what the user types; for other images, standard input stays the shell's.
    let input = match plugged.keys {
        Some(keys) => Some(keys.input()),
        None if image.is_kernel() => Some(console::of_port(virt.serial())),
        None => None,
    };
    let ending = RunEnding::begin(args.timeout, input, output)?;
    let stop = virt.run(image, boot, ending.is_due());
    ending.status(stop)
}
