//! Tests of the irqchip without a guest: named cases, models, and every interleaving of accesses to the PV EOI
//! bit.

mod chip;
mod eoi_exit_bitmap;
mod forwarded;
mod guest;
mod held;
mod iowin;
mod irqfds;
mod lapic;
mod message;
mod model;
mod moved;
mod msi;
mod page;
mod pin_line;
mod pins;
mod pv_eoi;
mod reach;
mod redirection_entry;
mod registers;
mod resamplers;
mod routes;
mod shared_bit;

use vmbell_core::lapic::{Lapic, Register};

/// Makes an enabled local APIC in xAPIC mode.
fn lapic(id: u32) -> Lapic {
    let lapic = Lapic::default();
    lapic.reset(id);
    let _ = lapic.write(Register::Svr, 0x1ff);
    lapic
}
