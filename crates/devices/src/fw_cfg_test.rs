use super::*;

fn read(device: &FwCfg, item: u16, len: usize) -> Vec<u8> {
    device.write(0, &item.to_le_bytes());
    let mut bytes = vec![0xaa; len];
    bytes
        .chunks_exact_mut(1)
        .for_each(|byte| device.read(1, byte));
    bytes
}

#[test]
fn cpu_count_is_item_five_as_two_bytes() {
    let device = FwCfg::new(258, 0);
    assert_eq!(read(&device, 5, 2), [2, 1]);
    assert_eq!(read(&device, 0x0f, 2), [2, 1]);
}

#[test]
fn signature_and_ram_size_are_there() {
    let device = FwCfg::new(1, 3 << 30);
    assert_eq!(read(&device, 0, 4), *b"QEMU");
    assert_eq!(read(&device, 1, 4), [1, 0, 0, 0]);
    assert_eq!(read(&device, 3, 8), (3_u64 << 30).to_le_bytes());
}

#[test]
fn unknown_items_and_the_ends_of_known_ones_read_zeros() {
    let device = FwCfg::new(7, 1);
    assert_eq!(read(&device, 0x11, 8), [0; 8]);
    assert_eq!(read(&device, 0xffff, 3), [0; 3]);
    assert_eq!(read(&device, 5, 300)[1..], [0; 299]);
}

#[test]
fn selecting_again_starts_again() {
    let device = FwCfg::new(3, 0);
    assert_eq!(read(&device, 5, 2), [3, 0]);
    assert_eq!(read(&device, 5, 1), [3]);
    device.write(0, &[9]);
    device.write(1, &[9]);
    let mut next = [0xaa];
    device.read(1, &mut next);
    assert_eq!(next, [0], "half a selector selects nothing");
}

#[test]
fn selector_port_and_wide_reads_give_zeros() {
    let device = FwCfg::new(3, 0);
    device.write(0, &5_u16.to_le_bytes());
    let mut data = [0xaa; 2];
    device.read(0, &mut data);
    assert_eq!(data, [0; 2]);
}
