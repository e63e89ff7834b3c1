use super::*;

#[test]
fn a_thread_that_is_started_later_is_counted_too() {
    // Software events need no hardware. If even they are refused, this tests the refusal.
    let mut counter = match PerfCounter::open(PerfEvent::TaskClock) {
        Ok(counter) => counter,
        Err(error) => {
            assert!(matches!(error, PerfError::Forbidden(_)), "{error:?}");
            return;
        }
    };
    let before = counter.read().unwrap();
    std::thread::spawn(|| {
        // The loop is bounded by work and not by time: a busy host may give the thread no CPU for a
        // while.
        (0..5_000_000).for_each(|_| std::hint::spin_loop());
    })
    .join()
    .unwrap();
    let spent = counter.read().unwrap() - before;
    assert!(
        spent > 5e6,
        "only {spent} ns of a thread that span 5 million times"
    );
}

#[test]
fn every_event_has_perfs_name() {
    let names = PerfEvent::ALL.map(PerfEvent::name);
    assert_eq!(
        names,
        ["task-clock", "context-switches", "cycles", "instructions"]
    );
}

#[test]
fn a_refusal_says_whose_it_is() {
    let of = |errno| PerfError::from(io::Error::from_raw_os_error(errno)).to_string();
    assert!(of(libc::ENOENT).contains("no counter"));
    assert!(of(libc::EACCES).contains("paranoid"));
    assert!(of(libc::EINVAL).contains("cannot"));
}
