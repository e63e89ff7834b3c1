//! Messages to local APICs: the message that an MSI encodes (Intel SDM volume 3, "Message Signalled Interrupts"; Linux
//! `arch/x86/kvm/irq_comm.c`, `kvm_set_msi_irq`), and the EOI exit bitmap, which has the vectors of messages whose EOI
//! must be seen at once.
//!
//! An I/O APIC pin or a level-triggered message waits for the EOI, so paravirtual EOI must not defer it (Linux
//! `ioapic_handled_vectors`; [`Lapic::eoi_exit_bitmap`] in the stub). The bitmaps are filled again under the
//! controller's lock, after each change of routes, redirection entries or irqfds (Linux `kvm_ioapic_scan_entry`). The
//! stub may read them at the same time.

use vmbell::irq::{IrqArch, IrqError, Msi, Routing, Target};
use vmbell_core::ioapic::Pins;
use vmbell_core::lapic::{Destination, Lapic, Message, Mode};

const LOGICAL: u64 = 1 << 2;
/// The redirection hint: deliver to the vCPU with the lowest priority, with any delivery mode in the data.
const REDIRECTION_HINT: u64 = 1 << 3;
const LEVEL: u32 = 1 << 15;

/// Decodes an MSI. Fails if local APICs do not accept it.
pub fn decode_msi(msi: Msi) -> Result<Message, IrqError> {
    msi.check(IrqArch::X86_64)?;
    let Msi { address, data, .. } = msi;
    let bits = (data >> 8 & 7) as u8;
    let mode = Mode::from_bits(bits.into()).ok_or(IrqError::Mode { mode: bits })?;
    let is_hinted = address & REDIRECTION_HINT != 0;
    Ok(Message {
        vector: (data & 0xff) as u8,
        mode: if is_hinted {
            Mode::LowestPriority
        } else {
            mode
        },
        level: data & LEVEL != 0,
        destination: Destination::narrow((address >> 12 & 0xff) as u8, address & LOGICAL != 0),
    })
}

/// The pin of the real-time clock, whose vector is always in the bitmap (Linux `RTC_GSI`).
const RTC_PIN: u8 = 8;

/// Fills the bitmap of each local APIC from the redirection entries and the routes. The pins' resamplefds must have
/// been stored already.
pub fn scan_eoi_exit_bitmaps(lapics: &[Lapic], pins: &Pins, routing: &Routing) {
    let messages: Vec<_> = pin_messages(pins).chain(route_messages(routing)).collect();
    for lapic in lapics {
        load_bitmap(lapic, &messages);
    }
}

/// Returns the messages of pins that are level-triggered, resampled or the real-time clock's.
fn pin_messages(pins: &Pins) -> impl Iterator<Item = Message> {
    let pins = (0_u8..).zip(pins);
    pins.filter_map(|(number, pin)| {
        let message = pin.entry().message()?;
        let needs_exit = message.level || number == RTC_PIN || pin.is_resampled();
        needs_exit.then_some(message)
    })
}

/// Returns the level-triggered messages among the routes.
fn route_messages(routing: &Routing) -> impl Iterator<Item = Message> {
    routing.routes().filter_map(|route| match route.target {
        Target::Msi(msi) => decode_msi(msi).ok().filter(|message| message.level),
        Target::Pin(_) => None,
    })
}

/// Fills one bitmap. A vector that is pending or in service stays in the bitmap until its EOI.
fn load_bitmap(lapic: &Lapic, messages: &[Message]) {
    let bitmap = &lapic.eoi_exit_bitmap;
    let mut wanted = [false; 256];
    let is_for_it = |message: &&Message| message.destination.includes(lapic);
    for message in messages.iter().filter(is_for_it) {
        wanted[usize::from(message.vector)] = true;
        bitmap.insert(message.vector);
    }
    for vector in bitmap.iter() {
        let is_under_way = lapic.irr.contains(vector) || lapic.is_in_service(vector);
        if !wanted[usize::from(vector)] && !is_under_way {
            bitmap.remove(vector);
        }
    }
}
