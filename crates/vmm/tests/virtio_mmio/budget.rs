//! A driver that is always ahead does not keep a vCPU from its kicks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_devices::virtio::{Handled, Handler, HandlerError, Notify, Request};
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{Deadline, Stop};

use super::roundtrip::Rig;
use testbed::AREA;

/// The guest's index of available chains.
const AVAILABLE: GuestAddress = GuestAddress(AREA + 0x82);

/// Makes a chain available for each chain that it takes, as another vCPU could, until it is asked to stop.
struct Ahead {
    memory: Arc<OnceLock<GuestMemoryMmap>>,
    stop: Arc<AtomicBool>,
}

impl Handler for Ahead {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if !self.stop.load(Ordering::Relaxed) {
            let memory = self.memory.get().unwrap();
            let index: u16 = memory.read_obj(AVAILABLE).unwrap();
            memory.write_obj(index.wrapping_add(1), AVAILABLE).unwrap();
        }
        Ok(request.complete(0))
    }
}

fn a_kick_ends_a_service_and_the_next_run_goes_on_with_it<H: Hypervisor>(hypervisor: &H) {
    let (memory, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let ahead = Ahead {
        memory: Arc::clone(&memory),
        stop: Arc::clone(&stop),
    };
    let mut rig = Rig::new(hypervisor, ahead, Notify::Exit);
    memory.set(rig.machine.vm().memory().clone()).unwrap();
    let queue = rig.queue();
    rig.set_parameters();
    let (served, kick) = (Arc::clone(&queue), rig.vcpu.kick_handle());
    let deadline = Deadline::when(move || served.served() > 10_000, kick).unwrap();
    let end = rig.machine.runner(&mut *rig.vcpu).run().unwrap();
    assert_eq!(end, Stop::Kicked);
    assert!(!rig.machine.backlog.is_empty(), "the driver is ahead");
    drop(deadline);
    stop.store(true, Ordering::Relaxed);
    // The guest waits for an index that is too far ahead, and sends no more notifications. The backlog is also empty
    // while a piece of work is being served, so a kick can come too early.
    while !rig.machine.backlog.is_empty() {
        let (backlog, kick) = (rig.machine.backlog.clone(), rig.vcpu.kick_handle());
        let _deadline = Deadline::when(move || backlog.is_empty(), kick).unwrap();
        let end = rig.machine.runner(&mut *rig.vcpu).run().unwrap();
        assert_eq!(end, Stop::Kicked);
    }
    let available: u16 = rig.machine.vm().memory().read_obj(AVAILABLE).unwrap();
    assert_eq!(
        queue.served() & 0xffff,
        u64::from(available),
        "none is lost"
    );
}

testbed::on_both! {
    a_kick_ends_a_service_and_the_next_run_goes_on_with_it;
}
