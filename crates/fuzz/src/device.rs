//! A device with a driver that writes anything. It never panics, never takes more chains than the ring has, and a
//! broken queue stays broken.

use vmbell_virtqueue::{
    Brand, Chain, DeviceQueue, Driver, Head, PackedDevice, PackedDriver, Side, SplitDevice,
    SplitDriver, brand,
};

use super::input::{self, Input, Memory, TABLES};

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let (memory, kind, features) = (input::memory(), input.byte(), input.features());
    brand::scoped(|brand| {
        if kind & 1 == 0 {
            let layout = input::split_layout(kind >> 1);
            let mut driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            let device = SplitDevice::new(&memory, &layout, features).unwrap();
            run(driver, device, &memory, layout.end(), input);
        } else {
            let layout = input::packed_layout(kind >> 1);
            let mut driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            let device = PackedDevice::new(&memory, &layout, features).unwrap();
            run(driver, device, &memory, layout.end(), input);
        }
    });
}

fn run<S: Side, B: Brand>(
    mut driver: Driver<u64, S, B>,
    mut device: impl DeviceQueue,
    memory: &Memory,
    end: u64,
    mut input: Input<'_>,
) {
    let mut chain = Chain::with_capacity(16);
    let mut held: Vec<Head> = Vec::new();
    let mut broken = None;
    while input.more() {
        match input.byte() % 9 {
            0 | 1 => drop(driver.add(&input.buffers(), &input.buffers(), 0)),
            2 | 3 => input.scribble(memory, end),
            4 | 5 => match device.pop(&mut chain) {
                Ok(head) => {
                    assert!(broken.is_none());
                    held.extend(head.inspect(|head| {
                        let sum = |all: &[vmbell_virtqueue::Buffer]| {
                            all.iter().map(|buffer| u64::from(buffer.len)).sum::<u64>()
                        };
                        assert!(head.id() < device.size());
                        assert_eq!(sum(chain.writable()), u64::from(head.writable_len()));
                        assert_eq!(sum(chain.readable()), u64::from(chain.readable_len()));
                    }));
                    assert!(held.len() <= usize::from(device.size()));
                }
                Err(error) => {
                    assert!(broken.is_none_or(|before| before == error));
                    broken = Some(error);
                }
            },
            6 if !held.is_empty() => {
                let index = usize::from(input.byte()) % held.len();
                let head = held.remove(index);
                let len = head.writable_len().min(input.byte().into());
                let _ = device.add_used(head, len);
            }
            6 => drop(driver.get_used()),
            7 => {
                let heads = held.drain(..);
                let _ = device.add_used_batch(heads.map(|head| {
                    let len = head.writable_len();
                    (head, len)
                }));
            }
            _ => {
                let _ = device.needs_notification();
                if input.byte() & 1 == 0 {
                    device.disable_notification();
                } else {
                    let _ = device.enable_notification();
                }
            }
        }
    }
}
