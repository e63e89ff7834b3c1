//! Scenarios that cannot be explored: each ends with an error that says why, and never with a verdict.
#![allow(unsafe_code)]

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use vmbell_check::Order::{Relaxed, SeqCst};
use vmbell_check::{Error, Explorer, Load, Memory, Model, Report, Scenario, Shape, What, fence};

unsafe extern "C" {
    fn __tsan_atomic16_load(address: *const u16, order: i32) -> u16;
    fn __tsan_read2(address: *const u16);
    fn __tsan_read16(address: *const u64);
    fn __tsan_write16(address: *mut u64);
}

fn explore(set_up: impl FnMut(&mut Scenario)) -> Result<Report, Error> {
    Explorer::new().models([Model::Sc]).run(set_up)
}

fn error(set_up: impl FnMut(&mut Scenario)) -> String {
    let error = explore(set_up).expect_err("it cannot be explored");
    // A test that unwraps the report prints the error with `Debug`.
    assert_eq!(error.to_string(), format!("{error:?}"));
    error.to_string()
}

/// Loads a word as instrumented code does.
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
fn plain_accesses_of_16_bytes_that_hooks_announce_are_explored() {
    let report = explore(|scenario| {
        let pair: *mut [u64; 2] = scenario.memory().pointer().as_ptr().cast();
        scenario.task("driver", move || {
            // SAFETY: as compiled code does, the hook comes before the access to the same words.
            unsafe { __tsan_write16(pair.cast()) };
            // SAFETY: the words are in the shared memory.
            unsafe { pair.write_volatile([7, 8]) };
            // SAFETY: as above.
            unsafe { __tsan_read16(pair.cast()) };
            // SAFETY: as above.
            let value = unsafe { pair.read_volatile() };
            assert_eq!(value, [7, 8]);
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
fn a_ring_that_does_not_fit_its_memory_is_refused() {
    let refused = |shape| {
        error(|scenario| {
            let ring = scenario.ring(shape);
            unreachable!("the set-up ends before {ring:?} can be used")
        })
    };
    for (shape, reason) in [
        // The length of the table is a multiple of 2^16.
        (
            Shape::split(4096, true),
            "the descriptor table of a ring of 4096 ends at byte 65536",
        ),
        (
            Shape::packed(4096, true),
            "the descriptor ring of a ring of 4096 ends at byte 65536",
        ),
        (
            Shape::split(32768, false),
            "the descriptor table of a ring of 32768",
        ),
        (
            Shape::split(512, true),
            "the available ring of a ring of 512 ends at byte 9222",
        ),
        (
            Shape::packed(512, true),
            "the driver event of a ring of 512",
        ),
        (Shape::split(0, true), "a ring cannot have 0 descriptors"),
        (Shape::split(3, true), "a ring cannot have 3 descriptors"),
        (Shape::packed(0, true), "a ring cannot have 0 descriptors"),
        (Shape::packed(32769, true), "a ring cannot have 32769"),
    ] {
        let text = refused(shape);
        assert!(text.starts_with(reason), "{text}");
    }
    let text = error(|scenario| {
        scenario.ring_at(Shape::split(2, true), 0, 4096, 8190);
    });
    assert!(text.starts_with("the used ring of a ring of 2"), "{text}");
    // SAFETY: there is no task.
    let result = unsafe {
        Explorer::new().native(Duration::from_secs(600), |scenario| {
            scenario.ring(Shape::split(4096, true));
        })
    };
    let error = result.expect_err("the ring does not fit");
    assert!(matches!(error, Error::RingOutside { .. }), "{error}");
}

#[test]
fn the_largest_ring_that_fits_is_explored() {
    // 15 pages have 61,440 bytes, and the rings 53,262 and 61,400.
    for shape in [Shape::split(2048, true), Shape::packed(3837, true)] {
        let report = Explorer::new()
            .models([Model::Sc])
            .pages(15)
            .run(|scenario| {
                let ring = scenario.ring(shape);
                scenario.task("driver", ring.reference_driver(Load::new(1, 1)));
                scenario.background("device", ring.reference_device());
            });
        let report = report.expect("it can be explored");
        report.assert_complete().assert_no_failure();
    }
}

#[test]
fn more_bells_than_offsets_are_refused() {
    let result = Explorer::new().pages(15).run(|scenario| {
        for _ in 0..1000 {
            scenario.word("a word", &["a bit"]);
        }
    });
    let text = result.expect_err("it cannot be explored").to_string();
    assert!(
        text.contains("512 sleepers and words are too many after 61440 bytes"),
        "{text}"
    );
}

#[test]
fn a_panic_of_the_set_up_is_passed_on() {
    let panicked = std::panic::catch_unwind(|| error(|_| panic!("no such subject")));
    let payload = panicked.expect_err("it panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"no such subject"));
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

/// Runs a scenario in another process, which runs this same test and must end with this reason.
fn ends_process(test: &str, reason: &str, explore: impl FnOnce()) {
    const CHILD: &str = "VMBELL_CHECK_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return explore();
    }
    let program = std::env::current_exe().expect("the test has a program");
    let test = format!(
        "{}::{test}",
        module_path!().split_once("::").expect("a module").1
    );
    let output = Command::new(program)
        .args(["--exact", "--nocapture", &test])
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
fn a_stack_that_overflows_in_a_step_ends_the_process() {
    #[allow(unconditional_recursion, reason = "it overflows the stack, on purpose")]
    fn recurse(memory: Memory) {
        let bytes = std::hint::black_box([0_u8; 512]);
        memory.store(0, 2, 1, Relaxed);
        recurse(memory);
        std::hint::black_box(bytes);
    }
    let test = "a_stack_that_overflows_in_a_step_ends_the_process";
    ends_process(test, "did the task's stack of 256 KiB overflow?", || {
        let report = Explorer::new().run(|scenario| {
            let memory = scenario.memory();
            scenario.task("device", move || recurse(memory));
            scenario.task("driver", move || memory.store(0, 2, 1, Relaxed));
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
                    // Allocates slowly, so that the machine that runs the test does not suffer.
                    all.push(vec![1_u8; 1 << 20]);
                    thread::sleep(std::time::Duration::from_millis(2));
                }
            });
        });
        drop(report);
    });
}
