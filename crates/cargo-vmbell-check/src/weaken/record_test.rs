//! The reader understands what the library writes.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::process::Command;

use vmbell_check::{Explorer, Model};

use super::read;

unsafe extern "C" {
    fn __tsan_atomic64_store(address: *mut u64, value: u64, order: i32);
}

const RELEASE: i32 = 3;

/// The test is also the program that leaves the record.
#[test]
fn a_record_that_the_library_writes_is_read_whole() {
    if std::env::var_os("VMBELL_CHECK_WEAKEN").is_some() {
        let report = Explorer::new().models([Model::Rc11]).run(|scenario| {
            let word = scenario.memory().pointer().as_ptr().cast();
            scenario.task("driver", move || {
                // SAFETY: the shared memory is mapped while tasks run.
                unsafe { __tsan_atomic64_store(word, 1, RELEASE) };
                black_box(());
            });
        });
        report.unwrap().assert_complete();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "weaken::record::tests::a_record_that_the_library_writes_is_read_whole";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("VMBELL_CHECK_WEAKEN", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let records = read(folder.path()).unwrap();
    let [record] = &*records else {
        panic!("{records:?}")
    };
    assert_eq!(record.test, format!("cargo_vmbell_check {test}"));
    assert_eq!(record.models, ["RC11"]);
    assert_eq!(record.refused, None);
    let [site] = &*record.sites else {
        panic!("{record:?}")
    };
    assert_eq!(site["operation"], "store");
    assert_eq!(site["effects"]["RC11"]["least"], "Relaxed");
    assert!(record.is_minimal);
    // One exploration weakens the site alone, the other all sites together.
    assert_eq!((record.explorations, record.executions), (2, 2));
}
