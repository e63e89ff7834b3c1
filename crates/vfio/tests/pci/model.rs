//! A guest that does anything, checked against what its own registers say.

use proptest::prelude::*;

use super::*;
use vmbell_hypervisor::IRQ_ARCH;

/// What the guest does.
#[derive(Clone, Debug)]
enum Act {
    Command(u16),
    Bar(usize, u32),
    Msi(usize, u32),
    MsiControl(u16),
    MsixControl(u8),
    /// A word of the table.
    Vector(u64, u32),
    /// A whole vector, with this number in its message, not masked.
    SetVector(u16, u8),
    Any(usize, u32),
    Reset,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let message = || {
        prop_oneof![
            Just(0xfee0_0000_u32),
            Just(0xfee0_1004),
            Just(0x51),
            Just(0x52),
            0_u32..4,
            any::<u32>()
        ]
    };
    let base = prop_oneof![
        (0_u32..8).prop_map(|at| 0xe000_0000 + at * 0x4000),
        Just(0x0fff_c000),
        Just(u32::MAX),
        Just(0),
        Just(0x10),
        any::<u32>()
    ];
    let act = prop_oneof![
        3 => (any::<u16>(), any::<bool>()).prop_map(|(bits, on)| Act::Command(bits & 0x0407 | u16::from(on) << 1)),
        3 => (0_usize..4, base).prop_map(|(bar, base)| Act::Bar(bar, base)),
        3 => (1_usize..6, message()).prop_map(|(word, value)| Act::Msi(word, value)),
        3 => (0_u16..0x80).prop_map(Act::MsiControl),
        3 => (0_u8..4).prop_map(|bits| Act::MsixControl(bits << 6)),
        6 => (0_u64..16, message()).prop_map(|(word, value)| Act::Vector(word, value)),
        6 => (0_u16..4, any::<u8>()).prop_map(|(vector, number)| Act::SetVector(vector, number)),
        1 => (0_usize..64, any::<u32>()).prop_map(|(dword, value)| Act::Any(dword, value)),
        1 => Just(Act::Reset),
    ];
    prop::collection::vec(act, 0..40)
}

fn perform(pc: &mut Pc, act: Act) {
    match act {
        Act::Command(command) => pc.command(command),
        Act::Bar(bar, base) => pc.write(0x10 + 4 * bar, &base.to_le_bytes()),
        Act::Msi(word, value) => pc.write(MSI + 4 * word, &value.to_le_bytes()),
        Act::MsiControl(control) => pc.write(MSI + 2, &control.to_le_bytes()),
        Act::MsixControl(control) => pc.write(MSIX + 3, &[control]),
        Act::Vector(word, value) => {
            let at = pc.base(TABLE_BAR) + TABLE + 4 * word;
            pc.memory.write(at, &value.to_le_bytes());
        }
        Act::SetVector(vector, number) => pc.set_vector(vector, Msi::fixed(0, number), false),
        Act::Any(dword, value) => pc.write(4 * dword, &value.to_le_bytes()),
        Act::Reset => pc.root.reset(),
    }
}

/// The table of MSI-X as the guest has written it.
type Table = [u32; 16];

fn write_table(table: &mut Table, word: u64, value: u32) {
    let word = usize::try_from(word).unwrap();
    table[word] = match word % 4 {
        0 => value & !3,
        3 => value & 1,
        _ => value,
    };
}

const EMPTY: Table = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];

fn valid(msi: Msi, sends: bool) -> Option<Msi> {
    (sends && msi.check(IRQ_ARCH).is_ok()).then_some(msi)
}

/// Returns the interrupts that the registers ask for.
fn expected(pc: &mut Pc, table: &Table) -> Wired {
    let msix = pc.read(MSIX + 2, 2);
    if msix & 0x8000 != 0 {
        let entries = table.chunks(4).map(|entry| {
            let address = u64::from(entry[1]) << 32 | u64::from(entry[0]);
            let data = entry[2];
            valid(
                Msi {
                    address,
                    data,
                    device: None,
                },
                entry[3] == 0 && msix & 0x4000 == 0,
            )
        });
        return Wired::Msix(entries.collect());
    }
    let msi = pc.read(MSI + 2, 2);
    if msi & 1 != 0 {
        let address = u64::from(pc.read(MSI + 8, 4)) << 32 | u64::from(pc.read(MSI + 4, 4));
        let (data, mask) = (pc.read(MSI + 12, 2), pc.read(MSI + 16, 4));
        return Wired::Msi(match msi >> 4 & 7 {
            0 => vec![valid(
                Msi {
                    address,
                    data,
                    device: None,
                },
                mask & 1 == 0,
            )],
            _ => (0..2)
                .map(|vector| {
                    let data = data & !1 | vector;
                    valid(
                        Msi {
                            address,
                            data,
                            device: None,
                        },
                        mask >> vector & 1 == 0,
                    )
                })
                .collect(),
        });
    }
    if pc.read(4, 2) & 0x0400 == 0 {
        return Wired::Intx(gsi());
    }
    Wired::Nothing
}

proptest! {
    /// After any accesses of a guest, the interrupts are wired as its registers say, the mappings are where the BARs on
    /// the bus are, and the device's command register is the guest's.
    #[test]
    fn device_is_wired_as_the_registers_say(acts in acts()) {
        let mut pc = Pc::new();
        let mut table = EMPTY;
        for act in acts {
            let before = table;
            match act {
                Act::Vector(word, value) => write_table(&mut table, word, value),
                Act::SetVector(vector, number) => {
                    let at = usize::from(vector) * 4;
                    table[at..at + 4].copy_from_slice(&[0xfee0_0000, 0, number.into(), 0]);
                }
                Act::Reset => table = EMPTY,
                _ => {}
            }
            // The table is where the guest finds it only while its BAR is on the bus.
            if matches!(act, Act::Vector(..) | Act::SetVector(..)) && !is_table(&mut pc) {
                table = before;
            }
            perform(&mut pc, act);
            let expected = expected(&mut pc, &table);
            let command = pc.read(4, 2);
            let bases = [pc.base(0), pc.base(TABLE_BAR)];
            let state = pc.device.lock();
            prop_assert_eq!(&state.wired, &expected);
            prop_assert_eq!(&state.config[4..6], &command.to_le_bytes()[..2]);
            for (&address, (bar, area)) in &state.mapped {
                prop_assert!(command & 2 != 0);
                let len = area.end - area.start;
                let base = if *bar == 0 { bases[0] } else { bases[1] };
                prop_assert!(address >= base && address + len <= base + 0x8000);
                prop_assert!(address >= pc::RAM, "over ram");
            }
            let [first, second] = bases.map(|base| base..base.saturating_add(0x8000));
            let alone = first.end <= second.start || second.end <= first.start;
            let free = first.start >= pc::RAM && first.start != 0xffff_c000;
            if command & 2 != 0 && alone && free {
                prop_assert_eq!(state.mapped.get(&bases[0]), Some(&(0, 0..0x4000)));
            }
            drop(state);
            prop_assert_eq!(pc.errors.lock().len(), 0);
        }
    }
}

/// Whether the address in the table's BAR reaches the table: a single byte at an odd address reads as 0xff there, but
/// as its offset in BAR0.
fn is_table(pc: &mut Pc) -> bool {
    let at = pc.base(TABLE_BAR) + TABLE;
    let mut byte = [0];
    pc.memory.read(at + 1, &mut byte) && byte == [0xff]
}
