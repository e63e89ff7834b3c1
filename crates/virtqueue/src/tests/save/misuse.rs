//! Mistakes of the caller: a state of another queue, chains of another queue, missing data.

use super::*;

#[test]
fn state_of_another_queue_is_refused_field_by_field() {
    let split = split(4, EVENT_IDX);
    let pair = Pair::new(split);
    let (driver, device) = (pair.driver.save().unwrap(), pair.device.save([]).unwrap());
    let refuse = |kind: &dyn Fn(&DriverState, &DeviceState) -> [RestoreError; 2], field| {
        for error in kind(&driver, &device) {
            let RestoreError::OtherQueue {
                field: found,
                saved,
                queue,
            } = error
            else {
                panic!("{error}");
            };
            assert!(found == field && saved != queue, "{error}");
        }
    };
    fn errors<K: Kind>(kind: K, driver: &DriverState, device: &DeviceState) -> [RestoreError; 2] {
        let mut pair = Pair::new(kind);
        let one = pair.driver.restore(driver, |_| None).unwrap_err();
        [one, pair.device.restore(device).unwrap_err()]
    }
    refuse(&|one, two| errors(packed(4, EVENT_IDX), one, two), "ring");
    refuse(
        &|one, two| errors(super::split(8, EVENT_IDX), one, two),
        "size",
    );
    refuse(
        &|one, two| errors(super::split(4, PLAIN), one, two),
        "features",
    );
}

#[test]
fn driver_needs_the_same_indirect_tables() {
    let kind = split(4, INDIRECT);
    let pair = Pair::new(kind);
    let state = pair.driver.save().unwrap();
    let attach =
        || SplitDriver::<u64, _, _>::attach(&pair.memory, &kind.0, INDIRECT, Any(())).unwrap();
    let tables = |addr, entries| attach().with_indirect_tables(addr, entries).unwrap();
    for mut driver in [
        attach(),
        tables(TABLES + 16, ENTRIES),
        tables(TABLES, ENTRIES - 1),
    ] {
        let error = driver.restore(&state, |_| None).unwrap_err();
        assert!(matches!(error, RestoreError::OtherQueue { .. }), "{error}");
    }
    tables(TABLES, ENTRIES).restore(&state, |_| None).unwrap();
}

struct Data;

impl Case for Data {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.offer();
        pair.offer();
        let state = pair.driver.save().unwrap();
        assert_eq!(data(&pair.driver), HashMap::from([(0, 0), (1, 1)]));
        let error = pair.driver.restore(&state, |id| (id != 1).then_some(7));
        assert_eq!(error, Err(RestoreError::NoData { id: 1 }));
        assert_eq!(
            data(&pair.driver),
            HashMap::from([(0, 0), (1, 1)]),
            "nothing has changed"
        );
        pair.pop();
        pair.give();
        assert_eq!(pair.taken(), Some(0));
    }
}

#[test]
fn buffer_without_data_is_an_error_that_changes_nothing() {
    everywhere(&Data);
}

struct Detached;

impl Case for Detached {
    fn run<K: Kind>(&self, kind: K) {
        let mut pair = Pair::new(kind);
        pair.offer();
        assert_eq!(pair.driver.detach_unused(), Some(0));
        let (field, value, expected) = ("number of entries", 3, 4);
        let error = RestoreError::Disagree {
            field,
            value,
            expected,
        };
        assert_eq!(pair.driver.save().unwrap_err(), error);
        pair.driver.reset();
        pair.driver.save().unwrap();
    }
}

#[test]
fn driver_whose_data_was_detached_is_saved_only_after_a_reset() {
    everywhere(&Detached);
}

struct Foreign;

impl Case for Foreign {
    fn run<K: Kind>(&self, kind: K) {
        let (mut pair, mut other) = (Pair::new(kind), Pair::new(kind));
        pair.offer();
        other.offer();
        pair.pop();
        other.pop();
        let heads = || pair.heads.iter().chain(&other.heads);
        assert!(
            pair.device.save(heads()).is_err(),
            "two chains, of which it knows one"
        );
        let kept = pair.device.save([]).unwrap();
        assert_eq!(
            kept.heads,
            [],
            "a chain that is not saved is lost to the driver"
        );
    }
}

#[test]
fn chains_of_another_queue_are_not_saved() {
    everywhere(&Foreign);
}
