//! The image as loaders see it.
// The image is only for x86-64.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

use std::io::Cursor;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::elf::{Elf, PvhBootCapability};
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_probe_image::{ELF, bzimage};

const START: u64 = 0x20_0000;

fn word(offset: usize) -> u64 {
    u64::from(u32::from_le_bytes(
        ELF[offset..offset + 4].try_into().unwrap(),
    ))
}

fn load() -> (GuestMemoryMmap, KernelLoaderResult) {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 16 << 20)]).unwrap();
    let loaded = Elf::load(&memory, None, &mut Cursor::new(ELF), None).unwrap();
    (memory, loaded)
}

/// The offset of the Multiboot header in the file, found as Multiboot 0.6.96 says.
fn multiboot() -> usize {
    (0..8192)
        .step_by(4)
        .find(|offset| word(*offset) == 0x1bad_b002)
        .unwrap()
}

#[test]
fn a_loader_of_kernels_places_it_at_two_mebibytes() {
    let (memory, loaded) = load();
    assert_eq!(
        loaded.kernel_load,
        GuestAddress(u64::from_le_bytes(ELF[24..32].try_into().unwrap()))
    );
    assert!((START..START + (1 << 20)).contains(&loaded.kernel_load.0));
    assert!(loaded.kernel_end < START + (2 << 20));
    let mut head = [0; 4];
    memory.read_slice(&mut head, GuestAddress(START)).unwrap();
    assert_eq!(u32::from_le_bytes(head), 0x1bad_b002);
}

#[test]
fn one_segment_is_loaded() {
    let headers = usize::try_from(word(32)).unwrap();
    let count = usize::from(ELF[56]);
    let kinds: Vec<u64> = (0..count).map(|index| word(headers + 56 * index)).collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == 1).count(),
        1,
        "{kinds:?}"
    );
}

#[test]
fn it_has_a_pvh_entry() {
    let (_, loaded) = load();
    let PvhBootCapability::PvhEntryPresent(entry) = loaded.pvh_boot_cap else {
        panic!("{:?}", loaded.pvh_boot_cap);
    };
    // The entry's 32-bit code: movl $1, %ebp.
    let (memory, _) = load();
    let mut code = [0; 5];
    memory.read_slice(&mut code, entry).unwrap();
    assert_eq!(code, [0xbd, 1, 0, 0, 0]);
}

#[test]
fn multiboot_finds_addresses_that_fit_the_file() {
    let header = multiboot();
    assert_eq!(word(header + 4), 0x0001_0003);
    let sum = word(header) + word(header + 4) + word(header + 8);
    assert_eq!(sum & 0xffff_ffff, 0);
    let [at, load, load_end, bss_end, entry] =
        [12, 16, 20, 24, 28].map(|offset| word(header + offset));
    assert_eq!((at, load), (START, START));
    assert!(load < entry && entry < load_end && load_end < bss_end);
    // QEMU copies from the header's place in the file, minus the header's distance from the start.
    assert!(header as u64 + (load_end - load) <= ELF.len() as u64);
}

/// A loader may not clear the memory after the file's bytes (gokvm does not). So the entries of the image clear it, and
/// it is as long as the header says.
#[test]
fn the_memory_behind_the_file_is_cleared_by_the_image() {
    let (memory, _) = load();
    let header = multiboot();
    let (load_end, bss_end) = (word(header + 20), word(header + 24));
    // movl $image_data_end, %edi; movl $image_bss_words, %ecx; xorl %eax, %eax; rep stosl, in both modes.
    let mut code = vec![0; usize::try_from(load_end - START).unwrap()];
    memory.read_slice(&mut code, GuestAddress(START)).unwrap();
    let mut clear = vec![0xbf];
    clear.extend(u32::try_from(load_end).unwrap().to_le_bytes());
    clear.push(0xb9);
    clear.extend(
        u32::try_from((bss_end - load_end) / 4)
            .unwrap()
            .to_le_bytes(),
    );
    clear.extend([0x31, 0xc0, 0xf3, 0xab]);
    let found = code
        .windows(clear.len())
        .filter(|place| *place == clear)
        .count();
    assert_eq!(found, 2);
}

#[test]
fn a_loader_takes_the_bzimage() {
    let image = bzimage();
    let memory: GuestMemoryMmap =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 16 << 20)]).unwrap();
    let loaded = BzImage::load(&memory, None, &mut Cursor::new(&image), None).unwrap();
    assert_eq!(loaded.kernel_load, GuestAddress(0x10_0000));
    let header = loaded.setup_header.unwrap();
    assert_eq!(usize::from(header.setup_sects), 1);
    let length = usize::try_from(header.syssize).unwrap() * 16;
    assert_eq!(1024 + length, image.len());
    // The loaded file and the copy at 2 MiB do not overlap, and are within the memory that the header asks for.
    assert!(loaded.kernel_end <= START);
    let end = word(multiboot() + 24);
    assert!(end <= header.pref_address + u64::from(header.init_size));
    // The 64-bit entry: cli; cld.
    let mut code = [0; 2];
    memory
        .read_slice(&mut code, GuestAddress(loaded.kernel_load.0 + 0x200))
        .unwrap();
    assert_eq!(code, [0xfa, 0xfc]);
}

fn long(offset: usize) -> usize {
    usize::try_from(u64::from_le_bytes(
        ELF[offset..offset + 8].try_into().unwrap(),
    ))
    .unwrap()
}

/// The section headers, of 64 bytes each, as offsets in the file.
fn sections() -> impl Iterator<Item = usize> {
    let count = usize::from(u16::from_le_bytes(ELF[60..62].try_into().unwrap()));
    (0..count).map(|index| long(40) + 64 * index)
}

/// The symbols of a section of code: their addresses and names, in order.
fn symbols(begin: usize, end: usize) -> Vec<(usize, &'static str)> {
    let table = sections().find(|section| word(section + 4) == 2).unwrap();
    let names = sections()
        .nth(usize::try_from(word(table + 40)).unwrap())
        .map(|section| long(section + 24))
        .unwrap();
    let from = long(table + 24);
    let mut found: Vec<_> = (from..from + long(table + 32))
        .step_by(24)
        .map(|symbol| {
            let name = &ELF[names + usize::try_from(word(symbol)).unwrap()..];
            let end = name.iter().position(|byte| *byte == 0).unwrap();
            (long(symbol + 8), std::str::from_utf8(&name[..end]).unwrap())
        })
        .filter(|(address, name)| (begin..end).contains(address) && !name.is_empty())
        .collect();
    found.sort_unstable();
    found.dedup_by_key(|(address, _)| *address);
    found
}

/// The functions of the precompiled `core` that format the message of an index out of bounds. The image's panic handler
/// does not format the message, so these functions are linked but never called.
fn formats_a_panic(name: &str) -> bool {
    let integer = name.contains("4core3fmt3num3imp") && name.ends_with("7Display3fmt");
    integer || name.ends_with("Formatter12pad_integral") || name.ends_with("count14do_count_chars")
}

/// A host that emulates the guest's kernel mode (`kvm_pvm`) has no vector instructions in that mode.
#[test]
fn no_instruction_uses_a_vector_register() {
    // Sections with SHF_EXECINSTR and with bytes in the file.
    let code: Vec<_> = sections()
        .filter(|section| word(section + 4) == 1 && long(section + 8) & 4 != 0)
        .collect();
    let mut decoded = 0;
    let mut found = Vec::new();
    for section in code {
        let (begin, offset, len) = (long(section + 16), long(section + 24), long(section + 32));
        let symbols = symbols(begin, begin + len);
        let ends = symbols.iter().skip(1).map(|(address, _)| *address);
        for ((from, name), to) in symbols.iter().zip(ends.chain([begin + len])) {
            if formats_a_panic(name) {
                continue;
            }
            let bytes = &ELF[offset + from - begin..offset + to - begin];
            let mut decoder = Decoder::with_ip(64, bytes, *from as u64, DecoderOptions::NONE);
            let mut factory = InstructionInfoFactory::new();
            for instruction in &mut decoder {
                decoded += 1;
                let info = factory.info(&instruction);
                if info
                    .used_registers()
                    .iter()
                    .any(|used| used.register().is_vector_register() || used.register().is_mm())
                {
                    found.push(format!(
                        "{name} at {:#x}: {:?}",
                        instruction.ip(),
                        instruction.code()
                    ));
                }
            }
        }
    }
    assert!(decoded > 5000, "only {decoded} instructions");
    assert!(found.is_empty(), "{found:#?}");
}
