//! A device that is paused, saved, and restored in another machine with the same memory: no signal is in the state, and
//! none is lost.

use vm_memory::{Bytes, GuestAddress};

use super::*;
use crate::SnapshotError;
use crate::pci::PciState;
use crate::virtio::{Entropy, Handled, HandlerError, Pending, Request};
use vmbell_virtqueue::{Buffer, Features, SplitDriver, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

const EXIT: VirtioConfig = VirtioConfig {
    notify: Notify::Exit,
    raise: Raise::Irqfd,
    notify_ports: false,
    packed: false,
    notification_data: false,
};

/// A live device whose only queue has vector 1.
fn live() -> Pc {
    let mut pc = Pc::with(Entropy, 1, EXIT);
    pc.set_msix(true, false);
    pc.set_vector(1, false);
    pc.negotiate();
    assert!(pc.set_up(0, &LAYOUT, 1));
    pc.go_live();
    pc
}

/// Makes this number of requests available, without a notification.
fn offer(pc: &Pc, count: u16) {
    let memory = &pc.memory;
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &LAYOUT, Features::default(), brand).unwrap();
        for at in 0..count {
            let buffer = Buffer::new(0x4000 + 0x100 * u64::from(at), 4);
            driver.add(&[], &[buffer], at).unwrap();
        }
    });
}

/// How many requests the device has given back.
fn used(pc: &Pc) -> u16 {
    pc.memory.read_obj(GuestAddress(LAYOUT.used + 2)).unwrap()
}

/// Restores a state, as written and read, in a new machine with the memory of `pc`.
fn restored(pc: &Pc, state: &PciState) -> Pc {
    let copy = Pc::with(Entropy, 1, EXIT);
    let mut bytes = vec![0; RAM];
    pc.memory.read_slice(&mut bytes, GuestAddress(0)).unwrap();
    copy.memory.write_slice(&bytes, GuestAddress(0)).unwrap();
    let text = serde_json::to_string(state).unwrap();
    let state = serde_json::from_str(&text).unwrap();
    copy.root.restore(&state).unwrap();
    copy
}

#[test]
fn a_notification_of_a_paused_queue_takes_effect_when_it_goes_on() {
    let mut pc = live();
    pc.root.pause().unwrap();
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    assert_eq!((used(&pc), pc.wires.take().len()), (0, 0));
    pc.root.resume();
    assert_eq!(used(&pc), 1);
    assert!(pc.wires.take().contains(&message(1)));
}

#[test]
fn a_second_pause_returns_the_same_state() {
    let mut pc = live();
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    let states = [(); 2].map(|()| serde_json::to_value(pc.root.pause().unwrap()).unwrap());
    assert_eq!(states[0], states[1]);
    pc.memory
        .write_obj(2_u16, GuestAddress(LAYOUT.avail + 2))
        .unwrap();
    pc.root.resume();
    assert_eq!(used(&pc), 2);
}

#[test]
fn requests_without_a_notification_are_served_after_a_restore() {
    let mut pc = live();
    offer(&pc, 3);
    pc.store(NOTIFY, 2, 0);
    assert_eq!(used(&pc), 3);
    // Three more, which the device is not told of: the available index is at 2 of the ring.
    pc.memory
        .write_obj(6_u16, GuestAddress(LAYOUT.avail + 2))
        .unwrap();
    let state = pc.root.pause().unwrap();
    for _ in 0..2 {
        let mut copy = restored(&pc, &state);
        copy.store(NOTIFY, 2, 0);
        assert_eq!(used(&copy), 3, "nothing is served before the guest goes on");
        copy.root.resume();
        assert_eq!(used(&copy), 6);
        assert!(copy.wires.take().contains(&message(1)));
        assert_eq!(copy.errors(), 0);
    }
}

/// An interrupt that was sent may not have reached the vCPU's state.
#[test]
fn the_interrupt_of_a_used_buffer_comes_once_more_after_a_restore() {
    let mut pc = live();
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    assert_eq!(pc.wires.take(), [message(1)]);
    let copy = restored(&pc, &pc.root.pause().unwrap());
    assert!(copy.wires.take().is_empty());
    copy.root.resume();
    assert_eq!(copy.wires.take(), [message(1)]);
}

#[test]
fn a_pending_message_of_a_masked_vector_is_still_pending() {
    let mut pc = live();
    pc.set_vector(0, true);
    pc.set(CONFIG_VECTOR, 2, 0);
    pc.set_vector(1, true);
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    let mut copy = restored(&pc, &pc.root.pause().unwrap());
    assert_eq!(copy.load(PENDING, 8), 0b10);
    copy.root.resume();
    assert!(copy.wires.take().is_empty());
    copy.set_vector(1, false);
    assert_eq!(copy.wires.take(), [message(1)]);
    let registers = |pc: &mut Pc| {
        let fields = [
            (STATUS, 1),
            (CONFIG_VECTOR, 2),
            (QUEUE_VECTOR, 2),
            (QUEUE_ENABLE, 2),
        ];
        fields.map(|(field, len)| pc.get(field, len))
    };
    assert_eq!(registers(&mut copy), registers(&mut pc));
}

#[test]
fn a_device_that_keeps_a_state_refuses_by_name_and_goes_on() {
    let mut pc = Pc::plain();
    pc.negotiate();
    assert!(pc.set_up(0, &LAYOUT, 0xffff));
    pc.go_live();
    let error = pc.root.pause().unwrap_err();
    assert!(
        matches!(
            error,
            SnapshotError::Unsaved {
                device: "virtio-inverter",
                ..
            }
        ),
        "{error}"
    );
    pc.root.resume();
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    assert_eq!(used(&pc), 1);
}

/// A device whose pending request breaks the queue as soon as the device is being paused.
#[derive(Default)]
struct BreaksLate(Mutex<Option<Pending>>);

impl Handler for BreaksLate {
    const DEVICE_ID: u32 = 0xffff;

    fn is_stateless(&self) -> bool {
        let pending = self.0.lock().take();
        pending.unwrap().complete(|_| panic!("while it is paused"));
        true
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (pending, handled) = request.defer();
        *self.0.lock() = Some(pending);
        Ok(handled)
    }
}

#[test]
fn a_device_with_a_queue_that_breaks_during_the_pause_is_not_saved() {
    let mut pc = Pc::with(BreaksLate::default(), 1, EXIT);
    pc.negotiate();
    assert!(pc.set_up(0, &LAYOUT, 0xffff));
    pc.go_live();
    offer(&pc, 1);
    pc.store(NOTIFY, 2, 0);
    let error = pc.root.pause().unwrap_err().to_string();
    assert!(error.contains("has broken a queue"), "{error}");
}

/// A state is checked as what a driver writes is, and each field that is missing or unknown is named.
#[test]
fn a_hostile_state_is_an_error() {
    let pc = live();
    let state = serde_json::to_value(pc.root.pause().unwrap()).unwrap();
    let refusal = |path: &str, value: serde_json::Value| {
        let mut state = state.clone();
        *state.pointer_mut(path).unwrap() = value;
        let copy = Pc::with(Entropy, 1, EXIT);
        let state = match serde_json::from_value::<PciState>(state) {
            Ok(state) => state,
            Err(error) => return error.to_string(),
        };
        let error = copy.root.restore(&state).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    };
    let function = "/slots/1/function";
    for (path, value, expected) in [
        ("/device/status", 0x4f.into(), "its status cannot be 0x4f"),
        (
            "/device/status",
            11.into(),
            "queue 0 cannot be in this state",
        ),
        ("/device/driver_features", (1_u64 << 60).into(), "cannot be"),
        ("/device/offered", 0.into(), "it offers features"),
        (
            "/device/queues",
            serde_json::json!([]),
            "number of its queues",
        ),
        ("/device/queues/0/descriptors", 1.into(), "queue 0 cannot"),
        ("/device/queues/0/size", 257.into(), "queue 0 cannot"),
        (
            "/device/queues/0/ring/next_used",
            9.into(),
            "ring of queue 0",
        ),
        ("/device/queues/0/ring/size", 4.into(), "ring of queue 0"),
        (
            "/interrupts/vectors",
            serde_json::json!([]),
            "number of its vectors",
        ),
        ("/interrupts", 0.into(), "invalid type"),
        ("", serde_json::json!({}), "missing field `device`"),
    ] {
        let error = refusal(&format!("{function}{path}"), value);
        assert!(error.contains(expected), "{path}: {error}");
    }
    let error = refusal("/slots/1", serde_json::Value::Null);
    assert!(
        error.contains("slot 1 has virtio-rng, not nothing"),
        "{error}"
    );
}
