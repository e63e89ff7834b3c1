//! The loader itself: one thread, no libc, no heap. It is process 1 of a Linux. If another Linux is inside, it is later
//! also a child process.

#![allow(unsafe_code)]

mod connection;
mod pci;
mod start;
mod sys;
mod text;
mod timers;
mod unpack;

use core::arch::global_asm;
use core::panic::PanicInfo;

use crate::window::{
    ARCHIVE, BUSYBOX_FILE, CHANNEL_MODULE_FOLDER, COMMAND_FOLDER, DEVICE, EXTRA_MODULE_FOLDER,
    HEADER_FILE, Header, INIT_FILE, MODULE_FOLDER, NESTED_FILE, TIME_SKIPPED,
};
use pci::Bar;
use start::{commands, links, load_modules, mount_all};
use sys::die;
use text::{Digits, Path};
use timers::Timers;

#[cfg(target_arch = "x86_64")]
global_asm!(include_str!("x86_64.S"), options(att_syntax));
#[cfg(target_arch = "aarch64")]
global_asm!(include_str!("aarch64.S"));

/// A write of this value to the panic device: the guest panicked (QEMU `docs/specs/pvpanic.rst`).
const PANICKED: u8 = 1;
/// In units of the CPU's counter; the instruction that stops the machine takes less.
const MOMENT: u64 = 50;
/// Adds random bytes to the kernel's, and makes it use them (Linux `drivers/char/random.c`).
const RNDADDENTROPY: usize = 0x4008_5203;
const RNDRESEEDCRNG: usize = 0x5207;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    die("panicked")
}

/// Prepares the machine, receives the files of the run, and becomes the next program. Called once, by `_start`.
#[unsafe(no_mangle)]
extern "C" fn loader_main() -> ! {
    let is_first = sys::process_id() == 1;
    if is_first {
        mount_all();
        load_modules(MODULE_FOLDER);
        load_modules(CHANNEL_MODULE_FOLDER);
        links();
        commands(BUSYBOX_FILE, COMMAND_FOLDER);
        if sys::exists(&Path::of(&[NESTED_FILE])) {
            become_init();
        }
    }
    let mut header = [0; Header::SIZE];
    match sys::read_file(&Path::of(&[HEADER_FILE]), &mut header) {
        Some(_) => drop(begin(&header)),
        None => unpack::unpack(receive()),
    }
    load_modules(EXTRA_MODULE_FOLDER);
    if is_first {
        become_init();
    }
    sys::exit(0)
}

fn become_init() -> ! {
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

/// Returns the archive of the run, after `begin` has done what its header says. The archive comes from the window,
/// after the machine was stopped; a Linux that has no window receives it from its host.
fn receive() -> &'static [u8] {
    let window = Path::of(&["/sys/bus/pci/devices/", DEVICE]);
    let Some(window) = Bar::open(&window, 2) else {
        return connection::receive(begin);
    };
    let Some(header) = window.map(0, ARCHIVE) else {
        die("cannot map the window");
    };
    stop(header);
    let header = begin(header);
    window
        .map(ARCHIVE, header.length())
        .unwrap_or_else(|| die("the archive is longer than the window"))
}

/// Stops the machine, if its host is set up to stop on a panic. Everything after the stop happens in each run.
fn stop(header: &[u8]) {
    let folder = Path::of(&[
        "/sys/bus/pci/devices/0000:00:",
        &crate::window::PANIC_SLOT[2..],
        ".0",
    ]);
    let Some(registers) = Bar::open(&folder, 0).and_then(|bar| bar.map(0, 1)) else {
        die("no panic device");
    };
    let timers = cfg!(target_arch = "aarch64").then(Timers::set);
    let register = registers.as_ptr().cast_mut();
    // Avoids page faults after this point: a fault would look like time that was skipped.
    sys::counter();
    // SAFETY: the first byte of the mapping, which is never unmapped, is a device register; reading it has no effect.
    unsafe { register.read_volatile() };
    let before = sys::counter();
    // SAFETY: as above.
    unsafe { register.write_volatile(PANICKED) };
    let passed = sys::counter().wrapping_sub(before);
    // The host writes the window before this machine continues, and not afterwards.
    let counted = Header::from_bytes(header).is_some_and(|header| header.counted);
    if counted && passed > MOMENT {
        // Dies before anything waits: a timer whose time was skipped never interrupts.
        die(TIME_SKIPPED);
    }
    if let Some(timers) = timers {
        timers.take_back();
    }
}

/// Does what the header says, and returns it.
fn begin(bytes: &[u8]) -> Header {
    let Some(header) = Header::from_bytes(bytes) else {
        die("there is no header");
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
