//! Random sequences of accesses, compared with a small model.

use proptest::prelude::*;

use super::*;

/// An access of the guest.
#[derive(Clone, Debug)]
enum Step {
    /// Writes bytes at an offset of BAR0 (false) or BAR1 (true).
    Write(bool, u64, Vec<u8>),
    /// Moves BAR0 or BAR1 to the place with this number; with 0, the BAR is not mapped.
    Move(bool, u32),
    Reset,
}

/// The model: the places of the BARs, and the test with its count.
#[derive(Clone, Debug, Default)]
struct Model {
    bases: [u64; 2],
    /// BAR, number and count.
    test: Option<(usize, u8, u32)>,
}

impl Model {
    /// Returns whether a write rings a doorbell.
    fn write(&mut self, bar: usize, offset: u64, data: &[u8]) -> bool {
        if self.rings(bar, offset, data) {
            return true;
        }
        for (offset, byte) in (offset..).zip(data) {
            if offset == 0 {
                self.test = (*byte < 3).then_some((bar, *byte, 0));
            } else if let Some((of, number, count)) = &mut self.test {
                let here = offset == [2048, 131][*of] + u64::from(*number);
                *count += u32::from(here && (*number == 1 || *byte == 0xfa));
            }
        }
        false
    }

    fn rings(&self, bar: usize, offset: u64, data: &[u8]) -> bool {
        let Some((of, number, _)) = self.test else {
            return false;
        };
        let wide = of == 0 && number == 1;
        let at = of == bar && offset == [2048, 131][of] + u64::from(number);
        at && match number {
            1 => wide || data.len() == 1,
            2 => data == [0xfa],
            _ => false,
        }
    }
}

fn place(bar: usize, number: u32) -> u64 {
    let first = [MEMORY, PORTS][bar];
    match u64::from(number).checked_sub(1) {
        None => 0,
        Some(index) => first + index * [0x1000, 0x100][bar],
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let offset = prop_oneof![
        3 => Just(0_u64),
        2 => 2046_u64..2053,
        3 => 129_u64..136,
        1 => 0_u64..256,
    ];
    let byte = prop_oneof![0_u8..5, Just(0xfa_u8), Just(0xce_u8), any::<u8>()];
    let data = prop_oneof![
        4 => prop::collection::vec(byte.clone(), 1),
        1 => prop::collection::vec(byte.clone(), 2),
        1 => prop::collection::vec(byte, 4),
    ];
    let step = prop_oneof![
        12 => (any::<bool>(), offset, data).prop_map(|(bar, at, data)| Step::Write(bar, at, data)),
        2 => (any::<bool>(), 0_u32..4).prop_map(|(bar, to)| Step::Move(bar, to)),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn device_and_model_agree(steps in steps()) {
        let mut pc = Pc::plain();
        let mut model = Model { bases: [MEMORY, PORTS], test: None };
        for step in steps {
            match step {
                Step::Write(port, offset, data) => {
                    let bar = usize::from(port);
                    let size = [4096, 256][bar];
                    if model.bases[bar] == 0 || offset + data.len() as u64 > size {
                        continue;
                    }
                    let address = model.bases[bar] + offset;
                    let rang = if port { pc.out(address, &data) } else { pc.store(address, &data) };
                    prop_assert_eq!(rang, model.write(bar, offset, &data));
                }
                Step::Move(port, to) => {
                    let bar = usize::from(port);
                    model.bases[bar] = place(bar, to);
                    pc.set_bar(u32::from(port), u32::try_from(model.bases[bar]).unwrap());
                }
                Step::Reset => {
                    model = Model { bases: [MEMORY, PORTS], test: None };
                    pc.root.reset();
                }
            }
            // At most one doorbell, and only if the test has a doorbell and its BAR is mapped.
            let hung = model.test.is_some_and(|(bar, number, _)| number > 0 && model.bases[bar] != 0);
            prop_assert_eq!(pc.doorbells(), usize::from(hung));
            prop_assert_eq!(pc.errors.load(Ordering::Relaxed), 0);
            if model.bases[0] != 0 {
                let (width, count) = match model.test {
                    Some((_, _, count)) => (1, u64::from(count)),
                    None => (0, 0),
                };
                prop_assert_eq!(pc.load(model.bases[0] + WIDTH, 1), width);
                prop_assert_eq!(pc.load(model.bases[0] + COUNT, 4), count);
            }
        }
    }
}
