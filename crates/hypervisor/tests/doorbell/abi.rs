//! KVM's rules for registrations: the errno for each bad request. The same tests run on [`DoorbellSet`] and KVM itself.

use std::os::fd::AsRawFd;

use kvm_bindings::{
    kvm_ioeventfd, kvm_ioeventfd_flag_nr_datamatch, kvm_ioeventfd_flag_nr_deassign,
    kvm_ioeventfd_flag_nr_pio,
};
use kvm_ioctls::VmFd;
use libc::{EEXIST, EINVAL, EIO, ENOENT};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use vmbell::doorbell::{DoorbellSet, IoEventAddress, Pattern, RegisterError, Sharing};
use vmm_sys_util::eventfd::EventFd;

const ADDR: u64 = 0xfe00_1000;

/// A registration or a removal.
#[derive(Clone, Copy, Debug)]
struct Request<'e> {
    event: &'e EventFd,
    address: IoEventAddress,
    pattern: Pattern,
    deassign: bool,
}

impl Request<'_> {
    fn deassign(self) -> Self {
        Self {
            deassign: true,
            ..self
        }
    }

    fn at(self, address: u64) -> Self {
        Self {
            address: IoEventAddress::Mmio(address),
            ..self
        }
    }
}

/// What the tests send their requests to.
trait Target {
    /// Runs a test on a new target.
    fn with_new(test: impl FnOnce(&mut Vm<'_>));
}

/// Answers a request, or refuses it with an errno.
struct Vm<'v>(&'v mut dyn FnMut(&Request<'_>) -> Result<(), i32>);

impl Vm<'_> {
    fn request(&mut self, request: Request<'_>) -> Result<(), i32> {
        (self.0)(&request)
    }
}

/// The library's doorbell set.
struct Library;

impl Target for Library {
    fn with_new(test: impl FnOnce(&mut Vm<'_>)) {
        let set = DoorbellSet::new();
        test(&mut Vm(&mut |request| {
            let Request {
                event,
                address,
                pattern,
                deassign,
            } = *request;
            if deassign {
                let removed = set.unregister(event, address, pattern);
                return removed.map_err(|error| error.errno());
            }
            let registered = set.register(event, address, pattern, Sharing::Exclusive);
            registered.map_err(|error| match error {
                RegisterError::Doorbell(error) => error.errno(),
                RegisterError::Signal(error) => panic!("cannot duplicate an eventfd: {error}"),
            })
        }));
    }
}

/// KVM itself.
struct Kernel;

impl Target for Kernel {
    fn with_new(test: impl FnOnce(&mut Vm<'_>)) {
        let vm = kvm_ioctls::Kvm::new().unwrap().create_vm().unwrap();
        test(&mut Vm(&mut |request| ioctl(&vm, request)));
    }
}

#[allow(unsafe_code)]
fn ioctl(vm: &VmFd, request: &Request<'_>) -> Result<(), i32> {
    const KVM_IOEVENTFD: libc::Ioctl = 0x4040_ae79;
    let flag = |is_set, number| u32::from(is_set) << number;
    let Request {
        event,
        address,
        pattern,
        deassign,
    } = request;
    let is_pio = matches!(address, IoEventAddress::Pio(_));
    let argument = kvm_ioeventfd {
        datamatch: pattern.value.unwrap_or_default(),
        addr: address.value(),
        len: pattern.len,
        fd: event.as_raw_fd(),
        flags: flag(pattern.value.is_some(), kvm_ioeventfd_flag_nr_datamatch)
            | flag(is_pio, kvm_ioeventfd_flag_nr_pio)
            | flag(*deassign, kvm_ioeventfd_flag_nr_deassign),
        ..kvm_ioeventfd::default()
    };
    // SAFETY: `vm` is open, and `argument` is the structure that the call reads.
    match unsafe { libc::ioctl(vm.as_raw_fd(), KVM_IOEVENTFD, &raw const argument) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// Runs a test with a target and two eventfds.
fn bench<T: Target>(test: impl FnOnce(&mut Vm<'_>, &EventFd, &EventFd)) {
    let (one, two) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
    T::with_new(|vm| test(vm, &one, &two));
}

fn request(event: &EventFd, len: u32, value: Option<u64>) -> Request<'_> {
    Request {
        event,
        address: IoEventAddress::Mmio(ADDR),
        pattern: Pattern { len, value },
        deassign: false,
    }
}

fn wildcard(event: &EventFd, len: u32) -> Request<'_> {
    request(event, len, None)
}

fn datamatch(event: &EventFd, len: u32, value: u64) -> Request<'_> {
    request(event, len, Some(value))
}

fn row_1_length_that_is_no_power_of_two_up_to_eight_is_einval<T: Target>() {
    bench::<T>(|vm, one, _| {
        for len in [3, 5, 6, 7, 9, 16, 1 << 31, u32::MAX] {
            assert_eq!(vm.request(wildcard(one, len)), Err(EINVAL));
        }
    });
}

fn row_2_range_that_wraps_is_einval<T: Target>() {
    bench::<T>(|vm, one, _| {
        for (addr, len) in [(u64::MAX, 1), (u64::MAX - 3, 4), (u64::MAX - 1, 8)] {
            assert_eq!(vm.request(wildcard(one, len).at(addr)), Err(EINVAL));
        }
    });
}

fn row_4_datamatch_of_no_length_is_einval<T: Target>() {
    bench::<T>(|vm, one, _| {
        assert_eq!(vm.request(datamatch(one, 0, 0)), Err(EINVAL));
    });
}

fn row_7_wildcard_excludes_its_length<T: Target>() {
    bench::<T>(|vm, one, two| {
        vm.request(wildcard(one, 4)).unwrap();
        assert_eq!(vm.request(wildcard(two, 4)), Err(EEXIST));
        assert_eq!(vm.request(wildcard(one, 4)), Err(EEXIST));
        assert_eq!(vm.request(datamatch(two, 4, 1)), Err(EEXIST));
    });
}

fn row_7_datamatch_excludes_wildcards_and_its_own_value<T: Target>() {
    bench::<T>(|vm, one, two| {
        vm.request(datamatch(one, 4, 1)).unwrap();
        assert_eq!(vm.request(wildcard(two, 4)), Err(EEXIST));
        assert_eq!(vm.request(datamatch(two, 4, 1)), Err(EEXIST));
        assert_eq!(vm.request(datamatch(two, 4, 2)), Ok(()));
    });
}

fn row_7_four_lengths_stay_together<T: Target>() {
    bench::<T>(|vm, one, _| {
        for len in [1, 2, 4, 8] {
            assert_eq!(vm.request(wildcard(one, len)), Ok(()));
        }
        for len in [1, 2, 4, 8] {
            assert_eq!(vm.request(wildcard(one, len)), Err(EEXIST));
        }
    });
}

fn row_7_length_0_excludes_all_lengths_in_both_orders<T: Target>() {
    for len in [0, 1, 2, 4, 8] {
        bench::<T>(|vm, one, two| {
            vm.request(wildcard(one, 0)).unwrap();
            assert_eq!(vm.request(wildcard(two, len)), Err(EEXIST));
        });
        bench::<T>(|vm, one, two| {
            vm.request(wildcard(one, len)).unwrap();
            assert_eq!(vm.request(wildcard(two, 0)), Err(EEXIST));
        });
    }
}

fn deassign_twice_is_enoent<T: Target>() {
    bench::<T>(|vm, one, _| {
        vm.request(wildcard(one, 4)).unwrap();
        assert_eq!(vm.request(wildcard(one, 4).deassign()), Ok(()));
        assert_eq!(vm.request(wildcard(one, 4).deassign()), Err(ENOENT));
    });
}

fn deassign_of_what_could_never_be_assigned_is_enoent<T: Target>() {
    bench::<T>(|vm, one, _| {
        let wraps = wildcard(one, 1).at(u64::MAX);
        for bad in [wildcard(one, 3), datamatch(one, 0, 0), wraps] {
            assert_eq!(vm.request(bad.deassign()), Err(ENOENT));
        }
    });
}

fn one_eventfd_serves_many_addresses<T: Target>() {
    bench::<T>(|vm, one, _| {
        for addr in 0..64 {
            assert_eq!(vm.request(wildcard(one, 1).at(addr)), Ok(()));
        }
    });
}

/// Both targets answer any list of requests alike: the library refuses what KVM refuses, with the same errno.
fn any_list_of_requests_is_answered_alike() {
    let events: [EventFd; 3] = std::array::from_fn(|_| EventFd::new(0).unwrap());
    let request = (
        prop::option::of(prop::sample::select(vec![0_u64, 1, 2, 0x1_0005])),
        prop::sample::select(vec![0_u64, 4, 0x1_0000, ADDR, u64::MAX - 3, u64::MAX]),
        prop::sample::select(vec![0_u32, 1, 2, 3, 4, 8, 16]),
        0..events.len(),
        prop::bool::ANY,
        prop::bool::weighted(0.3),
    )
        .prop_map(|(value, at, len, event, is_pio, deassign)| Request {
            address: if is_pio {
                IoEventAddress::Pio(u16::try_from(at).unwrap_or(u16::MAX))
            } else {
                IoEventAddress::Mmio(at)
            },
            deassign,
            ..request(&events[event], len, value)
        });
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let same = |requests: Vec<Request<'_>>| {
        let mut differing = None;
        Library::with_new(|library| {
            Kernel::with_new(|kernel| {
                differing = requests
                    .iter()
                    .map(|request| (request, library.request(*request), kernel.request(*request)))
                    .find(|(_, library, kernel)| library != kernel)
                    .map(|difference| format!("{difference:x?}"));
            });
        });
        prop_assert_eq!(differing, None);
        Ok(())
    };
    runner
        .run(&prop::collection::vec(request, 1..40), same)
        .unwrap();
}

/// Row 0: the VM belongs to the process that created it.
#[allow(unsafe_code)]
fn another_process_is_eio() {
    Kernel::with_new(|vm| {
        let event = EventFd::new(0).unwrap();
        let request = wildcard(&event, 4);
        // SAFETY: the child makes system calls only, and ends without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = vm.request(request).err().unwrap_or(0);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: `child` is ours and not waited for yet; `status` is written during the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), EIO);
        assert_eq!(vm.request(request), Ok(()));
    });
}

macro_rules! on_both_targets {
    ($($name:ident;)*) => {
        mod library {
            $(#[test]
            fn $name() {
                super::$name::<super::Library>();
            })*
        }

        mod kvm {
            $(#[test]
            #[ignore = "needs /dev/kvm: cargo xtask lab"]
            fn $name() {
                super::$name::<super::Kernel>();
            })*

            #[test]
            #[ignore = "needs /dev/kvm: cargo xtask lab"]
            fn any_list_of_requests_is_answered_alike() {
                super::any_list_of_requests_is_answered_alike();
            }

            #[test]
            #[ignore = "needs /dev/kvm: cargo xtask lab"]
            fn another_process_is_eio() {
                super::another_process_is_eio();
            }
        }
    };
}

on_both_targets! {
    row_1_length_that_is_no_power_of_two_up_to_eight_is_einval;
    row_2_range_that_wraps_is_einval;
    row_4_datamatch_of_no_length_is_einval;
    row_7_wildcard_excludes_its_length;
    row_7_datamatch_excludes_wildcards_and_its_own_value;
    row_7_four_lengths_stay_together;
    row_7_length_0_excludes_all_lengths_in_both_orders;
    deassign_twice_is_enoent;
    deassign_of_what_could_never_be_assigned_is_enoent;
    one_eventfd_serves_many_addresses;
}
