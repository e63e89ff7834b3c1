//! The module's interface, tested with requests and guests that the library does not make.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use kvm_bindings::{
    KVM_ARM_VCPU_PMU_V3, KVM_ARM_VCPU_PMU_V3_CTRL, KVM_ARM_VCPU_PMU_V3_INIT,
    KVM_ARM_VCPU_PMU_V3_IRQ, KVM_DEV_ARM_VGIC_CTRL_INIT, KVM_DEV_ARM_VGIC_GRP_ADDR,
    KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_VGIC_V2_ADDR_TYPE_CPU, KVM_VGIC_V2_ADDR_TYPE_DIST,
    KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST, kvm_create_device, kvm_device_attr,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V2, kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3,
    kvm_vcpu_init,
};
use kvm_ioctls::{DeviceFd, Kvm, VcpuFd, VmFd};
use vmbell_hypervisor::Hypervisor;
use vmbell_hypervisor::aarch64::{FIRST_SPI, GICC, GICD, GICR};
use vmbell_hypervisor::kvm::{ForwardError, KvmError};

use super::Clock;
use super::guest::{Guest, line};

const GET_API_VERSION: libc::c_ulong = 0xf500;
const FORWARD: libc::c_ulong = 0x4018_f501;
const UNFORWARD: libc::c_ulong = 0x4018_f502;
const GET_STATE: libc::c_ulong = 0xc028_f503;

/// `struct vfio_forward_irq`, with room for `struct vfio_forward_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Request {
    argsz: u32,
    flags: u32,
    device: RawFd,
    index: u32,
    vm: RawFd,
    spi: u32,
    counts: [u64; 2],
}

impl Request {
    fn new(clock: &Clock, vm: RawFd) -> Self {
        Self {
            argsz: size_of::<Self>() as u32,
            flags: 0,
            device: clock.device.descriptor().as_raw_fd(),
            index: 0,
            vm,
            spi: line().number(),
            counts: [0; 2],
        }
    }

    /// The errno of a call, or 0.
    fn errno(mut self, module: &File, call: libc::c_ulong) -> i32 {
        // SAFETY: `module` is open, and `self` is at least as large as the structure of each call.
        let result = unsafe { libc::ioctl(module.as_raw_fd(), call as _, &raw mut self) };
        errno(result)
    }
}

fn errno(result: i32) -> i32 {
    if result >= 0 {
        return 0;
    }
    io::Error::last_os_error().raw_os_error().unwrap()
}

fn open() -> File {
    let mut options = File::options();
    options.read(true).write(true);
    options.open("/dev/vfio-forward").unwrap()
}

/// A VM with a vCPU whose performance monitor interrupts through the clock's line, once its GIC is initialised.
struct Monitored {
    vm: VmFd,
    vcpu: VcpuFd,
    gic: DeviceFd,
}

impl Monitored {
    fn new() -> Self {
        let kvm = Kvm::new().unwrap();
        let vm = kvm.create_vm().unwrap();
        let vcpu = vm.create_vcpu(0).unwrap();
        let mut init = kvm_vcpu_init::default();
        vm.get_preferred_target(&mut init).unwrap();
        init.features[0] |= 1 << KVM_ARM_VCPU_PMU_V3;
        vcpu.vcpu_init(&init).unwrap();
        let kinds = [
            (
                kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3,
                [
                    (KVM_VGIC_V3_ADDR_TYPE_DIST, GICD),
                    (KVM_VGIC_V3_ADDR_TYPE_REDIST, GICR),
                ],
            ),
            (
                kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V2,
                [
                    (KVM_VGIC_V2_ADDR_TYPE_DIST, GICD),
                    (KVM_VGIC_V2_ADDR_TYPE_CPU, GICC),
                ],
            ),
        ];
        let made = kinds.into_iter().find_map(|(type_, places)| {
            let mut device = kvm_create_device {
                type_,
                ..kvm_create_device::default()
            };
            Some((vm.create_device(&mut device).ok()?, places))
        });
        let (gic, places) = made.unwrap();
        for (place, address) in places {
            let request = attribute(KVM_DEV_ARM_VGIC_GRP_ADDR, place, &address);
            gic.set_device_attr(&request).unwrap();
        }
        Self { vm, vcpu, gic }
    }

    fn initialise_gic(&self) {
        let init = attribute(KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_CTRL_INIT, &());
        self.gic.set_device_attr(&init).unwrap();
    }

    fn initialise_monitor(&self) {
        let intid = (FIRST_SPI + line().number()).cast_signed();
        let line = attribute(KVM_ARM_VCPU_PMU_V3_CTRL, KVM_ARM_VCPU_PMU_V3_IRQ, &intid);
        self.vcpu.set_device_attr(&line).unwrap();
        let init = attribute(KVM_ARM_VCPU_PMU_V3_CTRL, KVM_ARM_VCPU_PMU_V3_INIT, &());
        self.vcpu.set_device_attr(&init).unwrap();
    }
}

/// A request whose value the kernel reads during the call.
fn attribute<T>(group: u32, attribute: u32, value: &T) -> kvm_device_attr {
    kvm_device_attr {
        group,
        attr: attribute.into(),
        addr: std::ptr::from_ref(value) as u64,
        ..kvm_device_attr::default()
    }
}

fn line_is_refused_before_the_gic_is_there_and_when_another_device_has_it<H: Hypervisor>(_h: &H) {
    let (clock, module) = (Clock::open(), open());
    let guest = Monitored::new();
    let request = Request::new(&clock, guest.vm.as_raw_fd());
    assert_eq!(request.errno(&module, FORWARD), libc::EAGAIN);
    guest.initialise_gic();
    assert_eq!(request.errno(&module, FORWARD), 0);
    assert_eq!(request.errno(&module, UNFORWARD), 0);
    guest.initialise_monitor();
    assert_eq!(request.errno(&module, FORWARD), libc::EADDRINUSE);
    let other = Request {
        spi: line().number() + 1,
        ..request
    };
    assert_eq!(other.errno(&module, FORWARD), 0);
    assert_eq!(other.errno(&module, UNFORWARD), 0);
}

fn malformed_requests_are_refused_by_their_errno<H: Hypervisor>(_h: &H) {
    let (clock, module) = (Clock::open(), open());
    let guest = Monitored::new();
    guest.initialise_gic();
    let good = Request::new(&clock, guest.vm.as_raw_fd());
    let null = File::open("/dev/null").unwrap();
    let all = [FORWARD, UNFORWARD, GET_STATE];
    for (request, errno) in [
        (Request { argsz: 23, ..good }, libc::EINVAL),
        (Request { flags: 1, ..good }, libc::EINVAL),
        (Request { device: -1, ..good }, libc::EBADF),
        (
            Request {
                device: null.as_raw_fd(),
                ..good
            },
            libc::ENODEV,
        ),
        (Request { index: 1, ..good }, libc::ENXIO),
        (
            Request {
                index: u32::MAX,
                ..good
            },
            libc::ENXIO,
        ),
    ] {
        let seen = all.map(|call| request.errno(&module, call));
        assert_eq!(seen, [errno; 3], "{request:?}");
    }
    for (request, errno) in [
        (Request { vm: -1, ..good }, libc::EBADF),
        (
            Request {
                vm: null.as_raw_fd(),
                ..good
            },
            libc::EBADFD,
        ),
        (
            Request {
                vm: guest.vcpu.as_raw_fd(),
                ..good
            },
            libc::EBADFD,
        ),
        (
            Request {
                spi: u32::MAX,
                ..good
            },
            libc::ERANGE,
        ),
        (
            Request {
                spi: u32::MAX - 31,
                ..good
            },
            libc::ERANGE,
        ),
    ] {
        assert_eq!(request.errno(&module, FORWARD), errno, "{request:?}");
    }
    for call in [UNFORWARD, GET_STATE] {
        assert_eq!(good.errno(&module, call), libc::ENOENT);
    }
    assert_eq!(good.errno(&module, 0xf504), libc::ENOTTY);
    assert_eq!(good.errno(&module, GET_API_VERSION), libc::EINVAL);
}

fn forwarding_belongs_to_the_file_that_asked_for_it<H: Hypervisor>(_h: &H) {
    let (clock, module, other) = (Clock::open(), open(), open());
    let guest = Monitored::new();
    guest.initialise_gic();
    let request = Request::new(&clock, guest.vm.as_raw_fd());
    assert_eq!(request.errno(&module, FORWARD), 0);
    assert_eq!(request.errno(&other, FORWARD), libc::EBUSY);
    for call in [UNFORWARD, GET_STATE] {
        assert_eq!(request.errno(&other, call), libc::ENOENT);
    }
    drop(other);
    assert_eq!(request.errno(&module, GET_STATE), 0);
    // The last close of the module's file ends the forwarding.
    drop(module);
    let module = open();
    assert_eq!(request.errno(&module, FORWARD), 0);
}

fn guest_of_another_process_is_refused<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let (backend, device) = (guest.parts().backend, clock.device.descriptor());
    // SAFETY: the child only makes system calls and uses the allocator, which musl leaves usable in it; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = backend.forward_interrupt(&device, 0, line());
        let is_told = refused.is_err_and(|error| {
            let source = ForwardError::OtherProcess;
            matches!(error.of_backend(), Some(KvmError::Forward { source: found, .. })
                if std::mem::discriminant(found) == std::mem::discriminant(&source))
        });
        // SAFETY: no pointer is passed.
        unsafe { libc::_exit(i32::from(!is_told)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a live variable, which the call writes.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    guest.forward(&clock).unwrap();
}

testbed::on_kvm! {
    line_is_refused_before_the_gic_is_there_and_when_another_device_has_it;
    malformed_requests_are_refused_by_their_errno;
    forwarding_belongs_to_the_file_that_asked_for_it;
    guest_of_another_process_is_refused;
}
