//! Address spaces, and names of addresses: fixed by the PC, or guessed from the shape of an access.

/// A kind of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Ports.
    Port,
    /// Guest-physical addresses.
    Mmio,
    /// MSRs.
    Msr,
    /// A different bus of the kernel.
    Bus(u8),
}

/// A name, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where the name comes from.
    pub source: NameSource,
}

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// The address is fixed on a PC.
    Table,
    /// Guessed from the shape of the access. It can be wrong.
    Guess,
}

/// Reasons of a return to the VMM that come with an address, from Linux' `include/uapi/linux/kvm.h`.
pub(crate) const EXIT_IO: u32 = 2;
pub(crate) const EXIT_MMIO: u32 = 6;
pub(crate) const EXIT_RDMSR: u32 = 29;
pub(crate) const EXIT_WRMSR: u32 = 30;

/// The size of a write, and its place in a page, that a virtio driver's notifications have.
const VIRTIO_PCI_NOTIFY: u8 = 2;
const VIRTIO_MMIO_NOTIFY: u64 = 0x50;
/// Notification ports are multiples of this: 0x10 in a legacy device's BAR, and one for each queue of a modern device.
const VIRTIO_NOTIFY_PORTS: u64 = 4;
/// Linux and firmware put port BARs above the PC's fixed ports.
const FIRST_BAR: u64 = 0x1000;

/// The guessed name of virtio-mmio's `QueueNotify` register, which all queues of a device share (virtio 1.2, 4.2.2).
pub(crate) const QUEUE_NOTIFY: &str = "virtio-mmio notify";

/// Names an address, given the sizes of the writes to it.
pub(crate) fn of(space: Space, address: u64, writes: &[u8]) -> Option<Name> {
    let fixed = match space {
        _ if !cfg!(target_arch = "x86_64") => None,
        Space::Port => port(address),
        Space::Mmio => mmio(address),
        Space::Msr => msr(address),
        Space::Bus(_) => None,
    };
    let from = |source| {
        move |text: &str| Name {
            text: text.to_owned(),
            source,
        }
    };
    let fixed = fixed.map(from(NameSource::Table));
    fixed.or_else(|| guess(space, address, writes).map(from(NameSource::Guess)))
}

fn guess(space: Space, address: u64, writes: &[u8]) -> Option<&'static str> {
    match (space, writes) {
        (Space::Mmio, [4]) if address & 0xfff == VIRTIO_MMIO_NOTIFY => Some(QUEUE_NOTIFY),
        (Space::Mmio, [VIRTIO_PCI_NOTIFY]) => Some("virtio-pci notify"),
        (Space::Port, [VIRTIO_PCI_NOTIFY])
            if address >= FIRST_BAR && address.is_multiple_of(VIRTIO_NOTIFY_PORTS) =>
        {
            Some("virtio-pci notify")
        }
        _ => None,
    }
}

const fn port(port: u64) -> Option<&'static str> {
    Some(match port {
        0x00..=0x0f | 0x81..=0x8f | 0xc0..=0xdf => "DMA",
        0x20 | 0x21 | 0xa0 | 0xa1 => "PIC",
        0x40..=0x43 => "PIT",
        0x60 | 0x64 => "keyboard controller",
        0x61 => "PIT gate, NMI status",
        0x70 | 0x71 => "RTC",
        0x80 => "POST code",
        0x92 => "A20 gate",
        0xb2 | 0xb3 => "SMI",
        0xe9 | 0x402 => "debug console",
        0x170..=0x177 | 0x1f0..=0x1f7 | 0x376 | 0x3f6 => "IDE",
        0x1ce..=0x1d0 => "VBE",
        0x3b0..=0x3df => "VGA",
        0x3f0..=0x3f5 | 0x3f7 => "floppy disk",
        0x2f8..=0x2ff => "serial port 2",
        0x3f8..=0x3ff => "serial port 1",
        0x4d0 | 0x4d1 => "PIC ELCR",
        0x510 | 0x511 | 0x514..=0x51b => "QEMU fw_cfg",
        0xcf8..=0xcff => "PCI configuration",
        _ => return None,
    })
}

const fn mmio(address: u64) -> Option<&'static str> {
    Some(match address {
        0xa_0000..=0xb_ffff => "VGA memory",
        0xfec0_0000..=0xfec0_0fff => "I/O APIC",
        0xfed0_0000..=0xfed0_03ff => "HPET",
        0xfee0_00b0 => "local APIC EOI",
        0xfee0_0300 | 0xfee0_0310 => "local APIC ICR",
        0xfee0_0380 => "local APIC timer",
        0xfee0_0000..=0xfee0_0fff => "local APIC",
        _ => return None,
    })
}

const fn msr(msr: u64) -> Option<&'static str> {
    Some(match msr {
        0x1b => "APIC_BASE",
        0x3b => "TSC_ADJUST",
        0x48 => "SPEC_CTRL",
        0x6e0 => "TSC_DEADLINE",
        0x808 => "x2APIC TPR",
        0x80b => "x2APIC EOI",
        0x830 => "x2APIC ICR",
        0x838 => "x2APIC timer",
        0x83f => "x2APIC self IPI",
        0x800..=0x8ff => "x2APIC",
        0x4b56_4d04 => "PV EOI",
        _ => return None,
    })
}

/// Names the reason of a return to the VMM without a known address, from Linux' `include/uapi/linux/kvm.h`.
pub(crate) const fn exit_reason(reason: u64) -> Option<&'static str> {
    Some(match reason {
        0 => "unknown",
        1 => "exception",
        2 => "unknown port",
        3 => "hypercall",
        4 => "debug",
        5 => "hlt",
        6 => "unknown mmio",
        7 => "interrupt window",
        8 => "shutdown",
        9 => "failed entry",
        10 => "signal",
        11 => "set TPR",
        12 => "TPR access",
        16 => "NMI",
        17 => "internal error",
        24 => "system event",
        26 => "EOI of the I/O APIC",
        29 => "rdmsr",
        30 => "wrmsr",
        31 => "dirty ring full",
        33 => "bus lock",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(space: Space, address: u64, writes: &[u8]) -> Option<String> {
        let name = of(space, address, writes);
        let guess = name.filter(|name| name.source == NameSource::Guess);
        guess.map(|name| name.text)
    }

    #[test]
    fn a_notification_is_guessed_only_where_a_device_can_be() {
        let pci = Some("virtio-pci notify".to_owned());
        assert_eq!(guessed(Space::Mmio, 0xfebf_1000, &[2]), pci);
        for port in [0xc000, 0xc004, 0xc050] {
            assert_eq!(guessed(Space::Port, port, &[2]), pci);
        }
        // The port before it is the register that selects a queue.
        assert_eq!(guessed(Space::Port, 0xc04e, &[2]), None);
        // Written as words, and hardly ever read: IDE's data, and registers of VGA and VBE.
        for port in [0x1f0, 0x170, 0x3c4, 0x3ce, 0x3d4, 0x1ce, 0x210] {
            assert_eq!(guessed(Space::Port, port, &[2]), None, "{port:#x}");
        }
        // Text on a PC's screen, which is not a notification.
        let is_pc = cfg!(target_arch = "x86_64");
        assert_eq!(guessed(Space::Mmio, 0xb_8000, &[2]).is_none(), is_pc);
        let mmio = Some("virtio-mmio notify".to_owned());
        assert_eq!(guessed(Space::Mmio, 0xd000_0050, &[4]), mmio);
        assert_eq!(guessed(Space::Mmio, 0xd000_0054, &[4]), None);
    }
}
