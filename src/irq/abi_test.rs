//! Each way in which `KVM_IRQFD` says no, and which it says first.

use std::fs::File;
use std::os::fd::AsRawFd;

use libc::{EBADF, EINVAL};
use vmm_sys_util::eventfd::EventFd;

use super::*;

const CLOSED: RawFd = 1 << 28;

fn errno(request: KvmIrqfd, below: Below) -> i32 {
    request
        .parse(below)
        .map_or_else(|error| error.errno(), |_| 0)
}

fn request(fd: RawFd) -> KvmIrqfd {
    KvmIrqfd {
        fd,
        gsi: 24,
        ..KvmIrqfd::default()
    }
}

#[test]
fn the_struct_is_the_kernels_32_bytes() {
    assert_eq!(size_of::<KvmIrqfd>(), 32);
}

#[test]
fn unknown_flag_is_einval_before_anything_else() {
    let bad = KvmIrqfd {
        flags: 4,
        ..request(CLOSED)
    };
    assert_eq!(errno(bad, Below::All), EINVAL);
    let removal = KvmIrqfd {
        flags: 4 | FLAG_DEASSIGN,
        ..request(CLOSED)
    };
    assert_eq!(errno(removal, Below::All), EINVAL);
}

#[test]
fn guest_without_interrupt_controller_is_einval_before_the_descriptor_is_looked_at() {
    assert_eq!(errno(request(CLOSED), Below::Nothing), EINVAL);
    assert_eq!(errno(request(CLOSED), Below::Lapics), EBADF);
}

#[test]
fn resampling_with_a_split_irqchip_is_einval() {
    let event = EventFd::new(0).unwrap();
    let resample = KvmIrqfd {
        flags: FLAG_RESAMPLE,
        resamplefd: event.as_raw_fd(),
        ..request(CLOSED)
    };
    assert_eq!(errno(resample, Below::Lapics), EINVAL);
    assert_eq!(errno(resample, Below::All), EBADF);
}

#[test]
fn closed_descriptor_is_ebadf_and_a_file_is_einval_for_both_descriptors() {
    let (event, file) = (EventFd::new(0).unwrap(), File::open("/dev/null").unwrap());
    for (bad, expected) in [(CLOSED, EBADF), (file.as_raw_fd(), EINVAL)] {
        assert_eq!(errno(request(bad), Below::All), expected);
        let resample = KvmIrqfd {
            flags: FLAG_RESAMPLE,
            resamplefd: bad,
            ..request(event.as_raw_fd())
        };
        assert_eq!(errno(resample, Below::All), expected);
        let removal = KvmIrqfd {
            flags: FLAG_DEASSIGN,
            ..request(bad)
        };
        assert_eq!(errno(removal, Below::All), expected);
    }
}

#[test]
fn resamplefd_is_looked_at_only_if_the_flag_says_so() {
    let event = EventFd::new(0).unwrap();
    let unused = KvmIrqfd {
        resamplefd: CLOSED,
        ..request(event.as_raw_fd())
    };
    assert_eq!(unused.parse(Below::All).unwrap().resample, None);
    let removal = KvmIrqfd {
        flags: FLAG_DEASSIGN | FLAG_RESAMPLE,
        ..unused
    };
    assert!(removal.parse(Below::All).unwrap().deassign);
}

#[test]
fn gsi_that_leads_nowhere_is_good() {
    let event = EventFd::new(0).unwrap();
    let nowhere = KvmIrqfd {
        gsi: u32::MAX,
        ..request(event.as_raw_fd())
    };
    assert_eq!(nowhere.parse(Below::All).unwrap().gsi, u32::MAX);
}

#[test]
fn duplicate_descriptor_names_the_same_irqfd() {
    let event = EventFd::new(0).unwrap();
    let same = event.try_clone().unwrap();
    let of = |event: &EventFd| request(event.as_raw_fd()).parse(Below::All).unwrap().event;
    assert_eq!(of(&event), of(&same));
}
