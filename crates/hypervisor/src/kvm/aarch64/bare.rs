//! The guest of a bare loop on arm64.

use crate::measure::BareExit;
use crate::{Capability, Error};

/// The address that the guest stores to.
pub const ADDRESS: u64 = 0xd000_0050;

/// `mov x2, #0xd0000000; movk x2, #0x50`: the address.
const BEGIN: [u32; 2] = [0xd2ba_0002, 0xf280_0a02];

/// `1: str w0, [x2]; b 1b`
const STORE: [u32; 2] = [0xb900_0040, 0x17ff_ffff];

/// Reads the count, rings, and leaves by a store to another address:
/// `adr x4, . + 0xff8; 1: ldr x3, [x4]; 2: str w0, [x2]; subs x3, x3, #1; b.ne 2b; str w0, [x2, #16]; b 1b`
const RING: [u32; 7] = [
    0x1000_7fc4,
    0xf940_0083,
    0xb900_0040,
    0xf100_0463,
    0x54ff_ffc1,
    0xb900_1040,
    0x17ff_fffb,
];

// The third word of the program reads from 0xff8 bytes after itself.
const _: () = assert!(super::super::bare::COUNT == 8 + 0xff8);

/// The code of a guest that makes these exits forever; it runs at any address.
pub fn code(exit: BareExit) -> Result<Vec<u8>, Error> {
    let rest: &[u32] = match exit {
        BareExit::Mmio => &STORE,
        BareExit::Ioeventfd => &RING,
        BareExit::Pio => {
            return Err(Error::Unsupported {
                backend: "kvm",
                capability: Capability::BareLoop,
                reason: "arm64 has no ports, and the loop was to write to one".to_owned(),
            });
        }
    };
    let words = BEGIN.iter().chain(rest);
    Ok(words.flat_map(|word| word.to_le_bytes()).collect())
}
