//! The writes that ring after each request. The errors, in the kernel's order, are tested in
//! `tests/doorbell/abi.rs`, on KVM itself, too.

use std::{convert::Infallible, os::fd::AsRawFd};

use libc::{ENOENT, EOPNOTSUPP};
use stub::table::Table;
use vmm_sys_util::eventfd::EventFd;

use super::*;
use crate::doorbell::heap::HeapTable;

const ADDR: u64 = 0xfe00_1000;

struct Alone;

impl Barrier for Alone {
    fn wait(&self) {}
}

/// Something that takes the ioctl.
struct Vm<'t>(Doorbells<'t>);

impl<'t> Vm<'t> {
    fn new(table: &'t Table) -> Self {
        Self(Doorbells::new(table, 32))
    }

    fn ioctl(&mut self, request: KvmIoeventfd) -> Result<(), i32> {
        let signal = || Ok::<_, Infallible>(0);
        let request = request.parse().map_err(|error| error.errno())?;
        match request.apply(&mut self.0, signal, &Alone) {
            Ok(_) => Ok(()),
            Err(RegisterError::Doorbell(error)) => Err(error.errno()),
            Err(RegisterError::Signal(never)) => match never {},
        }
    }

    /// Whether a write rings.
    fn rings(&self, address: IoEventAddress, len: u32, value: u64) -> bool {
        let table = self.0.table();
        let signals = table.lookup(address.kind(), address.value(), len, value);
        !signals.is_empty()
    }
}

fn wildcard(event: &EventFd, len: u32) -> KvmIoeventfd {
    KvmIoeventfd {
        addr: ADDR,
        len,
        fd: event.as_raw_fd(),
        ..Default::default()
    }
}

fn datamatch(event: &EventFd, len: u32, datamatch: u64) -> KvmIoeventfd {
    KvmIoeventfd {
        datamatch,
        flags: FLAG_DATAMATCH,
        ..wildcard(event, len)
    }
}

fn deassign(request: KvmIoeventfd) -> KvmIoeventfd {
    KvmIoeventfd {
        flags: request.flags | FLAG_DEASSIGN,
        ..request
    }
}

fn with(request: KvmIoeventfd, change: impl FnOnce(&mut KvmIoeventfd)) -> KvmIoeventfd {
    let mut request = request;
    change(&mut request);
    request
}

/// A VM and two eventfds.
fn bench<R>(test: impl FnOnce(&mut Vm<'_>, &EventFd, &EventFd) -> R) -> R {
    let table = HeapTable::new();
    let (one, two) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
    test(&mut Vm::new(&table), &one, &two)
}

#[test]
fn the_struct_is_the_kernels_64_bytes() {
    assert_eq!(size_of::<KvmIoeventfd>(), 64);
}

#[test]
fn request_says_which_signal_a_removal_has_freed() {
    let table = HeapTable::new();
    let mut doorbells = Doorbells::new(&table, 32);
    let event = EventFd::new(0).unwrap();
    let mut apply = |request: KvmIoeventfd| {
        let request = request.parse().unwrap();
        let applied = request.apply(&mut doorbells, || Ok::<_, Infallible>(7), &Alone);
        applied.unwrap()
    };
    assert_eq!(apply(wildcard(&event, 4)), None);
    assert_eq!(apply(deassign(wildcard(&event, 4))), Some(7));
}

#[test]
fn row_2_last_address_is_good_for_length_0() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 0), |r| r.addr = u64::MAX);
        assert_eq!(vm.ioctl(request), Ok(()));
        assert!(vm.rings(IoEventAddress::Mmio(u64::MAX), 1, 0));
    });
}

#[test]
fn row_8_thousands_of_registrations_succeed() {
    bench(|vm, one, _| {
        for addr in 0..5_000 {
            let request = with(wildcard(one, 4), |r| r.addr = addr * 4);
            assert_eq!(vm.ioctl(request), Ok(()));
        }
        assert!(vm.rings(IoEventAddress::Mmio(4_999 * 4), 4, 0));
    });
}

#[test]
fn pio_and_mmio_are_apart() {
    bench(|vm, one, two| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        let pio = with(wildcard(two, 4), |r| r.flags = FLAG_PIO);
        assert_eq!(vm.ioctl(pio), Ok(()));
        assert_eq!(vm.ioctl(deassign(wildcard(one, 4))), Ok(()));
        assert!(vm.rings(IoEventAddress::Pio(ADDR), 4, 0));
        assert!(!vm.rings(IoEventAddress::Mmio(ADDR), 4, 0));
    });
}

#[test]
fn pio_wins_over_ccw_and_ccw_alone_is_refused() {
    bench(|vm, one, _| {
        let both = FLAG_PIO | FLAG_VIRTIO_CCW_NOTIFY;
        let request = with(wildcard(one, 4), |r| r.flags = both);
        assert_eq!(vm.ioctl(request), Ok(()));
        assert!(vm.rings(IoEventAddress::Pio(ADDR), 4, 0));
        let request = with(wildcard(one, 4), |r| r.flags = FLAG_VIRTIO_CCW_NOTIFY);
        assert_eq!(vm.ioctl(request), Err(EOPNOTSUPP));
    });
}

#[test]
fn port_above_16_bits_is_accepted() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 4), |r| {
            (r.addr, r.flags) = (0x1_0000, FLAG_PIO);
        });
        assert_eq!(vm.ioctl(request), Ok(()));
        assert!(!vm.rings(IoEventAddress::Pio(0), 4, 0));
    });
}

#[test]
fn datamatch_wider_than_its_length_is_accepted_and_never_hit() {
    bench(|vm, one, _| {
        assert_eq!(vm.ioctl(datamatch(one, 2, 0x1_0005)), Ok(()));
        assert!(!vm.rings(IoEventAddress::Mmio(ADDR), 2, 0x0005));
        assert_eq!(vm.ioctl(deassign(datamatch(one, 2, 0x1_0005))), Ok(()));
    });
}

#[test]
fn write_of_the_wrong_width_misses_and_of_the_right_one_hits() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 2)).unwrap();
        let rings = [1, 2, 4, 8].map(|len| vm.rings(IoEventAddress::Mmio(ADDR), len, 0));
        assert_eq!(rings, [false, true, false, false]);
    });
}

#[test]
fn write_beside_the_address_misses() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 0)).unwrap();
        assert!(!vm.rings(IoEventAddress::Mmio(ADDR + 1), 1, 0));
        assert!(!vm.rings(IoEventAddress::Mmio(ADDR - 1), 2, 0));
    });
}

#[test]
fn deassign_of_anything_but_the_same_is_enoent() {
    bench(|vm, one, two| {
        vm.ioctl(datamatch(one, 4, 1)).unwrap();
        for other in [
            datamatch(two, 4, 1),
            datamatch(one, 4, 2),
            datamatch(one, 2, 1),
            wildcard(one, 4),
            with(datamatch(one, 4, 1), |r| r.addr += 4),
            with(datamatch(one, 4, 1), |r| r.flags |= FLAG_PIO),
        ] {
            assert_eq!(vm.ioctl(deassign(other)), Err(ENOENT));
        }
        assert!(vm.rings(IoEventAddress::Mmio(ADDR), 4, 1));
    });
}

#[test]
fn deassign_by_a_duplicate_works() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        let duplicate = one.try_clone().unwrap();
        assert_eq!(vm.ioctl(deassign(wildcard(&duplicate, 4))), Ok(()));
        assert!(!vm.rings(IoEventAddress::Mmio(ADDR), 4, 0));
    });
}

#[test]
fn assign_after_deassign_delivers() {
    bench(|vm, one, two| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        vm.ioctl(deassign(wildcard(one, 4))).unwrap();
        assert_eq!(vm.ioctl(wildcard(two, 4)), Ok(()));
        assert!(vm.rings(IoEventAddress::Mmio(ADDR), 4, 0));
    });
}
