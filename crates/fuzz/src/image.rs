//! An untrusted image for a PC: a kernel (a bzImage, or an ELF with PVH's entry point) or a Multiboot image, with any
//! changes. Nothing panics; what is loaded is in RAM that images may use, and so is the entry. The kernel finds its
//! whole initrd at the address that it gets, and a Multiboot image finds its module.

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_hypervisor::EntryPoint;
use vmbell_vmm::{Boot, INFORMATION, Image, Module};

use super::input::Input;

/// The parts of an image that are not zeros: offset and bytes.
type Template = &'static [(usize, &'static [u8])];

/// A 64-bit ELF with a segment at 1 MiB, and in it the note of an entry point.
const PVH: Template = &[
    (0, b"\x7fELF\x02\x01\x01"),
    (16, &[2, 0, 62, 0, 1, 0, 0, 0, 0, 0, 16]),
    (32, &[64]),
    (52, &[64, 0, 56, 0, 2]),
    // PT_LOAD and PT_NOTE: offset, addresses, sizes.
    (64, &[1, 0, 0, 0, 7, 0, 0, 0, 200]),
    (82, &[0x10, 0x80, 0xff, 0xff, 0xff, 0xff]),
    (90, &[0x10, 0, 0, 0, 0, 0, 4]),
    (104, &[0, 16]),
    (112, &[4, 0, 0, 0, 4]),
    (120, &[4, 0, 0, 0, 0, 0, 0, 0, 176]),
    (152, &[24, 0, 0, 0, 0, 0, 0, 0, 24]),
    (168, &[4]),
    (176, b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0\x00\x00\x10\0"),
    (200, b"code"),
];
/// A kernel after two sectors of setup code. It unpacks itself at 2 MiB and takes 1 MiB.
const BZIMAGE: Template = &[
    (0x1f1, &[1]),
    (0x1fe, &[0x55, 0xaa, 0xeb, 0x66]),
    (0x202, b"HdrS\x0f\x02"),
    (0x211, &[1]),
    (0x214, &[0, 0, 0x10]),
    (0x22c, &[0xff, 0xff, 0xff, 0x37]),
    (0x238, &[0xff, 7]),
    (0x25a, &[0x20]),
    (0x262, &[0x10]),
    (0x400, b"code"),
];
/// A flat file for a Multiboot loader, at 1 MiB.
const FLAT: Template = &[
    (
        8,
        &[0x02, 0xb0, 0xad, 0x1b, 0, 0, 1, 0, 0xfe, 0x4f, 0x51, 0xe4],
    ),
    (20, &[8, 0, 0x10, 0, 0, 0, 0x10]),
    (36, &[40, 0, 0x10]),
    (40, b"code"),
];
/// A 32-bit ELF with a Multiboot header.
const MULTIBOOT: Template = &[
    (0, b"\x7fELF\x01\x01\x01"),
    (16, &[2, 0, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0xc0, 52]),
    (40, &[52, 0, 32, 0, 1, 0, 40]),
    (52, &[1, 0, 0, 0, 84, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0x10]),
    (68, &[16, 0, 0, 0, 64, 0, 0, 0, 7, 0, 0, 0, 4]),
    (
        84,
        &[0x02, 0xb0, 0xad, 0x1b, 0, 0, 0, 0, 0xfe, 0x4f, 0x52, 0xe4],
    ),
    (96, b"code"),
];
const TEMPLATES: [Template; 4] = [PVH, BZIMAGE, FLAT, MULTIBOOT];

const RAM: usize = 4 << 20;
/// The hole from the end of low RAM to 1 MiB, where nothing is loaded.
const LOW_END: u64 = 0x9_fc00;
const HIGH: u64 = 0x10_0000;
/// A byte that is in no other part of the loader's input.
const INITRD: u8 = 0xd7;

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let template = TEMPLATES[usize::from(input.byte()) % TEMPLATES.len()];
    let options = input.byte();
    let arguments = "x".repeat(usize::from(input.word()) % 0x900);
    let initrd = vec![INITRD; usize::from(input.word()) % 0x1000 * 16];
    let boot = Boot {
        arguments,
        environment: (options & 1 != 0).then(|| b"NAME=VALUE\n".to_vec().into()),
        initrd: (options & 2 != 0).then(|| initrd.clone().into()),
        modules: (options & 4 != 0)
            .then(|| Module {
                command_line: "module".to_owned(),
                file: initrd.clone().into(),
            })
            .into_iter()
            .collect(),
    };
    let image = Image::parse("dir/image".to_owned(), &changed(template, &mut input));
    let Ok(image) = image else { return };
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), RAM)]).unwrap();
    if let Ok(entry) = image.load(&memory, &boot) {
        let is_given = boot.initrd.is_some() || !boot.modules.is_empty();
        check(&memory, entry, is_given.then_some(&initrd));
    }
}

/// Returns the bytes of the file.
fn changed(template: Template, input: &mut Input<'_>) -> Vec<u8> {
    let mut file = Vec::new();
    for (at, bytes) in template {
        file.resize(*at, 0);
        file.extend(*bytes);
    }
    file.resize(file.len() + usize::from(input.byte()), 0x90);
    for _ in 0..input.byte() % 8 {
        let (at, count) = (usize::from(input.word()) % 0x480, input.byte() % 9);
        if count == 8 {
            file.truncate(at);
        }
        for at in at..at + usize::from(count) {
            if let Some(byte) = file.get_mut(at) {
                *byte = input.byte();
            }
        }
    }
    file
}

fn check(memory: &GuestMemoryMmap, entry: EntryPoint, file: Option<&[u8]>) {
    let EntryPoint::Protected { pc, eax, ebx, esi } = entry else {
        panic!("{entry:?}")
    };
    assert!(usize::try_from(pc).unwrap() < RAM);
    let mut hole = vec![0; usize::try_from(HIGH - LOW_END).unwrap()];
    memory.read_slice(&mut hole, GuestAddress(LOW_END)).unwrap();
    assert!(hole == vec![0; hole.len()], "the hole is not RAM");
    let information = u32::try_from(INFORMATION.0).unwrap();
    // The end of the memory in which a kernel unpacks itself.
    let mut taken = HIGH;
    let word = |at: u32| -> u32 { memory.read_obj(GuestAddress(at.into())).unwrap() };
    let initrd = if esi == information {
        let preferred: u64 = memory
            .read_obj(GuestAddress(INFORMATION.0 + 0x258))
            .unwrap();
        taken = preferred + u64::from(word(esi + 0x260));
        file.map(|_| [word(esi + 0x218), word(esi + 0x21c)])
    } else {
        assert_eq!(ebx, information);
        if eax == 0x2bad_b002 {
            // The environment may be before the module.
            let last = word(ebx + 20).checked_sub(1);
            let last = last.filter(|_| file.is_some());
            last.map(|index| word(ebx + 24) + 16 * index)
                .map(|at| [word(at), word(at + 4) - word(at)])
        } else {
            let module = Some(word(ebx + 16)).filter(|module| *module != 0);
            module.map(|at| [word(at), word(at + 8)])
        }
    };
    if let (Some([at, len]), Some(file)) = (initrd, file) {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        memory
            .read_slice(&mut bytes, GuestAddress(at.into()))
            .unwrap();
        assert_eq!(bytes, file);
        assert!(at.is_multiple_of(4096) && u64::from(at) >= taken);
    } else {
        assert!(file.is_none());
    }
}
