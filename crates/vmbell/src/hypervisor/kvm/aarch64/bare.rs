//! The guest of a bare loop on arm64.

use crate::hypervisor::{BareExit, Capability, Error};

/// The code of a guest that makes these exits for ever; it runs at any address.
pub fn code(exit: BareExit, _: u64) -> Result<Vec<u8>, Error> {
    // mov x2, #0xd0000000; movk x2, #0x50; 1: str w0, [x2]; b 1b
    const MMIO: [u32; 4] = [0xd2ba_0002, 0xf280_0a02, 0xb900_0040, 0x17ff_ffff];
    match exit {
        BareExit::Mmio => Ok(MMIO.iter().flat_map(|word| word.to_le_bytes()).collect()),
        BareExit::Pio => Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::BareLoop,
            reason: "arm64 has no ports, and the loop was to write to one".to_owned(),
        }),
    }
}
