//! Access to the BAR through configuration space (virtio 1.3, 4.1.4.9).

use super::*;
use vmbell_virtqueue::{Buffer, Features, SplitDriver, brand};

/// Chooses a place and returns the offset of the data.
fn choose(pc: &mut Pc, bar: u64, offset: u64, len: u64) -> u64 {
    let window = pc.window();
    pc.configure(window + 4, 1, bar);
    pc.configure(window + 8, 4, offset);
    pc.configure(window + 12, 4, len);
    window + 16
}

#[test]
fn the_common_configuration_is_read_and_written_through_the_window() {
    let mut pc = Pc::plain();
    let data = choose(&mut pc, 0, STATUS, 1);
    pc.configure(data, 1, 1);
    assert_eq!(pc.get(STATUS, 1), 1);
    assert_eq!(pc.config(data, 1), 1);
    let data = choose(&mut pc, 0, 18, 2);
    assert_eq!(pc.config(data, 2), u64::from(QUEUES));
    assert_eq!(pc.config(data, 4), u64::from(QUEUES), "wider than chosen");
    let data = choose(&mut pc, 0, 4, 4);
    assert_eq!(pc.config(data, 4), 0x3000_0000);
}

#[test]
fn a_place_that_is_none_reads_zeros_and_takes_nothing() {
    let mut pc = Pc::plain();
    for (bar, offset, len) in [
        (1, STATUS, 1),
        (0, STATUS, 0),
        (0, STATUS, 3),
        (0, STATUS, 8),
        (0, STATUS + 1, 2),
        (0, 0x6000, 4),
        (0, 0xffff_fffc, 4),
    ] {
        let data = choose(&mut pc, bar, offset, len);
        pc.configure(data, 4, 1);
        assert_eq!(pc.config(data, 4), 0, "{bar} {offset:#x} {len}");
        assert_eq!(pc.get(STATUS, 1), 0);
    }
}

#[test]
fn notifications_at_ports_are_reached_through_the_window() {
    for (has_ports, bar) in [(true, 1), (true, 0), (false, 1), (true, 7)] {
        let mut pc = Pc::new(VirtioConfig {
            notify: Notify::Exit,
            notify_ports: has_ports,
            ..VirtioConfig::default()
        });
        let layout = SplitLayout::contiguous(0, 8);
        pc.negotiate();
        assert!(pc.set_up(0, &layout, 0xffff));
        pc.go_live();
        brand::scoped(|brand| {
            let memory = &pc.memory.clone();
            let mut driver =
                SplitDriver::new(&memory, &layout, Features::default(), brand).unwrap();
            driver.add(&[Buffer::new(0x8000, 4)], &[], ()).unwrap();
            let data = choose(&mut pc, bar, 0, 2);
            pc.configure(data, 2, 0);
            assert_eq!(pc.config(data, 2), 0);
            let is_served = driver.get_used().unwrap().is_some();
            assert_eq!(is_served, has_ports && bar == 1, "{has_ports} {bar}");
        });
    }
}

#[test]
fn an_access_beside_the_data_goes_nowhere() {
    let mut pc = Pc::plain();
    let data = choose(&mut pc, 0, STATUS, 1);
    pc.configure(data + 1, 1, 1);
    assert_eq!(pc.get(STATUS, 1), 0);
    let data = choose(&mut pc, 0, 4, 4);
    assert_eq!(pc.config(data, 2), 0, "narrower than chosen");
}

#[test]
fn reading_all_of_configuration_space_changes_nothing() {
    let mut pc = Pc::plain();
    pc.set(STATUS, 1, 1);
    for register in 0..256 {
        pc.config(register, 1);
    }
    assert_eq!(pc.get(STATUS, 1), 1);
}
