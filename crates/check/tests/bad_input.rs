//! Scenarios that cannot be explored: each ends with an error that says why, and never with a verdict.
#![allow(unsafe_code)]
#![allow(
    clippy::tests_outside_test_module,
    reason = "an integration test is a test module"
)]

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use vmbell_check::Order::{Relaxed, SeqCst};
use vmbell_check::{Error, Explorer, Model, Report, Scenario, What, fence};

unsafe extern "C" {
    fn __tsan_atomic16_load(address: *const u16, order: i32) -> u16;
    fn __tsan_read2(address: *const u16);
}

fn explore(set_up: impl FnMut(&mut Scenario)) -> Result<Report, Error> {
    Explorer::new().models([Model::Sc]).run(set_up)
}

fn error(set_up: impl FnMut(&mut Scenario)) -> String {
    explore(set_up)
        .expect_err("it cannot be explored")
        .to_string()
}

/// A load as instrumented code makes it.
fn hooked_load(word: *const u16) -> u16 {
    // SAFETY: the word is in the shared memory, which is mapped while a task runs.
    unsafe { __tsan_atomic16_load(word, 0) }
}

#[test]
fn code_without_instrumentation_is_refused() {
    let text = error(|scenario| {
        let word = scenario.memory().pointer();
        scenario.task("driver", move || {
            // SAFETY: the byte is in the shared memory.
            let _ = unsafe { word.as_ptr().read_volatile() };
        });
    });
    assert!(
        text.contains("run the test with `cargo vmbell-check test`"),
        "{text}"
    );
}

#[test]
fn a_single_load_that_no_hook_sees_is_refused_with_its_place() {
    let text = error(|scenario| {
        let word: *const u16 = scenario.memory().pointer().as_ptr().cast();
        scenario.name(0, 2, "used.idx");
        scenario.task("driver", move || {
            hooked_load(word);
            // SAFETY: the word is in the shared memory.
            let _ = unsafe { word.read_volatile() };
        });
    });
    assert!(text.contains("the load of used.idx at"), "{text}");
    assert!(text.contains("is not instrumented"), "{text}");
}

#[test]
fn a_store_that_no_hook_sees_is_refused() {
    let text = error(|scenario| {
        let word: *mut u16 = scenario.memory().pointer().as_ptr().cast();
        scenario.task("driver", move || {
            hooked_load(word);
            // SAFETY: the word is in the shared memory.
            unsafe { word.write_volatile(1) };
        });
    });
    assert!(text.contains("the store of byte 0 at"), "{text}");
}

#[test]
fn a_plain_load_that_a_hook_announces_is_explored() {
    let report = explore(|scenario| {
        let word: *const u16 = scenario.memory().pointer().as_ptr().cast();
        scenario.memory().preset(0, &[7, 0]);
        scenario.task("driver", move || {
            // SAFETY: as compiled code does, the hook comes before the load of the same word.
            unsafe { __tsan_read2(word) };
            // SAFETY: the word is in the shared memory.
            let value = unsafe { word.read_volatile() };
            assert_eq!(value, 7);
        });
    });
    report
        .expect("it can be explored")
        .assert_complete()
        .assert_no_failure();
}

#[test]
fn an_access_from_another_thread_is_refused() {
    let text = error(|scenario| {
        let word = scenario.memory().pointer().as_ptr().addr();
        scenario.task("device", move || {
            let worker =
                thread::spawn(move || hooked_load(std::ptr::with_exposed_provenance(word)));
            worker.join().expect("the thread ends");
        });
    });
    assert!(
        text.contains("accesses byte 0 from a separate thread"),
        "{text}"
    );
}

#[test]
fn a_task_that_differs_between_two_runs_is_refused() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let text = error(|scenario| {
        let memory = scenario.memory();
        scenario.task("driver", move || {
            memory.store(0, 8, RUNS.fetch_add(1, Ordering::Relaxed), Relaxed);
        });
        scenario.task("device", move || {
            memory.load(0, 8, Relaxed);
        });
    });
    assert!(
        text.contains("of driver differs between two runs"),
        "{text}"
    );
}

#[test]
fn a_set_up_that_differs_is_refused() {
    let mut runs = 0;
    let text = error(|scenario| {
        runs += 1;
        scenario.memory().preset(0, &[runs]);
        scenario.task("driver", || ());
    });
    assert!(text.contains("different initial values"), "{text}");
}

#[test]
fn an_execution_without_end_is_refused() {
    let text = error(|scenario| {
        let memory = scenario.memory();
        scenario.task("driver", move || {
            loop {
                memory.store(0, 2, 1, Relaxed);
            }
        });
    });
    assert!(
        text.contains("more than 4000 steps; driver took the last"),
        "{text}"
    );
}

#[test]
fn more_tasks_than_a_clock_has_are_refused() {
    let text = error(|scenario| (0..7).for_each(|_| scenario.task("task", || ())));
    assert!(
        text.contains("7 tasks cannot be explored: the limit is 6"),
        "{text}"
    );
}

#[test]
fn more_fences_than_rc11_can_order_are_refused() {
    let report = Explorer::new().models([Model::Rc11]).run(|scenario| {
        scenario.task("driver", || (0..200).for_each(|_| fence(SeqCst)));
    });
    let text = report.expect_err("it cannot be explored").to_string();
    assert!(
        text.contains("more than 127 sequentially consistent"),
        "{text}"
    );
}

#[test]
fn more_memory_than_an_offset_can_name_is_refused() {
    let report = Explorer::new().pages(16).run(|_| ());
    let text = report.expect_err("it cannot be explored").to_string();
    assert!(
        text.contains("16 pages of shared memory are too many"),
        "{text}"
    );
}

#[test]
fn a_panic_is_a_failure_with_its_place() {
    let report = explore(|scenario| {
        let memory = scenario.memory();
        scenario.task("driver", move || {
            let value = memory.load(0, 2, Relaxed);
            assert_eq!(value, 0, "the ring has {value}");
        });
        scenario.task("device", move || memory.store(0, 2, 5, Relaxed));
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("it panics in one execution");
    let What::Panicked(text) = &failure.what else {
        panic!("{report}")
    };
    assert!(
        text.contains("the ring has 5") && text.contains("bad_input.rs:"),
        "{text}"
    );
}

/// Runs a scenario in another process, by the same test, which must end with this reason.
fn ends_process(test: &str, reason: &str, explore: impl FnOnce()) {
    const CHILD: &str = "VMBELL_CHECK_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return explore();
    }
    let program = std::env::current_exe().expect("the test has a program");
    let output = Command::new(program)
        .args(["--exact", "--nocapture", test])
        .env(CHILD, "1")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains(reason), "{text}");
}

#[test]
fn a_loop_without_steps_ends_the_process() {
    let (test, reason) = (
        "a_loop_without_steps_ends_the_process",
        "device has taken no step for 3 s",
    );
    ends_process(test, reason, || {
        let report = Explorer::new().patience(3).run(|scenario| {
            scenario.task("device", || {
                loop {
                    std::hint::spin_loop();
                }
            });
        });
        drop(report);
    });
}

#[test]
fn a_mutex_that_is_held_across_a_wait_ends_the_process() {
    static LOCK: Mutex<()> = Mutex::new(());
    let test = "a_mutex_that_is_held_across_a_wait_ends_the_process";
    ends_process(test, "wait for a mutex", || {
        let report = Explorer::new().patience(3).run(|scenario| {
            let sleeper = scenario.sleeper("driver", &["interrupt"]);
            scenario.task("driver", move || {
                let _lock = LOCK.lock();
                sleeper.wait();
            });
            scenario.task("device", move || {
                let _lock = LOCK.lock();
                sleeper.bell(0).signal();
            });
        });
        drop(report);
    });
}

#[test]
fn memory_without_end_ends_the_process() {
    let test = "memory_without_end_ends_the_process";
    ends_process(test, "does it allocate without end?", || {
        let report = Explorer::new().process_memory(256 << 20).run(|scenario| {
            scenario.task("device", || {
                let mut all = Vec::new();
                loop {
                    // Slowly, so that the machine that runs the test does not suffer.
                    all.push(vec![1_u8; 1 << 20]);
                    thread::sleep(std::time::Duration::from_millis(2));
                }
            });
        });
        drop(report);
    });
}
