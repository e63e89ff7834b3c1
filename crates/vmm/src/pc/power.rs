//! Sleeping and waking: the power management registers, the clock that wakes the guest, and the state in which it
//! wakes up (ACPI 6.5, 16.1 and 5.2.10).

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::error::BoardError;
use crate::error::MachineError;
use crate::off::{Off, Switch};
use vmbell::irq::Gsi;
use vmbell_devices::{Pm1, RTC_GSI, Rtc, SCI_GSI, Sleep, WAKING_VECTOR};
use vmbell_hypervisor::{EntryPoint, Error, Vm};

/// The end of the memory that real mode reaches.
const REAL_MODE_END: u32 = 1 << 20;

/// Makes the registers, which turn `switch` when the guest goes to sleep.
pub(super) fn registers(vm: &Arc<dyn Vm>, switch: &Arc<Switch>) -> Pm1 {
    let sci = line(vm, switch, SCI_GSI, "the ACPI registers");
    let switch = Arc::clone(switch);
    Pm1::new(sci, move |sleep| {
        switch.turn(match sleep {
            Sleep::S3 => Off::Asleep,
            Sleep::S5 => Off::Guest,
        });
    })
}

/// Makes the clock, whose alarm is an event of the registers.
pub(super) fn clock(vm: &Arc<dyn Vm>, switch: &Arc<Switch>, pm1: &Pm1) -> Result<Rtc, BoardError> {
    let line = line(vm, switch, RTC_GSI, "the clock");
    let pm1 = pm1.clone();
    let rtc = Rtc::new(line, move || pm1.raise_rtc());
    rtc.map_err(|source| MachineError::Thread { source }.into())
}

/// Returns a function that sets the level of a line.
fn line(
    vm: &Arc<dyn Vm>,
    switch: &Arc<Switch>,
    gsi: u32,
    device: &'static str,
) -> impl Fn(bool) + Send + Sync + 'static {
    let (vm, switch) = (Arc::clone(vm), Arc::clone(switch));
    move |level| {
        let gsi = Gsi::new(gsi).map_err(Error::from);
        if let Err(error) = gsi.and_then(|gsi| vm.set_line(gsi, level)) {
            switch.turn(Off::failed(device, error));
        }
    }
}

/// Returns where the guest wakes up: at the waking vector in the FACS, a physical address of real-mode code.
pub(super) fn waking_vector(memory: &GuestMemoryMmap) -> Result<EntryPoint, BoardError> {
    let mut vector = [0; 4];
    memory
        .read_slice(&mut vector, GuestAddress(WAKING_VECTOR.into()))
        .map_err(BoardError::Tables)?;
    let vector = u32::from_le_bytes(vector);
    let segment = u16::try_from(vector >> 4).unwrap_or_default();
    if vector == 0 || vector >= REAL_MODE_END {
        return Err(BoardError::WakingVector { vector });
    }
    let [low, ..] = vector.to_le_bytes();
    Ok(EntryPoint::RealMode {
        segment,
        offset: (low & 0xf).into(),
    })
}
