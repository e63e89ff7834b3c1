use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Returns how often these writes to offsets of a device reset the machine.
fn resets<D: BusDevice>(make: impl Fn(&'static AtomicU32) -> D, writes: &[(u64, u8)]) -> u32 {
    let count: &'static AtomicU32 = Box::leak(Box::default());
    let device = make(count);
    for (offset, byte) in writes {
        device.write(*offset, &[*byte]);
    }
    count.load(Ordering::Relaxed)
}

fn controller(writes: &[(u64, u8)]) -> u32 {
    let make = |count: &'static AtomicU32| {
        I8042::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    };
    resets(make, writes)
}

fn read(device: &dyn BusDevice, offset: u64) -> u8 {
    let mut data = [0xaa];
    device.read(offset, &mut data);
    data[0]
}

#[test]
fn pulses_of_bit_0_reset_and_others_do_not() {
    assert_eq!(controller(&[(COMMAND, 0xfe)]), 1);
    assert_eq!(controller(&[(COMMAND, 0xf0)]), 1);
    assert_eq!(controller(&[(COMMAND, 0xff), (COMMAND, 0xfd)]), 0);
    assert_eq!(controller(&[(COMMAND, 0xae), (COMMAND, 0x20)]), 0);
    assert_eq!(controller(&[(DATA, 0xfe)]), 0, "data is not a command");
    assert_eq!(controller(&[(1, 0xfe), (3, 0xfe), (u64::MAX, 0xfe)]), 0);
}

#[test]
fn output_port_without_its_bit_0_resets() {
    assert_eq!(controller(&[(COMMAND, 0xd1), (DATA, 0xde)]), 1);
    assert_eq!(controller(&[(COMMAND, 0xd1), (DATA, 0xdf)]), 0);
    let once = [(COMMAND, 0xd1), (DATA, 0xdf), (DATA, 0xde)];
    assert_eq!(controller(&once), 0, "the next byte is data again");
}

#[test]
fn controller_is_always_ready_and_gives_its_output_port_once() {
    let controller = I8042::new(|| panic!("no reset"));
    assert_eq!(read(&controller, COMMAND) & 3, 0);
    controller.write(COMMAND, &[0xd0]);
    assert_eq!(read(&controller, COMMAND) & 3, OUTPUT_FULL);
    assert_eq!(read(&controller, DATA), 3, "line 20 is on");
    assert_eq!(read(&controller, COMMAND) & 3, 0);
    assert_eq!(read(&controller, DATA), 0);
    assert_eq!(read(&controller, 1), 0xff, "a port of another device");
}

#[test]
fn port_a_resets_by_bit_0_and_keeps_line_20_on() {
    let make = |count: &'static AtomicU32| {
        PortA::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    };
    assert_eq!(resets(make, &[(0, 0x00), (0, 0x02), (0, 0xfe)]), 0);
    assert_eq!(resets(make, &[(0, 0x01), (0, 0x03)]), 2);
    let port = PortA::new(|| panic!("no reset"));
    port.write(0, &[0]);
    assert_eq!(read(&port, 0), 2);
    port.write(0, &[1, 0]);
}

/// Returns how often these writes switch a machine off.
fn offs(writes: &[&[u8]]) -> u32 {
    let offs = AtomicU32::new(0);
    let port = ShutdownPort::new(|| {
        offs.fetch_add(1, Ordering::Relaxed);
    });
    writes.iter().for_each(|data| port.write(0, data));
    offs.load(Ordering::Relaxed)
}

#[test]
fn word_switches_off_however_it_is_cut() {
    let letters: Vec<&[u8]> = WORD.chunks(1).collect();
    assert_eq!(offs(&letters), 1);
    assert_eq!(offs(&[b"Shut", b"down"]), 1);
    assert_eq!(offs(&[b"ShutShutdown"]), 1);
    assert_eq!(offs(&[b"Shutdow", b"nShutdown"]), 2);
}

#[test]
fn anything_else_does_not() {
    assert_eq!(offs(&[b"Shutdow", b"N"]), 0);
    assert_eq!(offs(&[b"Suhtdown", b"hutdown"]), 0);
    assert_eq!(offs(&[]), 0);
}
