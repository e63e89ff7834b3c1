//! The fuzz targets on stable Rust, with the same cases in every run: the cases of `seeds/`, for which libFuzzer has
//! found that they reach different code, and random cases, which are shrunk when they fail. A target that changes valid
//! data has only random cases.
//! `VMBELL_FUZZ_CASES` sets the number of random cases; `.ci/run` asks for more.
#![allow(
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, RngSeed, TestRunner};
use vmbell_fuzz::{device, device_tree, driver, image, pci, state, tables, vfio, virtio};

/// The random cases of each target.
const CASES: u32 = 2_000;
/// How many threads share the cases: one target takes as long as all others together.
const THREADS: u32 = 2;
/// The maximum number of bytes of a case: enough to fill the rings, which are small, more than once.
const LONGEST: usize = 512;

fn fuzz(target: fn(&[u8]), seeds: &str) {
    let mut replayed = 0;
    for line in seeds.lines() {
        target(&bytes(line));
        replayed += 1;
    }
    assert!(replayed > 100, "only {replayed} seeds: has the file moved?");
    fuzz_randomly(target);
}

fn fuzz_randomly(target: fn(&[u8])) {
    let cases = match std::env::var("VMBELL_FUZZ_CASES") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => CASES,
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || fuzz_part(target, cases / THREADS, u64::from(thread)));
        }
    });
}

fn fuzz_part(target: fn(&[u8]), cases: u32, part: u64) {
    let config = ProptestConfig {
        cases,
        // The default algorithm takes a quarter of the time of a debug build.
        rng_algorithm: RngAlgorithm::XorShift,
        rng_seed: RngSeed::Fixed(0x5eed + part),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let bytes = prop::collection::vec(any::<u8>(), 0..LONGEST);
    TestRunner::new(config)
        .run(&bytes, |bytes| {
            target(&bytes);
            Ok(())
        })
        .unwrap();
}

/// Parses a line of hexadecimal digits.
fn bytes(line: &str) -> Vec<u8> {
    let digits: Vec<u8> = line
        .chars()
        .map(|c| c.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

#[test]
fn a_driver_withstands_any_device() {
    fuzz(driver::fuzz, include_str!("../seeds/virtqueue_driver.hex"));
}

#[test]
fn a_device_withstands_any_driver() {
    fuzz(device::fuzz, include_str!("../seeds/virtqueue_device.hex"));
}

#[test]
fn a_queue_goes_on_from_any_state_or_refuses_it() {
    fuzz_randomly(state::fuzz);
}

#[test]
fn a_device_is_taken_from_any_device_tree() {
    fuzz(device_tree::fuzz, include_str!("../seeds/device_tree.hex"));
}

#[test]
fn an_assigned_device_and_its_guest_are_survived() {
    fuzz_randomly(pci::fuzz);
}

#[test]
fn a_vmm_may_tell_the_guest_image_anything() {
    fuzz_randomly(tables::fuzz);
}

#[test]
fn a_device_and_an_iommu_may_say_anything() {
    fuzz_randomly(vfio::fuzz);
}

#[test]
fn a_virtio_device_and_its_host_withstand_any_driver() {
    fuzz_randomly(virtio::fuzz);
}

#[test]
fn an_image_of_anybody_is_an_error_or_loaded_as_it_says() {
    fuzz_randomly(image::fuzz);
}
