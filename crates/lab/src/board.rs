//! The differences between the machines that the lab can emulate: one [`Board`] for each architecture.
//!
//! A board names the packages, QEMU's arguments, the kernel's parameters and the modules that give
//! L1 a `/dev/kvm`. Everything else in the lab is the same for all boards.

use super::device::{Device, Iommu};

/// An emulated machine whose CPU has virtualization.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// The architecture as Rust and QEMU name it.
    pub arch: &'static str,
    /// The architecture as Debian names it, in packages and folder names.
    pub package_arch: &'static str,
    /// The name of the multiarch folder below `lib`.
    pub triplet: &'static str,
    /// The dynamic loader's file name.
    pub loader: &'static str,
    /// The file name of QEMU's program.
    pub qemu: &'static str,
    /// Packages that have QEMU, best first.
    pub qemu_packages: &'static [&'static str],
    /// Packages that have a kernel, best first.
    pub kernel_packages: &'static [&'static str],
    /// Modules that make `/dev/kvm` appear; their dependencies are added.
    pub modules: &'static [&'static str],
    /// QEMU's arguments for the machine, its CPU and its debug-exit device.
    pub machine: &'static [&'static str],
    /// Kernel parameters for a quick start.
    pub parameters: &'static str,
    /// Devices that a guest in L1 can be given.
    pub devices: &'static [Device],
    /// The IOMMU that stands before these devices. Without a device there is none.
    pub iommu: Iommu,
}

/// x86-64: AMD's SVM as QEMU emulates it.
pub const X86_64: Board = Board {
    arch: "x86_64",
    package_arch: "amd64",
    triplet: "x86_64-linux-gnu",
    loader: "ld-linux-x86-64.so.2",
    qemu: "qemu-system-x86_64",
    qemu_packages: &["qemu-system-x86"],
    kernel_packages: &["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"],
    modules: &["kvm_amd"],
    machine: &[
        "-machine",
        "q35,smbus=off,sata=off",
        // QEMU before 9.1 reads the frame of an `iretq` in user mode as the supervisor, which SMAP forbids: L1's kernel
        // then oopses at the return of the usermode backend's stub (commit 0bd385e7e3 of QEMU).
        "-cpu",
        "max,-smap",
        "-device",
        "isa-debug-exit,iobase=0x501,iosize=4",
    ],
    // These parameters turn off what only costs time under emulation. `panic=-1` with `-no-reboot`
    // makes a panic end QEMU at once, and `oops=panic` an oops.
    parameters: "console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off cryptomgr.notests tsc=reliable no_timer_check \
                 nowatchdog audit=0 apparmor=0 random.trust_cpu=on \
                 initcall_blacklist=load_system_certificate_list,init_blk_tracer,jent_mod_init",
    // virtio-serial takes the first free slot, which is 1.
    devices: &[
        Device {
            name: "edu",
            address: "0000:00:03.0",
            arguments: &["-device", "edu,addr=3"],
            modules: &[],
            interface: None,
        },
        // A hub connects the card and an interface of L1, so that a program in L1 hears what the card's driver sends.
        // Neither has an option ROM, which the lab's QEMU lacks.
        Device {
            name: "e1000e",
            address: "0000:00:04.0",
            arguments: &[
                "-netdev",
                "hubport,id=lab.e1000e,hubid=0",
                "-netdev",
                "hubport,id=lab.net,hubid=0",
                "-device",
                "e1000e,addr=4,netdev=lab.e1000e,mac=52:54:00:00:00:04,romfile=",
                "-device",
                "virtio-net-pci,addr=5,netdev=lab.net,mac=52:54:00:00:00:05,romfile=",
            ],
            modules: &["virtio_net", "af_packet"],
            interface: Some("0000:00:05.0"),
        },
    ],
    iommu: Iommu {
        arguments: &["-device", "intel-iommu,intremap=on"],
        parameters: "intel_iommu=on",
        modules: &["vfio_pci", "vfio_iommu_type1"],
    },
};

impl Board {
    /// The board on which programs of this process's architecture run, if there is one.
    pub fn native() -> Option<Self> {
        cfg!(target_arch = "x86_64").then_some(X86_64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_in_the_slot_that_its_address_names() {
        for device in X86_64.devices {
            let addresses = [Some(device.address), device.interface];
            let slots = addresses.into_iter().flatten().map(|address| {
                let slot = address.strip_prefix("0000:00:0").unwrap();
                slot.strip_suffix(".0").unwrap()
            });
            let words = device.arguments.iter();
            let fixed = words.filter_map(|word| word.split_once(",addr="));
            let fixed = fixed.map(|(_, rest)| rest.split(',').next().unwrap());
            assert!(slots.eq(fixed), "{device:?}");
        }
    }
}
