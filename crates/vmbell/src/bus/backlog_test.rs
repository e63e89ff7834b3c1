use std::sync::atomic::AtomicU32;

use super::*;

/// Work in a number of pieces; each piece writes the work's name to a log.
struct Pieces {
    name: char,
    left: AtomicU32,
    log: Arc<Mutex<String>>,
}

impl Work for Pieces {
    fn go_on(&self) -> bool {
        self.log.lock().push(self.name);
        self.left.fetch_sub(1, Ordering::Relaxed) > 1
    }
}

fn pieces(name: char, count: u32, log: &Arc<Mutex<String>>) -> Arc<Pieces> {
    Arc::new(Pieces {
        name,
        left: AtomicU32::new(count),
        log: Arc::clone(log),
    })
}

#[test]
fn works_take_turns_until_each_is_finished() {
    let (backlog, log) = (Backlog::default(), Arc::default());
    backlog.leave(pieces('a', 3, &log));
    backlog.leave(pieces('b', 1, &log));
    while !backlog.is_empty() {
        backlog.serve();
    }
    assert_eq!(*log.lock(), "abaa");
    backlog.serve();
    assert_eq!(*log.lock(), "abaa", "nothing waits");
}

#[test]
fn work_that_waits_already_waits_once() {
    let (backlog, log) = (Backlog::default(), Arc::default());
    let work = pieces('a', 1, &log);
    backlog.leave(Arc::clone(&work) as Arc<dyn Work>);
    backlog.leave(work);
    backlog.serve();
    assert!(backlog.is_empty());
}

#[test]
fn debug_output_says_how_much_waits() {
    let (backlog, log) = (Backlog::default(), Arc::default());
    assert_eq!(format!("{backlog:?}"), "Backlog { len: 0 }");
    backlog.leave(pieces('a', 1, &log));
    assert_eq!(format!("{backlog:?}"), "Backlog { len: 1 }");
}
