//! An untrusted state that is restored, on either side of a queue: an error, or a queue that stays within its
//! bounds.
//!
//! The bytes begin as those of a queue in use and are changed, or are the input's own.

use vmbell_virtqueue::{
    Chain, DeviceControl, DeviceQueue, DeviceState, Driver, DriverState, Head, PackedDevice,
    PackedDriver, Side, SplitDevice, SplitDriver, Token,
};

use super::input::{self, Input, TABLES};

// Of any number of queues.
vmbell_virtqueue::queue_brand!(Any);

/// One run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let (memory, kind, features) = (input::memory(), input.byte(), input.features());
    if kind & 1 == 0 {
        let layout = input::split_layout(kind >> 1);
        let mut driver = SplitDriver::new(&memory, &layout, features, Any(())).unwrap();
        if features.indirect {
            driver = driver.with_indirect_tables(TABLES, 4).unwrap();
        }
        let device = SplitDevice::new(&memory, &layout, features).unwrap();
        run(driver, device, input);
    } else {
        let layout = input::packed_layout(kind >> 1);
        let mut driver = PackedDriver::new(&memory, &layout, features, Any(())).unwrap();
        if features.indirect {
            driver = driver.with_indirect_tables(TABLES, 4).unwrap();
        }
        let device = PackedDevice::new(&memory, &layout, features).unwrap();
        run(driver, device, input);
    }
}

fn run<S: Side, V>(mut driver: Driver<u64, S, Any>, mut device: V, mut input: Input<'_>)
where
    V: DeviceQueue + DeviceControl,
{
    let mut chain = Chain::with_capacity(16);
    let mut held: Vec<Head> = Vec::new();
    let size = device.size();
    while input.more() {
        match input.byte() % 10 {
            0 | 1 => drop(driver.add(&input.buffers(), &input.buffers(), 0)),
            2 => held.extend(device.pop(&mut chain).ok().flatten()),
            3 if !held.is_empty() => {
                let head = held.remove(usize::from(input.byte()) % held.len());
                let len = head.writable_len().min(input.byte().into());
                let _ = device.add_used(head, len);
            }
            3 | 4 => drop(driver.get_used()),
            5 => {
                let heads = held.drain(..);
                let _ = device.add_used_batch(heads.map(|head| {
                    let len = head.writable_len();
                    (head, len)
                }));
            }
            6 => {
                let _ = (driver.kick_prepare(), device.needs_notification());
                let _ = (driver.enable_cb_delayed(), device.enable_notification());
                let token = driver.enable_cb_prepare::<Token<_>>();
                let _ = driver.poll(token);
            }
            7 => {
                driver.reset();
                let _ = device.needs_notification();
            }
            8 => {
                let bytes = driver
                    .save()
                    .expect("a live queue's state is sound")
                    .to_bytes();
                let bytes = changed(bytes, &mut input);
                restore_driver(&mut driver, &bytes, size);
            }
            _ => {
                let bytes = device
                    .save(&held)
                    .expect("a live queue's state is sound")
                    .to_bytes();
                let bytes = changed(bytes, &mut input);
                held = restore_device(&mut device, &bytes).unwrap_or(held);
            }
        }
        assert!(driver.free() <= size && held.len() <= usize::from(size));
    }
}

/// The bytes with up to three of them changed; or, rarely, what is left of the input in place of all but the first
/// few.
fn changed(mut bytes: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    let how = input.byte();
    if how & 0xf0 == 0 {
        bytes.truncate(7);
        bytes.extend(input.0);
        return bytes;
    }
    for _ in 0..how & 3 {
        let at = usize::from(input.byte()) % bytes.len();
        bytes[at] = input.byte();
    }
    bytes
}

/// Restores a driver side if that is possible. What it is asked for is bounded, and what it becomes can be saved.
fn restore_driver(driver: &mut Driver<u64, impl Side, Any>, bytes: &[u8], size: u16) {
    let before = driver.save();
    let mut asked = 0;
    let data = |id: u16| {
        assert!(id < size);
        asked += 1;
        Some(u64::from(id))
    };
    let result = DriverState::from_bytes(bytes).and_then(|state| driver.restore(&state, data));
    assert!(asked <= size);
    let after = driver.save().expect("what was restored is sound");
    assert!(
        result.is_ok() || before == Ok(after),
        "an error changes nothing"
    );
}

/// The chains of a device side, if it could be restored.
fn restore_device<V: DeviceQueue + DeviceControl>(
    device: &mut V,
    bytes: &[u8],
) -> Option<Vec<Head>> {
    let before = device.save([]);
    let Ok(state) = DeviceState::from_bytes(bytes) else {
        return None;
    };
    let Ok(heads) = device.restore(&state) else {
        assert_eq!(device.save([]), before, "an error changes nothing");
        return None;
    };
    assert!(heads.iter().all(|head| head.id() < device.size()));
    assert_eq!(device.save(&heads), Ok(state));
    Some(heads)
}
