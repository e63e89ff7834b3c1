//! Guest RAM that is the caller's own memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vmbell::memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion,
};
use vmbell_guest::{CODE, PARAMETERS};
use vmbell_hypervisor::{Error, Hypervisor, VmConfig};

use testbed::{AREA, begin, chain, configured, run};

const BASE: GuestAddress = PARAMETERS;
const SIZE: usize = 4 << 20;
/// Where RAM begins in its file.
const OFFSET: u64 = 0x3000;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Adds 1 to the word at [`AREA`], stores the sum after it, and says that it is done.
#[cfg(target_arch = "x86_64")]
const PROGRAM: [u8; 19] = {
    let [a, b, c, d] = AREA_WORD.to_le_bytes();
    [
        0xbf, a, b, c, d, // mov edi, AREA
        0x8b, 0x07, // mov eax, [rdi]
        0xff, 0xc0, // inc eax
        0x89, 0x47, 0x04, // mov [rdi + 4], eax
        0xba, 0xf4, 0, 0, 0,    // mov edx, DONE_PORT
        0xee, // out dx, al
        0xf4, // hlt
    ]
};

/// The same program.
#[cfg(target_arch = "aarch64")]
const PROGRAM: [u8; 28] = [
    0x09, 0x04, 0xa0, 0x52, // mov w9, AREA
    0x20, 0x01, 0x40, 0xb9, // ldr w0, [x9]
    0x00, 0x04, 0x00, 0x11, // add w0, w0, 1
    0x20, 0x05, 0x00, 0xb9, // str w0, [x9, 4]
    0x0a, 0xfe, 0xbf, 0xd2, // mov x10, DONE_ADDRESS
    0x5f, 0x01, 0x00, 0xb9, // str wzr, [x10]
    0x00, 0x00, 0x00, 0x14, // b .
];
const AREA_WORD: u32 = 0x20_0000;
const _: () = assert!(AREA_WORD as u64 == AREA);

fn memfd(size: u64) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("own-memory", flags).unwrap());
    file.set_len(size).unwrap();
    file
}

/// Memory of a file, after the file's first pages.
fn in_file(base: GuestAddress, size: usize) -> GuestMemoryMmap {
    let file = FileOffset::new(memfd(OFFSET + size as u64), OFFSET);
    GuestMemoryMmap::from_ranges_with_files([(base, size, Some(file))]).unwrap()
}

/// Memory of one region with this protection and these flags of mmap.
fn mapped(file: Option<FileOffset>, protection: i32, flags: i32) -> GuestMemoryMmap {
    let region = MmapRegion::build(file, SIZE, protection, flags).unwrap();
    let region = GuestRegionMmap::new(region, BASE).unwrap();
    GuestMemoryMmap::from_regions(vec![region]).unwrap()
}

/// Runs [`PROGRAM`], and reads and writes its words in the caller's mapping only.
fn run_in<H: Hypervisor>(h: &H, memory: &GuestMemoryMmap) {
    memory.write_slice(&PROGRAM, CODE).unwrap();
    memory.write_obj(41_u32, GuestAddress(AREA)).unwrap();
    let vm = configured(h, VmConfig::with_memory(memory.clone()));
    let mut vcpu = begin(&vm, 0);
    assert_eq!(run(&mut vcpu), []);
    let sum = GuestAddress(AREA + 4);
    assert_eq!(memory.read_obj::<u32>(sum).unwrap(), 42);
    assert_eq!(vm.memory().read_obj::<u32>(sum).unwrap(), 42);
    drop((vcpu, vm));
    assert_eq!(memory.read_obj::<u32>(sum).unwrap(), 42);
}

fn the_guest_runs_in_the_callers_memory<H: Hypervisor>(h: &H) {
    let file = memfd(OFFSET + SIZE as u64);
    let own = FileOffset::new(file.try_clone().unwrap(), OFFSET);
    let memory = GuestMemoryMmap::from_ranges_with_files([(BASE, SIZE, Some(own))]).unwrap();
    run_in(h, &memory);
    let mut sum = [0; 4];
    let place = OFFSET + AREA + 4 - BASE.0;
    file.read_exact_at(&mut sum, place).unwrap();
    assert_eq!(u32::from_le_bytes(sum), 42, "in the file");
}

fn two_guests_share_the_callers_memory<H: Hypervisor>(h: &H) {
    let memory = in_file(BASE, SIZE);
    let other = configured(h, VmConfig::with_memory(memory.clone()));
    run_in(h, &memory);
    let sum = other.memory().read_obj::<u32>(GuestAddress(AREA + 4));
    assert_eq!(sum.unwrap(), 42);
    // The other guest runs the same program on its own memory.
    memory.write_obj(6_u32, GuestAddress(AREA)).unwrap();
    assert_eq!(run(&mut begin(&other, 0)), []);
    let sum = memory.read_obj::<u32>(GuestAddress(AREA + 4));
    assert_eq!(sum.unwrap(), 7);
}

fn memory_without_a_file_is_enough<H: Hypervisor>(h: &H) {
    run_in(h, &GuestMemoryMmap::from_ranges(&[(BASE, SIZE)]).unwrap());
}

/// Returns the setting that is refused.
fn refused<H: Hypervisor>(h: &H, config: &VmConfig) -> &'static str {
    match h.create_vm(config).map(|_| ()) {
        Err(Error::Config { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

fn memory_is_refused_where_new_ram_would_be<H: Hypervisor>(h: &H) {
    let refused = |base, size| {
        let memory = in_file(GuestAddress(base), size);
        refused(h, &VmConfig::with_memory(memory))
    };
    // Over the area below RAM, after the beginning of RAM, and where no RAM can be.
    for base in [0x1000, 0xf_f000, 0x20_0000, 0xfee0_0000, 1 << 40] {
        assert_eq!(refused(base, SIZE), "ram_base", "{base:#x}");
    }
    // Not whole pages, over the devices, over the interrupt controllers, over everything.
    for size in [100, SIZE + 1, 0xc000_0000, 0xff00_0000, 1 << 40] {
        assert_eq!(refused(BASE.0, size), "ram_size", "{size:#x}");
    }
}

fn memory_has_to_be_what_the_settings_say<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        ram_size: 2 * SIZE as u64,
        ..VmConfig::with_memory(in_file(BASE, SIZE))
    };
    assert_eq!(refused(h, &config), "ram_size");
    let config = VmConfig {
        ram_base: VmConfig::default().ram_base,
        ..VmConfig::with_memory(in_file(GuestAddress(0), SIZE))
    };
    assert_eq!(refused(h, &config), "ram_base");
}

fn memory_of_no_region_or_of_two_is_refused<H: Hypervisor>(h: &H) {
    let config = VmConfig {
        memory: Some(GuestMemoryMmap::default()),
        ..VmConfig::default()
    };
    assert_eq!(refused(h, &config), "the number of regions of memory");
    let two = [(BASE, SIZE), (GuestAddress(BASE.0 + SIZE as u64), SIZE)];
    let two = GuestMemoryMmap::from_ranges(&two).unwrap();
    let config = VmConfig::with_memory(two);
    assert_eq!(refused(h, &config), "the number of regions of memory");
}

fn memory_that_cannot_be_written_is_refused<H: Hypervisor>(h: &H) {
    let file = FileOffset::new(memfd(SIZE as u64), 0);
    let memory = mapped(Some(file), libc::PROT_READ, libc::MAP_SHARED);
    let config = VmConfig::with_memory(memory);
    assert_eq!(refused(h, &config), "the protection of memory");
}

/// Only a backend with a separate process has to refuse this memory. The test checks the text of each error.
fn memory_that_the_sandbox_cannot_share_is_refused<H: Hypervisor>(h: &H) {
    let error = |memory| {
        let error = h.create_vm(&VmConfig::with_memory(memory)).map(|_| ());
        chain(&error.unwrap_err())
    };
    let anonymous = GuestMemoryMmap::from_ranges(&[(BASE, SIZE)]).unwrap();
    let text = error(anonymous);
    assert!(text.contains("not a mapping of a file"), "{text}");

    let file = FileOffset::new(memfd(SIZE as u64), 0);
    let text = error(mapped(Some(file), READ_WRITE, libc::MAP_PRIVATE));
    assert!(text.contains("private"), "{text}");

    let file = memfd(SIZE as u64);
    let short = FileOffset::new(file.try_clone().unwrap(), 0);
    let memory = mapped(Some(short), READ_WRITE, libc::MAP_SHARED);
    file.set_len(SIZE as u64 - 1).unwrap();
    let text = error(memory);
    assert!(text.contains("end of its file"), "{text}");

    let file = memfd(SIZE as u64);
    let sealed = FileOffset::new(file.try_clone().unwrap(), 0);
    let memory = mapped(Some(sealed), READ_WRITE, libc::MAP_SHARED);
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap();
    let text = error(memory);
    assert!(text.contains("map the memory's file"), "{text}");
}

testbed::on_both! {
    the_guest_runs_in_the_callers_memory;
    two_guests_share_the_callers_memory;
    memory_is_refused_where_new_ram_would_be;
    memory_of_no_region_or_of_two_is_refused;
    memory_that_cannot_be_written_is_refused;
    memory_has_to_be_what_the_settings_say;
}

mod of_one_backend {
    use super::{memory_that_the_sandbox_cannot_share_is_refused, memory_without_a_file_is_enough};

    testbed::on_usermode! {
        memory_that_the_sandbox_cannot_share_is_refused;
    }

    testbed::on_kvm! {
        memory_without_a_file_is_enough;
    }
}
