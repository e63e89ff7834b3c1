//! The device's DMA through the IOMMU.

use std::sync::Arc;

use vmbell::memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::{DmaMap, DmaSpace};

use super::{EDU, Real, alone_with_devices, read};
use crate::passthrough::double::start_dma;
use crate::passthrough::guest::{RAM, memory, memory_of};
use testbed::await_that;

const BASE: u64 = 0x10_0000;
const PIECE: u64 = 4000;
const COMMAND: u64 = 0x98;
/// The maximum number of mappings of a container that is made from now on.
const LIMIT: &str = "/sys/module/vfio_iommu_type1/parameters/dma_entry_limit";

/// Does one transfer, and waits until edu says that it is done.
fn transfer(device: &Device, address: u64, to_memory: bool) {
    start_dma(device, address, PIECE, to_memory);
    await_that("the transfer", || read(device, COMMAND) & 1 == 0);
}

fn pattern() -> Vec<u8> {
    (0..PIECE).map(|index| (index * 7) as u8).collect()
}

fn bytes(memory: &GuestMemoryMmap, address: u64) -> Vec<u8> {
    let mut data = vec![0; PIECE as usize];
    memory.read_slice(&mut data, GuestAddress(address)).unwrap();
    data
}

fn dma_goes_round_until_the_memory_is_taken_back<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let memory = memory(BASE, RAM);
    let (source, copy) = (BASE + 0x1000, BASE + RAM - 0x1000);
    memory
        .write_slice(&pattern(), GuestAddress(source))
        .unwrap();
    let map = DmaMap::new(edu.space(), &memory).unwrap();
    transfer(&edu.device, source, false);
    transfer(&edu.device, copy, true);
    assert_eq!(bytes(&memory, copy), pattern());
    drop(map);
    let blocked = BASE + 0x10_0000;
    transfer(&edu.device, blocked, true);
    assert_eq!(bytes(&memory, blocked), vec![0; PIECE as usize]);
    // The device works again with new mappings.
    let _map = DmaMap::new(edu.space(), &memory).unwrap();
    transfer(&edu.device, blocked, true);
    assert_eq!(bytes(&memory, blocked), pattern());
}

fn windows_leave_out_the_addresses_of_messages<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let iova = edu.container.iova().unwrap();
    println!("{iova}");
    assert_eq!(iova.page, 4096);
    assert!(iova.has(BASE, RAM));
    assert!(!iova.has(0xfee0_0000, 0x1000), "{iova}");
    let error = DmaMap::new(edu.space(), &memory(0xfedf_f000, 0x2000)).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::Window { .. }),
        "{error}"
    );
    // The kernel also refuses it.
    let memory = memory(0xfee0_0000, 0x1000);
    let region = memory.iter().next().unwrap();
    let error = edu.container.map(0xfee0_0000, region).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}

fn row_10_overlap_and_half_of_a_mapping_are_refused<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let regions = [(BASE, 0x10_0000), (0x40_0000, 0x10_0000)];
    let (all, other) = (memory_of(&regions), memory(0x48_0000, 0x1000));
    let taken = DmaMap::new(edu.space(), &other).unwrap();
    let error = DmaMap::new(edu.space(), &all).unwrap_err();
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
    drop(taken);
    // What was mapped before the refusal is no longer mapped.
    let map = DmaMap::new(edu.space(), &all).unwrap();
    let error = edu.container.unmap(BASE, 0x8_0000).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    drop(map);
    // Nothing is left: the range is empty.
    let error = edu.container.unmap(BASE, 0x1000).unwrap_err();
    assert_eq!(error.to_string(), "0x0 bytes of 0x1000 were mapped");
}

fn row_10_more_mappings_than_the_limit_are_refused<H: Hypervisor>(_h: &H) {
    let _alone = alone_with_devices();
    let before = std::fs::read_to_string(LIMIT).unwrap();
    std::fs::write(LIMIT, "3").unwrap();
    let edu = Real::open(EDU, None);
    std::fs::write(LIMIT, before.trim()).unwrap();
    assert_eq!(edu.container.iova().unwrap().free_entries, Some(3));
    let regions: Vec<_> = (0..4)
        .map(|index| (BASE + index * 0x10_0000, 0x1000))
        .collect();
    let error = DmaMap::new(edu.space(), &memory_of(&regions)).unwrap_err();
    let PassthroughErrorKind::Map {
        address, source, ..
    } = &error.kind
    else {
        panic!("{error}")
    };
    assert_eq!(
        (*address, source.raw_os_error()),
        (regions[3].0, Some(libc::ENOSPC))
    );
    assert_eq!(
        edu.container.iova().unwrap().free_entries,
        Some(3),
        "all are free again"
    );
    DmaMap::new(edu.space(), &memory_of(&regions[..3])).unwrap();
}

fn memory_is_let_go_of_where_the_device_was_closed_before<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let memory = memory(BASE, 0x10_0000);
    let file = memory.iter().next().unwrap().file_offset().unwrap().arc();
    let file = Arc::clone(file);
    let map = DmaMap::new(edu.space(), &memory).unwrap();
    let Real {
        device,
        container,
        _alone,
    } = edu;
    drop(device);
    drop(map);
    drop(memory);
    assert_eq!(Arc::strong_count(&file), 1, "the memory is kept");
    drop(container);
}

testbed::on_kvm! {
    dma_goes_round_until_the_memory_is_taken_back;
    windows_leave_out_the_addresses_of_messages;
    row_10_overlap_and_half_of_a_mapping_are_refused;
    row_10_more_mappings_than_the_limit_are_refused;
    memory_is_let_go_of_where_the_device_was_closed_before;
}
