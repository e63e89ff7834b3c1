use super::*;

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The table at an address, with the length in its header.
fn table(bytes: &[u8], address: u32) -> &[u8] {
    let table = &bytes[(address - ACPI_BASE) as usize..];
    &table[..word(table, 4) as usize]
}

/// Finds the tables as a guest does: by the signature, the root table and its entries.
fn find(bytes: &[u8], signature: &[u8; 4]) -> Vec<u8> {
    assert_eq!(bytes[..8], *b"RSD PTR ");
    let root = table(bytes, word(bytes, 16));
    assert_eq!(root[..4], *b"RSDT");
    let entries = root[36..].chunks_exact(4).map(|entry| word(entry, 0));
    let mut tables = entries.map(|address| table(bytes, address));
    let found = tables.find(|table| table[..4] == *signature);
    found.unwrap().to_vec()
}

#[test]
fn every_checksum_is_right() {
    let bytes = acpi_tables(3);
    assert_eq!(sum(&bytes[..20]), 0);
    assert_eq!(sum(table(&bytes, word(&bytes, 16))), 0);
    for signature in [b"FACP", b"APIC"] {
        assert_eq!(sum(&find(&bytes, signature)), 0, "{signature:?}");
    }
    let fadt = find(&bytes, b"FACP");
    assert_eq!(sum(table(&bytes, word(&fadt, 40))), 0, "DSDT");
}

#[test]
fn fadt_has_the_timer_port_where_acpi_1_has_it() {
    let fadt = find(&acpi_tables(1), b"FACP");
    assert_eq!(word(&fadt, 76), u32::from(PM_TIMER_PORT));
    assert_eq!(fadt[91], 4);
    let flags = word(&fadt, 112);
    assert_eq!(flags & (1 << 8), 0, "the timer has 24 bits");
}

#[test]
fn madt_has_one_local_apic_for_each_cpu() {
    let entries = |cpus| {
        let madt = find(&acpi_tables(cpus), b"APIC");
        let mut rest = &madt[44..];
        let mut ids = Vec::new();
        while let [kind, len, ..] = *rest {
            if kind == 0 {
                ids.push(rest[3]);
            }
            rest = &rest[usize::from(len)..];
        }
        ids
    };
    assert_eq!(entries(3), [0, 1, 2]);
    assert_eq!(entries(300).len(), 255, "more have no id of 8 bits");
}

#[test]
fn tables_end_before_the_code_of_the_bios() {
    assert!(acpi_tables(255).len() < 0x1_0000);
}

#[test]
fn waking_vector_is_in_the_facs_that_the_fadt_names() {
    let bytes = acpi_tables(64);
    let facs = word(&find(&bytes, b"FACP"), 36);
    assert_eq!(table(&bytes, facs)[..4], *b"FACS");
    assert_eq!(WAKING_VECTOR, facs + 12);
    assert_eq!(word(table(&bytes, facs), 12), 0, "no vector yet");
}

#[test]
fn fadt_has_the_power_management_registers_and_the_dsdt_the_sleeps() {
    let bytes = acpi_tables(1);
    let fadt = find(&bytes, b"FACP");
    assert_eq!((word(&fadt, 56), word(&fadt, 64)), (0x600, 0x604));
    assert_eq!((fadt[88], fadt[89]), (4, 2));
    assert_eq!(word(&fadt, 48), 0, "ACPI mode is always on");
    assert_eq!(fadt[108], 0x32, "the century");
    assert_eq!(
        word(&fadt, 112) & 1 << 6,
        0,
        "the clock wakes by its fixed event"
    );
    let dsdt = table(&bytes, word(&fadt, 40));
    for (name, kind) in [(b"_S3_", 1_u8), (b"_S5_", 0)] {
        let at = dsdt.windows(4).position(|bytes| bytes == name).unwrap();
        // A package of four, with its length in one byte.
        assert_eq!((dsdt[at - 1], dsdt[at + 4], dsdt[at + 6]), (0x08, 0x12, 4));
        assert_eq!(dsdt[at + 7], kind);
    }
}
