//! An untrusted state that is restored, on either side of a queue: the result is an error, or a queue that stays within
//! its bounds.
//!
//! The bytes are those of a queue in use with changes, or come from the input.

use vmbell_virtqueue::{
    Chain, DeviceControl, DeviceQueue, DeviceState, Driver, DriverState, Head, PackedDevice,
    PackedDriver, Side, SplitDevice, SplitDriver, Token,
};

use super::input::{self, Input, TABLES};

// The brand of any number of queues.
vmbell_virtqueue::queue_brand!(Any);

/// Does one run, as `data` decides.
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
                let state = driver.save().expect("a live queue's state is sound");
                let bytes = changed(bytes(&state), &mut input);
                restore_driver(&mut driver, &bytes, size);
            }
            _ => {
                let state = device.save(&held).expect("a live queue's state is sound");
                let bytes = changed(bytes(&state), &mut input);
                held = restore_device(&mut device, &bytes).unwrap_or(held);
            }
        }
        assert!(driver.free() <= size && held.len() <= usize::from(size));
    }
}

/// Returns a value as bytes. Everything in a state becomes numbers of variable length, whose last bytes are below 128.
fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_extend(value, Vec::new()).expect("a state has bytes")
}

/// Returns the bytes with one or two of their numbers changed. Rarely, the rest of the input replaces all except the
/// first few bytes.
fn changed(mut state: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    let how = input.byte();
    if how & 0xf0 == 0 {
        // The version, the ring, its size and its features stay.
        state.truncate(6);
        state.extend(input.0);
        return state;
    }
    for _ in 0..[0, 1, 1, 2][usize::from(how & 3)] {
        let at = usize::from(input.byte()) % state.len();
        let end_before = state[..at].iter().rposition(|byte| *byte < 128);
        let at = end_before.map_or(0, |end| end + 1);
        let (old, rest) = postcard::take_from_bytes::<u64>(&state[at..]).expect("it is a number");
        let end = state.len() - rest.len();
        let new = match input.byte() % 4 {
            0 => u64::from(input.byte() % 4),
            1 => old ^ 1 << (input.byte() % 32),
            2 => u64::from(input.word()),
            _ => input.long() >> (input.byte() % 64),
        };
        state.splice(at..end, bytes(&new));
    }
    // These bytes are read only if a list has become longer, or an option at the end has been added.
    state.extend(input.0);
    state
}

/// Restores a driver side if possible. It asks for a bounded number of values, and the result can be saved.
fn restore_driver(driver: &mut Driver<u64, impl Side, Any>, bytes: &[u8], size: u16) {
    let before = driver.save();
    let mut asked = 0;
    let data = |id: u16| {
        assert!(id < size);
        asked += 1;
        Some(u64::from(id))
    };
    let state = postcard::from_bytes::<DriverState>(bytes).ok();
    let restored = state.is_some_and(|state| driver.restore(&state, data).is_ok());
    assert!(asked <= size);
    let after = driver.save().expect("what was restored is sound");
    assert!(restored || before == Ok(after), "an error changes nothing");
}

/// Restores a device side if possible. Checks the heads of its chains, and returns them.
fn restore_device<V: DeviceQueue + DeviceControl>(
    device: &mut V,
    bytes: &[u8],
) -> Option<Vec<Head>> {
    let before = device.save([]);
    let state: DeviceState = postcard::from_bytes(bytes).ok()?;
    let Ok(heads) = device.restore(&state) else {
        assert_eq!(device.save([]), before, "an error changes nothing");
        return None;
    };
    assert!(heads.iter().all(|head| head.id() < device.size()));
    assert_eq!(device.save(&heads), Ok(state));
    Some(heads)
}
