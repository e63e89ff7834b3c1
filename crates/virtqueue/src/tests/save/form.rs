//! The form in which states are serialized, and inputs that do not have that form.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn states<K: Kind>(pair: &Pair<K>) -> (DriverState, DeviceState) {
    let device = pair.device.save(&pair.heads).unwrap();
    (pair.driver.save().unwrap(), device)
}

fn read<T: DeserializeOwned>(state: Value) -> Result<T, String> {
    serde_json::from_value(state).map_err(|error| error.to_string())
}

#[test]
fn every_reason_why_a_queue_is_broken_survives() {
    let (id, head, size, index, len) = (7, 8, 9, 10, 11);
    let (addr, limit) = (u64::MAX - 5, 1 << 20);
    let errors = [
        QueueError::UsedAhead {
            index,
            consumed: 1,
            outstanding: 2,
        },
        QueueError::IdOutOfRange { id: u32::MAX, size },
        QueueError::NotInFlight { id },
        QueueError::LengthPastBuffer {
            id,
            len,
            writable: 3,
        },
        QueueError::BatchPastIndex { id, index },
        QueueError::AvailAhead {
            index,
            used: 4,
            size,
        },
        QueueError::Loop { head },
        QueueError::ChainTooLong { head, limit },
        QueueError::ChainTooLarge { head },
        QueueError::BufferWraps { addr, len },
        QueueError::ReadableAfterWritable { head },
        QueueError::IndirectMisplaced { head },
        QueueError::IndirectLength { head, len },
        QueueError::IndirectOutside { addr, len },
    ];
    let pair = Pair::new(packed(3, PLAIN));
    let (mut driver, mut device) = states(&pair);
    for error in errors {
        (driver.broken, device.broken) = (Some(error), Some(error));
        assert_eq!(read(json!(driver)), Ok(driver.clone()));
        assert_eq!(read(json!(device)), Ok(device.clone()));
    }
}

#[test]
fn version_1_has_this_form() {
    let mut pair = Pair::new(packed(2, IN_ORDER));
    pair.turn();
    pair.offer();
    pair.pop();
    let (mut driver, device) = states(&pair);
    driver.broken = Some(QueueError::UsedAhead {
        index: 4,
        consumed: 1,
        outstanding: 2,
    });
    let features = json!({"event_idx": false, "indirect": false, "in_order": true});
    let expected = json!({
        "version": 1,
        "ring": "packed",
        "size": 2,
        "features": features,
        "tables": null,
        "available": 0,
        "unkicked": 2,
        "position": 1,
        "base": 0,
        "wrap_counter": false,
        "used_seen": 0,
        "armed": false,
        "batch": null,
        "buffers": [{"id": 1, "slots": 1, "writable": 8}],
        "entries": [1, 0],
        "broken": {"used_ahead": {"index": 4, "consumed": 1, "outstanding": 2}},
    });
    assert_eq!(json!(driver), expected);
    let expected = json!({
        "version": 1,
        "ring": "packed",
        "size": 2,
        "features": features,
        "next_avail": 0,
        "next_used": 0x8001,
        "avail_seen": 0,
        "unsignalled": 1,
        "heads": [{"id": 1, "slots": 1, "sequence": 1, "writable": 8}],
        "broken": null,
    });
    assert_eq!(json!(device), expected);
}

#[test]
fn unknown_versions_are_errors_whatever_follows() {
    for version in [0, 2, u16::MAX] {
        let text = format!("{{\"version\":{version},\"since\":2}}");
        let errors = [
            serde_json::from_str::<DriverState>(&text).unwrap_err(),
            serde_json::from_str::<DeviceState>(&text).unwrap_err(),
        ];
        let expected = RestoreError::Version { version }.to_string();
        for error in errors.map(|error| error.to_string()) {
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}

/// Reads the state with each of its fields missing in turn, and with an extra field; likewise for the structs in it.
fn exact<T: DeserializeOwned>(state: &Value) {
    let mut read_count = 0;
    for at in ["", "/features", "/buffers/0", "/heads/0", "/broken/loop"] {
        let Some(fields) = state.pointer(at) else {
            continue;
        };
        for name in fields.as_object().unwrap().keys() {
            let mut less = state.clone();
            let fields = less.pointer_mut(at).unwrap().as_object_mut();
            fields.unwrap().remove(name);
            let error = read::<T>(less).map(drop).unwrap_err();
            assert!(
                error.contains(&format!("missing field `{name}`")),
                "{error}"
            );
            read_count += 1;
        }
        let mut more = state.clone();
        more.pointer_mut(at).unwrap()["extra"] = json!(0);
        let error = read::<T>(more).map(drop).unwrap_err();
        assert!(error.contains("unknown field `extra`"), "{error}");
    }
    assert!(read_count > 15, "only {read_count} fields");
}

#[test]
fn fields_that_are_missing_or_unknown_are_named() {
    let mut pair = Pair::new(split(4, INDIRECT));
    pair.offer();
    pair.pop();
    let (mut driver, mut device) = states(&pair);
    let error = Some(QueueError::Loop { head: 0 });
    (driver.broken, device.broken) = (error, error);
    exact::<DriverState>(&json!(driver));
    exact::<DeviceState>(&json!(device));
}
