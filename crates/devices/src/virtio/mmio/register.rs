//! The offsets of the registers in bytes (virtio 1.3, 4.2.2); each register has 32 bits.

/// MagicValue: "virt", little-endian.
pub const MAGIC_VALUE: u64 = 0x000;
/// Version of the register layout: 2.
pub const VERSION: u64 = 0x004;
/// Device ID (virtio 1.3, 5).
pub const DEVICE_ID: u64 = 0x008;
/// Vendor ID.
pub const VENDOR_ID: u64 = 0x00c;
/// 32 bits of the features that the device offers.
pub const DEVICE_FEATURES: u64 = 0x010;
/// Selects the half that [`DEVICE_FEATURES`] shows: 0 is the low one.
pub const DEVICE_FEATURES_SEL: u64 = 0x014;
/// 32 bits of the features that the driver chooses.
pub const DRIVER_FEATURES: u64 = 0x020;
/// Selects the half that [`DRIVER_FEATURES`] sets: 0 is the low one.
pub const DRIVER_FEATURES_SEL: u64 = 0x024;
/// Selects the queue that the other queue registers describe, by its index.
pub const QUEUE_SEL: u64 = 0x030;
/// The maximum number of descriptors that the selected queue can have; 0 if there is no such queue.
pub const QUEUE_SIZE_MAX: u64 = 0x034;
/// The number of descriptors of the selected queue.
pub const QUEUE_SIZE: u64 = 0x038;
/// 1 if the device may use the selected queue.
pub const QUEUE_READY: u64 = 0x044;
/// The doorbell: the index of a queue with new buffers.
pub const QUEUE_NOTIFY: u64 = 0x050;
/// Reasons of the interrupt: bit 0 is a used buffer, bit 1 a configuration change.
pub const INTERRUPT_STATUS: u64 = 0x060;
/// The driver writes the reasons that it has handled.
pub const INTERRUPT_ACK: u64 = 0x064;
/// The device status field (virtio 1.3, 2.1).
pub const STATUS: u64 = 0x070;
/// Address of the descriptor table, low and high half.
pub const QUEUE_DESC: [u64; 2] = [0x080, 0x084];
/// Address of the driver area, the available ring, low and high half.
pub const QUEUE_DRIVER: [u64; 2] = [0x090, 0x094];
/// Address of the device area, the used ring, low and high half.
pub const QUEUE_DEVICE: [u64; 2] = [0x0a0, 0x0a4];
/// Length and base of a shared memory region, all ones where there is no region.
pub const SHM: std::ops::RangeInclusive<u64> = 0x0b0..=0x0bc;
/// A number that changes with the device's configuration.
pub const CONFIG_GENERATION: u64 = 0x0fc;
/// The end of the registers. The device's own configuration is from here to [`LEN`].
pub const CONFIG: u64 = 0x100;
/// How many bytes of addresses a device takes, including its configuration.
pub const LEN: u64 = 0x1000;

/// The value of [`MAGIC_VALUE`].
pub const MAGIC: u32 = 0x7472_6976;
