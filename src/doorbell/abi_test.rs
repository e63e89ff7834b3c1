//! The rows of the kernel's error list, in its order, and the rules of removal.

use std::{convert::Infallible, fs::File, os::fd::AsRawFd};

use libc::{EBADF, EEXIST, EINVAL, ENOENT, EOPNOTSUPP};
use stub::table::Table;
use vmm_sys_util::eventfd::EventFd;

use super::*;
use crate::doorbell::heap::HeapTable;

const ADDR: u64 = 0xfe00_1000;
const CLOSED: RawFd = 1 << 28;

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
fn row_1_length_that_is_no_power_of_two_up_to_eight_is_einval() {
    bench(|vm, one, _| {
        for len in [3, 5, 6, 7, 9, 16, 1 << 31, u32::MAX] {
            assert_eq!(vm.ioctl(wildcard(one, len)), Err(EINVAL));
        }
    });
}

#[test]
fn row_1_bad_length_with_bad_descriptor_is_einval() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 3), |r| r.fd = CLOSED);
        assert_eq!(vm.ioctl(request), Err(EINVAL));
    });
}

#[test]
fn row_2_range_that_wraps_is_einval() {
    bench(|vm, one, _| {
        for (addr, len) in [(u64::MAX, 1), (u64::MAX - 3, 4), (u64::MAX - 1, 8)] {
            let request = with(wildcard(one, len), |r| r.addr = addr);
            assert_eq!(vm.ioctl(request), Err(EINVAL));
        }
    });
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
fn row_2_range_that_wraps_with_bad_descriptor_is_einval() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 1), |r| (r.addr, r.fd) = (u64::MAX, CLOSED));
        assert_eq!(vm.ioctl(request), Err(EINVAL));
    });
}

#[test]
fn row_3_unknown_flag_is_einval() {
    bench(|vm, one, _| {
        for bit in 4..32 {
            let request = with(wildcard(one, 4), |r| r.flags |= 1 << bit);
            assert_eq!(vm.ioctl(request), Err(EINVAL));
        }
    });
}

#[test]
fn row_3_unknown_flag_with_bad_descriptor_is_einval() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 4), |r| (r.flags, r.fd) = (16, CLOSED));
        assert_eq!(vm.ioctl(request), Err(EINVAL));
    });
}

#[test]
fn row_4_datamatch_of_no_length_is_einval() {
    bench(|vm, one, _| {
        assert_eq!(vm.ioctl(datamatch(one, 0, 0)), Err(EINVAL));
        let request = with(datamatch(one, 0, 0), |r| r.fd = CLOSED);
        assert_eq!(vm.ioctl(request), Err(EINVAL));
    });
}

#[test]
fn row_5_descriptor_that_is_not_open_is_ebadf() {
    bench(|vm, one, _| {
        for fd in [-1, CLOSED] {
            let request = with(wildcard(one, 4), |r| r.fd = fd);
            assert_eq!(vm.ioctl(request), Err(EBADF));
            assert_eq!(vm.ioctl(deassign(request)), Err(EBADF));
        }
    });
}

#[test]
fn row_5_descriptor_that_is_no_eventfd_is_einval() {
    let file = File::open("/dev/null").unwrap();
    bench(|vm, one, _| {
        let request = with(wildcard(one, 4), |r| r.fd = file.as_raw_fd());
        assert_eq!(vm.ioctl(request), Err(EINVAL));
        assert_eq!(vm.ioctl(deassign(request)), Err(EINVAL));
    });
}

#[test]
fn row_5_bad_descriptor_where_somebody_is_already_is_ebadf() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        let request = with(wildcard(one, 4), |r| r.fd = CLOSED);
        assert_eq!(vm.ioctl(request), Err(EBADF));
    });
}

#[test]
fn row_7_wildcard_excludes_its_length() {
    bench(|vm, one, two| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        assert_eq!(vm.ioctl(wildcard(two, 4)), Err(EEXIST));
        assert_eq!(vm.ioctl(wildcard(one, 4)), Err(EEXIST));
        assert_eq!(vm.ioctl(datamatch(two, 4, 1)), Err(EEXIST));
    });
}

#[test]
fn row_7_datamatch_excludes_wildcards_and_its_own_value() {
    bench(|vm, one, two| {
        vm.ioctl(datamatch(one, 4, 1)).unwrap();
        assert_eq!(vm.ioctl(wildcard(two, 4)), Err(EEXIST));
        assert_eq!(vm.ioctl(datamatch(two, 4, 1)), Err(EEXIST));
        assert_eq!(vm.ioctl(datamatch(two, 4, 2)), Ok(()));
    });
}

#[test]
fn row_7_four_lengths_stay_together() {
    bench(|vm, one, _| {
        for len in [1, 2, 4, 8] {
            assert_eq!(vm.ioctl(wildcard(one, len)), Ok(()));
        }
        for len in [1, 2, 4, 8] {
            assert_eq!(vm.ioctl(wildcard(one, len)), Err(EEXIST));
        }
    });
}

#[test]
fn row_7_length_0_excludes_all_lengths_in_both_orders() {
    for len in [0, 1, 2, 4, 8] {
        bench(|vm, one, two| {
            vm.ioctl(wildcard(one, 0)).unwrap();
            assert_eq!(vm.ioctl(wildcard(two, len)), Err(EEXIST));
        });
        bench(|vm, one, two| {
            vm.ioctl(wildcard(one, len)).unwrap();
            assert_eq!(vm.ioctl(wildcard(two, 0)), Err(EEXIST));
        });
    }
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
fn pad_is_never_looked_at() {
    bench(|vm, one, _| {
        let request = with(wildcard(one, 4), |r| r.pad = [0xff; 36]);
        assert_eq!(vm.ioctl(request), Ok(()));
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
fn deassign_twice_is_enoent() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        assert_eq!(vm.ioctl(deassign(wildcard(one, 4))), Ok(()));
        assert_eq!(vm.ioctl(deassign(wildcard(one, 4))), Err(ENOENT));
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
fn deassign_of_what_could_never_be_assigned_is_enoent() {
    bench(|vm, one, _| {
        let wraps = with(wildcard(one, 1), |r| r.addr = u64::MAX);
        for bad in [wildcard(one, 3), datamatch(one, 0, 0), wraps] {
            assert_eq!(vm.ioctl(deassign(bad)), Err(ENOENT));
        }
    });
}

#[test]
fn deassign_ignores_unknown_flags() {
    bench(|vm, one, _| {
        vm.ioctl(wildcard(one, 4)).unwrap();
        let request = with(deassign(wildcard(one, 4)), |r| r.flags |= 1 << 31);
        assert_eq!(vm.ioctl(request), Ok(()));
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

#[test]
fn one_eventfd_serves_many_addresses() {
    bench(|vm, one, _| {
        for addr in 0..64 {
            let request = with(wildcard(one, 1), |r| r.addr = addr);
            assert_eq!(vm.ioctl(request), Ok(()));
        }
    });
}
