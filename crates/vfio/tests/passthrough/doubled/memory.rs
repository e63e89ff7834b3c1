//! Guest memory for the device: where it is mapped, and what is refused.

use std::sync::Arc;

use vmbell::memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Hypervisor, VmConfig};
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::dma::{DmaMap, DmaSpace};
use vmbell_vfio::placed::Handover;

use super::Doubled;
use crate::passthrough::double::{Edu, Space, start_dma};
use crate::passthrough::guest::{Guest, RAM, memory_of};
use testbed::AREA;

const PIECE: u64 = 4000;

fn device_reaches_all_memory_of_its_guest_and_nothing_else<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Irqfd, true);
    let (vm, device) = (doubled.guest.machine.vm(), doubled.device());
    let memory = vm.memory();
    let pattern: Vec<u8> = (0..PIECE).map(|index| (index * 7) as u8).collect();
    let base = VmConfig::default().ram_base;
    let last = base + RAM - PIECE;
    memory.write_slice(&pattern, GuestAddress(AREA)).unwrap();
    start_dma(device, AREA, PIECE, false);
    start_dma(device, last, PIECE, true);
    let mut copy = vec![0; PIECE as usize];
    memory.read_slice(&mut copy, GuestAddress(last)).unwrap();
    assert_eq!(copy, pattern);
    assert_eq!(doubled.space.mapped(), [(base, RAM)]);
    assert!(!doubled.space.write(last + 1, &pattern), "over the end");
    // Nothing is read, so the buffer keeps its contents.
    start_dma(device, base - 0x1000, PIECE, false);
    start_dma(device, AREA + 0x1000, PIECE, true);
    memory
        .read_slice(&mut copy, GuestAddress(AREA + 0x1000))
        .unwrap();
    assert_eq!(copy, pattern);
}

fn device_that_is_taken_out_reaches_nothing<H: Hypervisor>(h: &H) {
    let Doubled {
        placed,
        guest,
        edu,
        space,
    } = Doubled::new(h, Handover::Irqfd, true);
    drop(placed);
    assert_eq!(space.mapped(), []);
    let device = edu.open();
    start_dma(&device, AREA, 8, true);
    let word: u64 = guest
        .machine
        .vm()
        .memory()
        .read_obj(GuestAddress(AREA))
        .unwrap();
    assert_eq!(word, 0);
}

fn memory_outside_of_the_windows_is_refused<H: Hypervisor>(h: &H) {
    let base = VmConfig::default().ram_base;
    // No window, a window that ends a page too soon, one that begins inside RAM, and two with a gap inside RAM.
    let half = base + RAM / 2;
    for windows in [
        vec![],
        vec![0..=base + RAM - 0x1001],
        vec![base + 0x1000..=u64::MAX],
        vec![0..=half - 1, half + 0x1000..=u64::MAX],
    ] {
        let (edu, space) = (Edu::pci(), Space::with_windows(windows));
        let device = edu.open();
        let guest = Guest::new(h, &device, &[]);
        let dma = Arc::clone(&space) as Arc<dyn DmaSpace>;
        let error = guest.put(&device, &dma, &[], &[]).map(drop).unwrap_err();
        let PassthroughErrorKind::Window {
            address,
            size,
            windows,
        } = &error.kind
        else {
            panic!("{error}")
        };
        assert_eq!((*address, *size), (base, RAM));
        assert_eq!(*windows, space.iova().unwrap().to_string());
        assert_eq!(space.mapped(), []);
    }
}

#[test]
fn memory_that_cannot_be_mapped_leaves_none_mapped() {
    let regions = [
        (0x10_0000, 0x10_0000),
        (0x40_0000, 0x10_0000),
        (0x80_0000, 0x1000),
    ];
    let memory = memory_of(&regions);
    let space = Space::new();
    let other = memory_of(&[(0x48_0000, 0x1000)]);
    let taken = DmaMap::new(Arc::clone(&space) as _, &other).unwrap();
    let error = DmaMap::new(Arc::clone(&space) as _, &memory).unwrap_err();
    let PassthroughErrorKind::Map {
        address, source, ..
    } = &error.kind
    else {
        panic!("{error}")
    };
    assert_eq!(
        (*address, source.raw_os_error()),
        (0x40_0000, Some(libc::EEXIST))
    );
    assert_eq!(
        space.mapped(),
        [(0x48_0000, 0x1000)],
        "what was there before"
    );
    drop(taken);
    let mapped = DmaMap::new(Arc::clone(&space) as _, &memory).unwrap();
    assert_eq!(space.mapped(), regions);
    drop(mapped);
    assert_eq!(space.mapped(), []);
}

testbed::on_both! {
    device_reaches_all_memory_of_its_guest_and_nothing_else;
    device_that_is_taken_out_reaches_nothing;
    memory_outside_of_the_windows_is_refused;
}
