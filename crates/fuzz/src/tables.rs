//! What a VMM gives the guest image: the ACPI tables, a PCI function's configuration space and the command line. They
//! are valid at first, and each case changes a few bytes.

use std::cell::Cell;

use vmbell_probe_image::acpi::tables::Acpi;
use vmbell_probe_image::cmdline::{Options, mmio_devices};
use vmbell_probe_image::pci::{Config, LEN};

/// Where the tables are: 4 KiB, with all ones everywhere else.
const BASE: u64 = 0x10_0000;
const XSDT: usize = 0x40;
const FADT: usize = 0x100;
const MADT: usize = 0x300;
const MCFG: usize = 0x400;
const DSDT: usize = 0x500;
const CONFIG: usize = 0x800;
const CMDLINE: usize = 0x900;
const END: usize = 0x1000;

/// More changes than this leave nothing valid.
const CHANGES: usize = 24;

/// The maximum number of bytes that the image reads, two thirds of them in the search for an RSDP.
const BOUND: usize = 900_000;

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut memory = sound();
    for change in data.chunks_exact(3).take(CHANGES) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % END;
        memory[place] = change[2];
    }
    let read = Cell::new(0);
    let reader = |address: u64, to: &mut [u8]| {
        read.set(read.get() + to.len());
        to.fill(0xff);
        let place = address
            .checked_sub(BASE)
            .and_then(|place| usize::try_from(place).ok());
        let found = place
            .and_then(|place| memory.get(place..))
            .unwrap_or_default();
        let len = found.len().min(to.len());
        to[..len].copy_from_slice(&found[..len]);
        (address < 1 << 46).then_some(())
    };
    let acpi = Acpi::find(&reader, Some(BASE));
    assert!(read.get() < BOUND, "{}", read.get());
    assert_ne!(acpi.other_cpu(0, false), Some(0));
    if let Ok(bytes) = <[u8; LEN]>::try_from(&memory[CONFIG..CONFIG + LEN]) {
        let config = Config(bytes);
        let _ = (config.virtio(), config.interrupt_line());
        let last = config
            .msix()
            .map_or(0, |msix| usize::from(msix.capability) + 3);
        assert!(last < LEN);
        for bar in 0..=u8::MAX {
            let _ = config.memory_bar(bar);
        }
    }
    let line = String::from_utf8_lossy(&memory[CMDLINE..]);
    let options = Options::parse(&line);
    assert!((1..=64).contains(&options.batches) && options.operations > 0);
    let _ = mmio_devices(&line).count();
}

fn sound() -> Vec<u8> {
    let mut memory = vec![0; END];
    let mut put =
        |place: usize, bytes: &[u8]| memory[place..place + bytes.len()].copy_from_slice(bytes);
    let at = |place: usize| BASE + place as u64;
    put(0, b"RSD PTR ");
    put(15, &[2]);
    put(24, &at(XSDT).to_le_bytes());
    for (place, name, len) in [
        (XSDT, b"XSDT", 60_u32),
        (FADT, b"FACP", 268),
        (MADT, b"APIC", 84),
        (MCFG, b"MCFG", 60),
        (DSDT, b"DSDT", 120),
    ] {
        put(place, name);
        put(place + 4, &len.to_le_bytes());
    }
    for (place, table) in [FADT, MADT, MCFG].into_iter().enumerate() {
        put(XSDT + 36 + 8 * place, &at(table).to_le_bytes());
    }
    put(FADT + 40, &at(DSDT).to_le_bytes()[..4]);
    put(FADT + 76, &[8, 6]);
    put(MADT + 44, &[0, 8, 0, 0, 1, 0, 0, 0]);
    put(MADT + 52, &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
    put(
        MADT + 64,
        &[9, 16, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    );
    put(MCFG + 44, &[0, 0, 0, 0xb0]);
    put(DSDT + 36, b"\x08_S5_\x12\x06\x04\x0a\x05\x0a\x05\0\0");
    put(
        DSDT + 60,
        b"LNRO0005\0\x86\x09\0\x01\0\0\xb0\xfe\0\x02\0\0\x89\x06\0\x01\x01\x18\0\0\0",
    );
    put(CONFIG, &[0xf4, 0x1a, 0x44, 0x10, 7, 0, 0x10, 0]);
    put(CONFIG + 0x34, &[0x40]);
    put(CONFIG + 0x40, &[0x11, 0x50, 1, 0, 1]);
    put(CONFIG + 0x50, &[9, 0x70, 16, 1, 4, 0, 0, 0, 0, 1, 0, 0, 56]);
    put(
        CONFIG + 0x70,
        &[9, 0, 20, 2, 4, 0, 0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 4],
    );
    put(
        CMDLINE,
        b"ops=5 batches=2 only=cpuid virtio_mmio.device=4K@0xd0000000:5 ",
    );
    memory
}
