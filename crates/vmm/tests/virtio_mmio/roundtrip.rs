use std::sync::Arc;

use vmbell::bus::BusRange;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{
    Handled, Handler, HandlerError, Inverter, Notify, Queue, Request, VirtioConfig, VirtioDevice,
};
use vmbell_devices::{Listener, WordPoller};
use vmbell_guest::{PARAMETERS, Parameters, Program, Results, programs};
use vmbell_hypervisor::{Hypervisor, Vcpu, Vm, VmConfig};
use vmbell_vmm::{Machine, Stop};

use testbed::{AREA, HOLE, configured, count, event, kick_if_hung};

/// The number of requests in one run.
pub const COUNT: u64 = 500;
pub const NOTIFY: IoEventAddress = IoEventAddress::Mmio(HOLE + register::QUEUE_NOTIFY);
pub const ACKNOWLEDGE: IoEventAddress = IoEventAddress::Mmio(HOLE + register::INTERRUPT_ACK);

/// A guest that sends requests, and a device with two queues.
pub struct Rig {
    pub machine: Machine,
    pub vcpu: Box<dyn Vcpu>,
    device: Arc<VirtioMmio>,
}

impl Rig {
    pub fn new<H: Hypervisor>(
        hypervisor: &H,
        handler: impl Handler + 'static,
        notify: Notify,
    ) -> Self {
        let vm = configured(hypervisor, VmConfig::default());
        let program = programs::virtqueue_polled();
        Self::with(vm, program, handler, notify, Interrupt::none())
    }

    pub fn with(
        vm: Arc<dyn Vm>,
        program: Program,
        handler: impl Handler + 'static,
        notify: Notify,
        interrupt: Interrupt,
    ) -> Self {
        let machine = Machine::new(vm);
        let (memory, backlog) = (machine.vm().memory(), machine.backlog.clone());
        let config = VirtioConfig {
            notify,
            ..VirtioConfig::default()
        };
        let device = VirtioDevice::new(handler, 2, config);
        let device = VirtioMmio::new(device, memory, interrupt, backlog).unwrap();
        let device = Arc::new(device);
        let registers = BusRange::new(HOLE, register::CONFIG).unwrap();
        machine.mmio.insert(registers, device.clone()).unwrap();
        let mut vcpu = machine.vm().create_vcpu(0).unwrap();
        let entry = program.load(machine.vm().memory(), 0).unwrap();
        vcpu.set_entry_point(entry).unwrap();
        Self {
            machine,
            vcpu,
            device,
        }
    }

    pub fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.device.queues()[0])
    }

    /// Tells the guest to send [`COUNT`] requests.
    pub fn set_parameters(&self) {
        Parameters {
            count: COUNT,
            address: HOLE,
            value: AREA,
            pause: 0,
        }
        .write(self.machine.vm().memory(), PARAMETERS)
        .unwrap();
    }

    /// Lets the guest send [`COUNT`] requests; returns how many came back right over all runs, and the heavy exits of
    /// this run.
    pub fn run(&mut self) -> (u64, u64) {
        let before = self.machine.vm().measure().exit_counts().heavy;
        self.set_parameters();
        let kick = self.vcpu.kick_handle();
        let _unless_done = kick_if_hung(kick);
        let stop = self.machine.runner(&mut *self.vcpu).run().unwrap();
        assert!(matches!(stop, Stop::Done(_)), "{stop}");
        let heavy = self.machine.vm().measure().exit_counts().heavy - before;
        (
            Results::read(self.machine.vm().memory(), PARAMETERS)
                .unwrap()
                .rings,
            heavy,
        )
    }
}

fn answers_come_back_from_a_device_model<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Inverter, Notify::Exit);
    assert_eq!(rig.run().0, COUNT);
    let (right, heavy) = rig.run();
    assert_eq!(
        (right, heavy),
        (2 * COUNT, COUNT + 1),
        "and the one that says done"
    );
    assert_eq!(rig.queue().served(), 2 * COUNT);
}

fn answers_come_back_through_an_ioeventfd<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Inverter, Notify::Exit);
    let queue = rig.queue();
    let listener = Listener::start(|| {}, move || queue.serve_before_sleep().more).unwrap();
    let index = Datamatch::U32(Some(0));
    let vm = rig.machine.vm();
    let _doorbell = vm
        .register_ioevent(listener.event(), NOTIFY, index, Sharing::Exclusive)
        .unwrap();
    assert_eq!(rig.run().0, COUNT);
    assert_eq!(rig.run(), (2 * COUNT, 1));
    assert_eq!(rig.queue().served(), 2 * COUNT);
}

fn answers_come_back_without_any_exit_if_the_ring_is_polled<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Inverter, Notify::Never);
    let queue = rig.queue();
    let look = move || {
        let _ = queue.serve();
        queue.served()
    };
    let _poller = WordPoller::start(|| {}, look, |_| {}).unwrap();
    assert_eq!(rig.run().0, COUNT);
    let light = rig.machine.vm().measure().exit_counts().light;
    assert_eq!(rig.run(), (2 * COUNT, 1));
    if hypervisor.name() == "usermode" {
        // KVM counts the host's own interruptions too.
        assert_eq!(rig.machine.vm().measure().exit_counts().light, light);
    }
}

fn a_doorbell_of_another_queue_does_not_take_the_notification<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Inverter, Notify::Exit);
    let other = event();
    let vm = rig.machine.vm();
    let _doorbell = vm
        .register_ioevent(&other, NOTIFY, Datamatch::U32(Some(1)), Sharing::Exclusive)
        .unwrap();
    assert_eq!(rig.run().0, COUNT);
    assert_eq!(rig.run(), (2 * COUNT, COUNT + 1));
    assert_eq!(count(&other), 0);
}

/// A handler that claims to have answered, and has not.
struct Silent;

impl Handler for Silent {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let all = request.writable().len();
        Ok(request.complete(all))
    }
}

fn the_guest_notices_an_answer_that_is_wrong<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Silent, Notify::Exit);
    assert_eq!(rig.run().0, 0);
    assert_eq!(rig.queue().served(), 1);
}

/// A queue in memory that the guest does not have.
fn a_ring_outside_of_ram_is_refused_and_the_guest_gives_up<H: Hypervisor>(hypervisor: &H) {
    let mut rig = Rig::new(hypervisor, Inverter, Notify::Exit);
    let parameters = Parameters {
        count: COUNT,
        address: HOLE,
        // The last page of RAM: the used ring would begin after it.
        value: vmbell_guest::PARAMETERS.0 + VmConfig::default().ram_size - 0x100,
        pause: 0,
    };
    parameters
        .write(rig.machine.vm().memory(), PARAMETERS)
        .unwrap();
    let kick = rig.vcpu.kick_handle();
    let _unless_done = kick_if_hung(kick);
    let mut runner = rig.machine.runner(&mut *rig.vcpu);
    let _stop = runner.run();
    let refusal = rig.device.take_refusal().map(|refusal| refusal.to_string());
    assert_eq!(refusal.as_deref(), Some("queue 0 cannot be set up"));
    assert_eq!(
        Results::read(rig.machine.vm().memory(), PARAMETERS)
            .unwrap()
            .rings,
        0
    );
}

testbed::on_both! {
    answers_come_back_from_a_device_model;
    answers_come_back_through_an_ioeventfd;
    answers_come_back_without_any_exit_if_the_ring_is_polled;
    a_doorbell_of_another_queue_does_not_take_the_notification;
    the_guest_notices_an_answer_that_is_wrong;
    a_ring_outside_of_ram_is_refused_and_the_guest_gives_up;
}
