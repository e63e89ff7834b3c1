//! Exclusive doorbells at ports (on arm64, at the addresses that stand in for ports) and at addresses, and the exits of
//! writes that rang no doorbell.

use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{Doorbell, IoEvents, VmExit};
use vmm_sys_util::eventfd::EventFd;

use testbed::bells;

pub fn register(
    vm: &dyn IoEvents,
    event: &Arc<EventFd>,
    place: IoEventAddress,
    datamatch: Datamatch,
) -> Doorbell {
    vm.register_ioevent(event, place, datamatch, Sharing::Exclusive)
        .unwrap()
}

pub fn at_port(
    vm: &dyn IoEvents,
    event: &Arc<EventFd>,
    bell: u16,
    datamatch: Datamatch,
) -> Doorbell {
    register(vm, event, bells::place(bell), datamatch)
}

pub fn at_address(
    vm: &dyn IoEvents,
    event: &Arc<EventFd>,
    address: u64,
    datamatch: Datamatch,
) -> Doorbell {
    register(vm, event, IoEventAddress::Mmio(address), datamatch)
}

pub fn out(len: u8, bell: u16, data: u32) -> VmExit {
    bells::write(len, bell, data)
}

pub fn store(len: u8, address: u64, data: u64) -> VmExit {
    VmExit::MmioWrite { address, len, data }
}

pub fn load(len: u8, address: u64) -> VmExit {
    VmExit::MmioRead { address, len }
}
