use super::*;
use crate::MEMORY_MAX;
use vmbell::irq::IrqArch;
use vmbell_devices::{RTC_GSI, SCI_GSI};

#[test]
fn intx_leads_to_pins_that_no_other_device_has() {
    for slot in 0..32 {
        for pin in (1..=4).map(|pin| Pin::new(pin).unwrap()) {
            let gsi = intx(slot, pin).unwrap().number();
            assert!(
                gsi >= 16 && gsi < u32::from(IrqArch::X86_64.pins()),
                "{gsi}"
            );
            assert!(gsi != RTC_GSI && gsi != SCI_GSI);
        }
    }
}

#[test]
fn eight_slots_in_a_row_share_no_line() {
    let lines: std::collections::HashSet<_> = (1..9).map(|slot| intx(slot, Pin::A)).collect();
    assert_eq!(lines.len(), 8);
}

#[test]
fn bars_are_assigned_where_they_can_be_mapped() {
    for model in [PcModel::Full, PcModel::Micro] {
        let board = board(model, MEMORY_MAX).unwrap();
        for reserved in board.reserved {
            for window in [board.windows.memory32, board.windows.memory64] {
                let range = window.range();
                assert!(!range.overlaps(reserved), "{range}");
            }
        }
    }
}
