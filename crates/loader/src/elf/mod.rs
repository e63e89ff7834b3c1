//! The loader itself: process 1 of a Linux, with one thread, no libc and no heap.

#![allow(unsafe_code)]

mod pci;
mod start;
mod sys;
mod text;
mod unpack;

use core::arch::global_asm;
use core::panic::PanicInfo;

use crate::window::{
    ARCHIVE, BUSYBOX_FILE, CHANNEL_MODULE_FOLDER, COMMAND_FOLDER, EXTRA_MODULE_FOLDER, HEADER_FILE,
    Header, INIT_FILE, MODULE_FOLDER,
};
use start::{commands, links, load_modules, mount_all};
use sys::die;
use text::{Digits, Path};

#[cfg(target_arch = "x86_64")]
global_asm!(include_str!("x86_64.S"), options(att_syntax));
#[cfg(target_arch = "aarch64")]
global_asm!(include_str!("aarch64.S"));

/// The first byte of the panic device: the guest panicked (QEMU `docs/specs/pvpanic.rst`).
const PANICKED: u8 = 1;
/// Adds random bytes to the kernel's, and has it use them (Linux `drivers/char/random.c`).
const RNDADDENTROPY: usize = 0x4008_5203;
const RNDRESEEDCRNG: usize = 0x5207;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    die("panicked")
}

/// Prepares the machine, stops it, and becomes the next program. Called once, by `_start`.
#[unsafe(no_mangle)]
extern "C" fn loader_main() -> ! {
    mount_all();
    load_modules(MODULE_FOLDER);
    links();
    commands(BUSYBOX_FILE, COMMAND_FOLDER);
    let archive = match pci::map(
        &Path::of(&["/sys/bus/pci/devices/", crate::window::DEVICE]),
        2,
    ) {
        Some(window) => {
            stop();
            // The host writes the window before this machine continues, and never again.
            let header = begin(window);
            let length = usize::try_from(header.length).unwrap_or(usize::MAX);
            let end = ARCHIVE.saturating_add(length);
            window
                .get(ARCHIVE..end)
                .unwrap_or_else(|| die("the archive is longer than the window"))
        }
        None => {
            let mut bytes = [0; Header::SIZE];
            // A Linux without a header keeps the clock and the random numbers that it has.
            if sys::read_file(&Path::of(&[HEADER_FILE]), &mut bytes) == Some(Header::SIZE) {
                begin(&bytes);
            }
            &[]
        }
    };
    if !archive.is_empty() {
        unpack::unpack(archive);
    }
    load_modules(CHANNEL_MODULE_FOLDER);
    load_modules(EXTRA_MODULE_FOLDER);
    let error = sys::become_program(&Path::of(&[INIT_FILE]));
    sys::say(&[
        "lab: cannot run ",
        INIT_FILE,
        ": error ",
        Digits::of(error).text(),
        "\n",
    ]);
    die("no program to become")
}

/// Stops the machine, if its host says that a panic does so; what follows happens in each run.
fn stop() {
    let folder = Path::of(&[
        "/sys/bus/pci/devices/0000:00:",
        &crate::window::PANIC_SLOT[2..],
        ".0",
    ]);
    let Some(registers) = pci::map(&folder, 0) else {
        die("no panic device");
    };
    // SAFETY: the first byte of the mapping, which is never unmapped, is a register of the device.
    unsafe { registers.as_ptr().cast_mut().write_volatile(PANICKED) };
    if cfg!(target_arch = "aarch64") {
        // QEMU saves the timers of EL1 only (target/arm/machine.c), and the kernel uses those of EL2.
        sys::set_timers();
    }
}

/// Does what the header says, and returns it.
fn begin(window: &[u8]) -> Header {
    let Some(header) = Header::from_bytes(window) else {
        die("the window has no header");
    };
    if header.clock != 0 {
        sys::set_clock(header.clock);
    }
    if header.fixed_addresses {
        sys::write_existing(&Path::of(&["/proc/sys/kernel/randomize_va_space"]), b"0");
    }
    // struct rand_pool_info: the bits of entropy, the length in bytes, the bytes.
    let mut pool = [0; 8 + 32];
    pool[..4].copy_from_slice(&256_u32.to_ne_bytes());
    pool[4..8].copy_from_slice(&32_u32.to_ne_bytes());
    pool[8..].copy_from_slice(&header.seed);
    if let Some(random) = sys::open(&Path::of(&["/dev/random"]), sys::READ) {
        sys::ioctl(random, RNDADDENTROPY, pool.as_ptr() as usize);
        sys::ioctl(random, RNDRESEEDCRNG, 0);
        sys::close(random);
    }
    header
}
