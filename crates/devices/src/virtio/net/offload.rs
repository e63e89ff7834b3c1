//! Features of the network device (virtio 1.3, 5.1.3), and which of them the host's side of a tap must provide
//! (`TUNSETOFFLOAD`).
//!
//! With offloads a packet may be as long as 64 KiB, and its checksum may be missing. Before the packet goes to a
//! physical network, it is segmented and its checksum is computed. Between a guest and its host neither is needed.

/// Checksums: the host completes the checksums of the driver's packets, and the driver takes packets without a
/// checksum.
const CSUM: u64 = 1 << 0;
const GUEST_CSUM: u64 = 1 << 1;
const MAC: u64 = 1 << 5;
/// TCP packets longer than a frame, which the driver takes.
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
/// TCP packets longer than a frame, which the host takes.
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
const STATUS: u64 = 1 << 16;

/// The features that every interface offers: its address, and whether there is a link.
pub(in crate::virtio) const ALWAYS: u64 = MAC | STATUS;

/// Flags of `TUNSETOFFLOAD` (Linux `uapi/linux/if_tun.h`).
const TUN_F_CSUM: libc::c_ulong = 1;
const TUN_F_TSO4: libc::c_ulong = 2;
const TUN_F_TSO6: libc::c_ulong = 4;
const TUN_F_TSO_ECN: libc::c_ulong = 8;

/// Whether an interface offers offloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offloads {
    /// The offloads that the tap has.
    #[default]
    On,
    /// No offloads: every packet is complete, and not longer than a frame.
    Off,
}

impl Offloads {
    /// The features of a device that puts each packet into one buffer. Only the host takes long packets: a driver that
    /// takes them would have to keep 64 KiB ready for each packet, however short.
    pub(super) const fn with_single_buffers(self) -> u64 {
        match self {
            Self::On => CSUM | GUEST_CSUM | HOST_TSO4 | HOST_TSO6 | HOST_ECN,
            Self::Off => 0,
        }
    }

    /// The features of a device that may put a packet into several buffers.
    pub(in crate::virtio) const fn with_merged_buffers(self) -> u64 {
        match self {
            Self::On => self.with_single_buffers() | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN,
            Self::Off => 0,
        }
    }
}

/// Whether the header of a driver's packet may ask for offloads.
pub(super) const fn asks(accepted: u64) -> bool {
    accepted & CSUM != 0
}

/// The flags for a driver that has accepted these features.
pub(super) const fn flags(accepted: u64) -> libc::c_ulong {
    let mut flags = 0;
    // The kernel takes the other flags only together with the flag for checksums.
    if accepted & GUEST_CSUM != 0 {
        flags |= TUN_F_CSUM;
        if accepted & GUEST_TSO4 != 0 {
            flags |= TUN_F_TSO4;
        }
        if accepted & GUEST_TSO6 != 0 {
            flags |= TUN_F_TSO6;
        }
        if accepted & GUEST_ECN != 0 && flags & (TUN_F_TSO4 | TUN_F_TSO6) != 0 {
            flags |= TUN_F_TSO_ECN;
        }
    }
    flags
}
