//! Runs accesses on several threads and takes the time of the whole.

use std::{
    hint::black_box,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// The time from the first thread's first access to the last one's last, of `accesses` on each.
pub fn wall<A: FnMut(u64) -> bool>(
    threads: usize,
    order: &[u64],
    accesses: u64,
    accessor: impl Fn() -> A + Sync,
) -> Duration {
    let start = Barrier::new(threads);
    let run = |offset: usize| {
        let mut access = accessor();
        start.wait();
        let begin = Instant::now();
        let mut left = accesses;
        let mut at = offset % order.len();
        while left > 0 {
            for &address in order[at..]
                .iter()
                .take(usize::try_from(left).unwrap_or(usize::MAX))
            {
                assert!(access(black_box(address)), "a miss");
                left -= 1;
            }
            at = 0;
        }
        (begin, Instant::now())
    };
    let spans: Vec<(Instant, Instant)> = if threads == 1 {
        vec![run(0)]
    } else {
        thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || run(thread * 7919)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a reader panicked"))
                .collect()
        })
    };
    let begin = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    match (begin, end) {
        (Some(begin), Some(end)) => end - begin,
        _ => Duration::ZERO,
    }
}
