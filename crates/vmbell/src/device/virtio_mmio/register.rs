//! Where the registers are (virtio 1.3, 4.2.2): offsets in bytes, each register 32 bits.

/// "virt".
pub const MAGIC_VALUE: u64 = 0x000;
/// Of the register layout: 2.
pub const VERSION: u64 = 0x004;
/// What the device is.
pub const DEVICE_ID: u64 = 0x008;
/// Who made it.
pub const VENDOR_ID: u64 = 0x00c;
/// 32 of the features that the device offers.
pub const DEVICE_FEATURES: u64 = 0x010;
/// Which 32.
pub const DEVICE_FEATURES_SEL: u64 = 0x014;
/// 32 of the features that the driver takes.
pub const DRIVER_FEATURES: u64 = 0x020;
/// Which 32.
pub const DRIVER_FEATURES_SEL: u64 = 0x024;
/// Which queue the next ones are about.
pub const QUEUE_SEL: u64 = 0x030;
/// How many descriptors it can have; 0 if there is no such queue.
pub const QUEUE_SIZE_MAX: u64 = 0x034;
/// How many it has.
pub const QUEUE_SIZE: u64 = 0x038;
/// Whether the device may look at it.
pub const QUEUE_READY: u64 = 0x044;
/// The doorbell: the index of a queue with new buffers.
pub const QUEUE_NOTIFY: u64 = 0x050;
/// Why the device interrupts: bit 0, a used buffer.
pub const INTERRUPT_STATUS: u64 = 0x060;
/// The reasons that the driver has seen.
pub const INTERRUPT_ACK: u64 = 0x064;
/// How far the driver is.
pub const STATUS: u64 = 0x070;
/// Address of the descriptor table, low and high half.
pub const QUEUE_DESC: [u64; 2] = [0x080, 0x084];
/// Address of the driver's part, the available ring.
pub const QUEUE_DRIVER: [u64; 2] = [0x090, 0x094];
/// Address of the device's part, the used ring.
pub const QUEUE_DEVICE: [u64; 2] = [0x0a0, 0x0a4];
/// Length and base of a shared memory region, all ones where there is none.
pub const SHM: std::ops::RangeInclusive<u64> = 0x0b0..=0x0bc;
/// Changes with the configuration.
pub const CONFIG_GENERATION: u64 = 0x0fc;
/// The end of the registers; the device's own configuration begins here.
pub const CONFIG: u64 = 0x100;

/// What [`MAGIC_VALUE`] holds.
pub const MAGIC: u32 = 0x7472_6976;
