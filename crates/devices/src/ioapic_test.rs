use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, Route};
use vmbell::sync::Mutex;
use vmbell_hypervisor::Irqfd;

use super::*;

/// Records messages.
#[derive(Default)]
struct Messages {
    sent: Mutex<Vec<Msi>>,
    refuses: bool,
}

const NO_CONTROLLER: Error = Error::Irq(vmbell::irq::IrqError::NoIrqchip);

impl Irqs for Messages {
    fn register_irqfd(
        &self,
        _event: &Arc<EventFd>,
        _gsi: Gsi,
        _resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Err(NO_CONTROLLER)
    }

    fn set_routing(&self, _routes: &[Route]) -> Result<(), Error> {
        Err(NO_CONTROLLER)
    }

    fn set_line(&self, _gsi: Gsi, _level: bool) -> Result<(), Error> {
        Err(NO_CONTROLLER)
    }

    fn forward_line(&self, _gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(NO_CONTROLLER)
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        if self.refuses {
            return Err(NO_CONTROLLER);
        }
        self.sent.lock().push(msi);
        Ok(true)
    }
}

fn apic() -> (Arc<IoApic>, Arc<Messages>) {
    let messages = Arc::new(Messages::default());
    let irqs = Arc::clone(&messages);
    (IoApic::new(irqs, |error| panic!("{error}")), messages)
}

fn select(apic: &IoApic, register: u8) {
    apic.write(SELECT, &u32::from(register).to_le_bytes());
}

fn get(apic: &IoApic, register: u8) -> u32 {
    select(apic, register);
    let mut data = [0xaa; 4];
    apic.read(WINDOW, &mut data);
    u32::from_le_bytes(data)
}

fn set(apic: &IoApic, register: u8, value: u32) {
    select(apic, register);
    apic.write(WINDOW, &value.to_le_bytes());
}

/// The entry of the serial port's pin.
const LOW: u8 = ENTRIES + 2 * 4;
const HIGH: u8 = LOW + 1;

#[test]
fn edge_at_a_pin_is_the_message_of_its_entry() {
    let (apic, messages) = apic();
    set(&apic, HIGH, 3 << 24);
    set(&apic, LOW, 0x45);
    apic.serial_pin().signal();
    // To one CPU of a logical destination (lowest priority).
    set(&apic, HIGH, 0xff << 24);
    set(&apic, LOW, 0x46 | 1 << 8 | 1 << 11);
    apic.serial_pin().signal();
    let expected = [(0xfee0_3000, 0x45), (0xfeef_f004, 0x146)].map(|(address, data)| Msi {
        address,
        data,
        device: None,
    });
    assert_eq!(*messages.sent.lock(), expected);
}

#[test]
fn edge_at_a_masked_pin_or_with_no_vector_is_lost() {
    let (apic, messages) = apic();
    let pin = apic.serial_pin();
    pin.signal();
    set(&apic, LOW, 0x1_0045);
    pin.signal();
    set(&apic, LOW, 0x0f);
    pin.signal();
    // Delivery mode 3 is reserved.
    set(&apic, LOW, 0x45 | 3 << 8);
    pin.signal();
    assert!(messages.sent.lock().is_empty());
    // The lost edge is not sent later.
    set(&apic, LOW, 0x45);
    assert!(messages.sent.lock().is_empty());
}

#[test]
fn message_that_cannot_be_sent_is_reported() {
    let irqs = Messages {
        refuses: true,
        ..Messages::default()
    };
    let errors = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&errors);
    let on_error = move |error: Error| kept.lock().push(error.to_string());
    let apic = IoApic::new(Arc::new(irqs), on_error);
    set(&apic, LOW, 0x45);
    apic.serial_pin().signal();
    assert_eq!(*errors.lock(), [NO_CONTROLLER.to_string()]);
}

#[test]
fn registers_read_as_those_of_the_data_sheet() {
    let (apic, _) = apic();
    assert_eq!(get(&apic, VERSION), 0x11 | 4 << 16, "five pins");
    for pin in 0..5 {
        assert_eq!(get(&apic, ENTRIES + 2 * pin), 0x1_0000, "masked");
        assert_eq!(get(&apic, ENTRIES + 2 * pin + 1), 0);
    }
    set(&apic, ID, u32::MAX);
    assert_eq!([ID, ARBITRATION].map(|at| get(&apic, at)), [0x0f00_0000; 2]);
    // Delivery status and remote IRR are read-only.
    set(&apic, LOW, u32::MAX);
    set(&apic, HIGH, u32::MAX);
    assert_eq!((get(&apic, LOW), get(&apic, HIGH)), (0x1_afff, 0xff00_0000));
    assert_eq!(get(&apic, LOW - 2), 0x1_0000, "the pin before");
    let mut selected = [0; 4];
    apic.read(SELECT, &mut selected);
    assert_eq!(selected, [LOW - 2, 0, 0, 0]);
}

#[test]
fn restored_registers_are_those_that_were_saved_without_what_a_guest_cannot_write() {
    let (source, _) = apic();
    set(&source, ID, 0x0300_0000);
    set(&source, HIGH, 3 << 24);
    set(&source, LOW, 0x45);
    let mut state = serde_json::to_value(source.save()).unwrap();
    let copy = |state: &serde_json::Value| {
        let (copy, messages) = apic();
        copy.restore(&serde_json::from_value(state.clone()).unwrap());
        (copy, messages)
    };
    let (same, messages) = copy(&state);
    let mut selected = [0; 4];
    same.read(SELECT, &mut selected);
    assert_eq!(selected, [LOW, 0, 0, 0]);
    let registers = [LOW, HIGH, ID].map(|register| get(&same, register));
    assert_eq!(registers, [0x45, 3 << 24, 0x0300_0000]);
    assert!(messages.sent.lock().is_empty(), "a restore sends nothing");
    same.serial_pin().signal();
    assert_eq!(messages.sent.lock().len(), 1);
    // Delivery status, remote IRR and reserved bits.
    state["entries"][4] = u64::MAX.into();
    let (hostile, _) = copy(&state);
    let entry = [LOW, HIGH].map(|register| get(&hostile, register));
    assert_eq!(entry, [0x1_afff, 0xff00_0000]);
}

#[test]
fn registers_and_widths_that_are_not_there_change_nothing() {
    let (apic, _) = apic();
    for register in [3, 0x0f, ENTRIES + 10, 0xff] {
        set(&apic, register, u32::MAX);
        assert_eq!(get(&apic, register), 0, "{register:#x}");
    }
    select(&apic, LOW);
    apic.write(WINDOW, &[0x45]);
    apic.write(WINDOW, &[0x45, 0, 0, 0, 0, 0, 0, 0]);
    apic.write(WINDOW + 4, &[0x45, 0, 0, 0]);
    apic.write(u64::MAX, &[]);
    assert_eq!(get(&apic, LOW), 0x1_0000);
    let mut data = [0xaa; 8];
    apic.read(WINDOW + 4, &mut data);
    assert_eq!(data, [0; 8]);
}
