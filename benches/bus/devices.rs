//! What the buses hold, and in which order it is visited.

/// How far apart devices are, and how long their ranges.
pub const STRIDE: u64 = 0x1000;

/// The address of the first device.
const BASE: u64 = 0xd000_0000;

/// Where in its range a device is written to: virtio-mmio's QueueNotify.
pub const REGISTER: u64 = 0x50;

/// Which registers of a device are visited.
#[derive(Clone, Copy, Debug)]
pub enum Registers {
    /// One device, as in a guest that rings doorbells.
    One,
    /// All registers, so that hardly any address occurs twice.
    #[allow(dead_code, reason = "lookup_instructions has no use for it")]
    All,
}

/// The number of visits before the order repeats, enough for each of 10,000 devices.
const VISITS: usize = 1 << 15;

/// The addresses of `count` devices.
pub fn addresses(count: usize) -> Vec<u64> {
    (0..count as u64)
        .map(|index| BASE + index * STRIDE)
        .collect()
}

/// The devices in a pseudo-random order, as addresses that a guest writes to.
pub fn shuffled(addresses: &[u64], registers: Registers) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let index = (state >> 16) % addresses.len() as u64;
        let register = match registers {
            Registers::One => REGISTER,
            Registers::All => (state >> 48) * 4 % STRIDE,
        };
        addresses[usize::try_from(index).unwrap_or(0)] + register
    };
    (0..VISITS).map(next).collect()
}
