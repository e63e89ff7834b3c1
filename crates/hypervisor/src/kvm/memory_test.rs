use std::sync::Arc;

use kvm_ioctls::Kvm;
use vm_memory::GuestRegionMmap;

use super::*;

const SIZE: usize = 0x1000;

fn region(base: u64) -> Arc<GuestRegionMmap> {
    Arc::new(GuestRegionMmap::from_range(GuestAddress(base), SIZE, None).unwrap())
}

#[test]
#[ignore = "needs /dev/kvm: cargo xtask lab"]
fn memory_whose_second_slot_fails_stays_mapped_as_long_as_the_vm_has_the_first() {
    let mut slots = Slots::new(Kvm::new().unwrap().create_vm().unwrap());
    slots.add(&map(0x1_0000, SIZE as u64).unwrap()).unwrap();
    let (first, overlapping) = (region(0), region(0x1_0000));
    let given = Arc::downgrade(&first);
    let memory = GuestMemoryMmap::from_arc_regions(vec![first, overlapping]).unwrap();
    slots.add(&memory).unwrap_err();
    drop(memory);
    assert!(given.upgrade().is_some());
    drop(slots);
    assert!(given.upgrade().is_none());
}
